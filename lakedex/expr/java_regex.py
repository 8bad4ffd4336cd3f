r"""Translation of Java's regular expressions to RE2.

Spark matches with Java's engine, Arrow with RE2. Both take the leftmost match and try alternatives
in order, and most patterns have the same meaning in both. The translator reads a pattern part by
part. Supported parts are written out (`.` and `\s` as the characters that they match in Java). All
others are rejected by name: look-around, back references, possessive quantifiers, word boundaries,
Unicode classes, flags, and repetitions of something that may be empty.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lakedex.errors import UnsupportedFeature

LINE_ENDS: Final = r"\n\r\x{85}\x{2028}\x{2029}"
"""The line terminators of Java, for use inside brackets."""
_CLASSES = {"d": "0-9", "w": "a-zA-Z_0-9", "s": r" \t\n\x{b}\f\r"}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_PLAIN = frozenset(string.ascii_letters + string.digits)
_MOST_REPEATS = 200
_MOST_NESTED = 30


@dataclass(frozen=True, slots=True)
class Translated:
    """A pattern for RE2."""

    text: str
    groups: int
    """The number of capturing groups."""
    may_be_empty: bool
    """Whether it matches the empty string."""
    asks_for_end: bool
    """Whether it contains `$`, which in Java also matches before a final line terminator."""
    repeated: frozenset[int]
    """The groups inside a repetition."""


def to_re2(pattern: str, opening: Callable[[int], str] = lambda _: "(") -> Translated:
    r"""Translate a pattern.

    Args:
        pattern: A Java pattern.
        opening: From the number of a group to its opening in the result.

    Raises:
        UnsupportedFeature: A part of the pattern may have another meaning in RE2.

    Example:
        >>> to_re2(r"(\d+)-x").text
        '([0-9]+)\\x{2d}x'
    """
    reader = _Reader(pattern, opening)
    text, may_be_empty = reader.alternatives()
    if reader.at < len(pattern):
        raise reader.refused(f"a {pattern[reader.at]!r} without its beginning")
    return Translated(
        text, reader.groups, may_be_empty, reader.asks_for_end, frozenset(reader.repeated)
    )


@dataclass(slots=True)
class _Reader:
    pattern: str
    opening: Callable[[int], str]
    at: int = 0
    groups: int = 0
    depth: int = 0
    asks_for_end: bool = False
    repeated: set[int] = field(default_factory=set)

    @property
    def now(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        found = self.now
        if not found:
            raise self.refused("an end in the middle")
        self.at += 1
        return found

    def refused(self, what: str) -> UnsupportedFeature:
        return UnsupportedFeature(f"the regular expression {self.pattern!r} with {what}")

    def alternatives(self) -> tuple[str, bool]:
        texts, may_be_empty = [], False
        while True:
            text, is_empty = self.sequence()
            texts.append(text)
            may_be_empty = may_be_empty or is_empty
            if self.now != "|":
                return "|".join(texts), may_be_empty
            self.at += 1

    def sequence(self) -> tuple[str, bool]:
        text, may_be_empty = "", True
        while self.now and self.now not in "|)":
            first = self.groups
            piece, is_empty, is_anchor = self.atom()
            sign, fewest, most = self.quantifier()
            if sign and (is_anchor or is_empty):
                raise self.refused("a repetition of what may be empty")
            if most != 1:
                self.repeated.update(range(first + 1, self.groups + 1))
            text += piece + sign
            may_be_empty = may_be_empty and (is_empty or fewest == 0)
        return text, may_be_empty

    def atom(self) -> tuple[str, bool, bool]:
        """A part, whether it may be empty, and whether it matches a position, not characters."""
        sign = self.take()
        match sign:
            case "(":
                return (*self.group(), False)
            case "[":
                return self.bracket(), False, False
            case ".":
                return f"[^{LINE_ENDS}]", False, False
            case "^":
                return r"\A", True, True
            case "$":
                self.asks_for_end = True
                return r"\z", True, True
            case "\\":
                return self.escape(), False, False
        if sign in _SPECIAL:
            raise self.refused(f"a {sign!r} that has nothing before it")
        return _literal(sign), False, False

    def group(self) -> tuple[str, bool]:
        opening = "(?:"
        if self.now == "?":
            self.at += 1
            if self.take() != ":":
                raise self.refused("a group that begins with '(?'")
        else:
            self.groups += 1
            opening = self.opening(self.groups)
        self.depth += 1
        if self.depth > _MOST_NESTED:
            raise self.refused("groups nested that deeply")
        text, may_be_empty = self.alternatives()
        self.depth -= 1
        if self.take() != ")":
            raise self.refused("a group without its end")
        return f"{opening}{text})", may_be_empty

    def escape(self) -> str:
        sign = self.take()
        if sign.lower() in _CLASSES:
            negation = "^" if sign.isupper() else ""
            return f"[{negation}{_CLASSES[sign.lower()]}]"
        return self.escaped_character(sign)

    def escaped_character(self, sign: str) -> str:
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign in _PLAIN or not sign.isascii() or not sign.isprintable():
            raise self.refused(rf"'\{sign}'")
        return _literal(sign)

    def bracket(self) -> str:
        """The content of brackets: characters, ranges, and predefined classes."""
        text = "["
        if self.now == "^":
            self.at += 1
            text += "^"
        start = self.at
        while self.now != "]":
            text += self.member(is_first=self.at == start)
        if self.at == start:
            raise self.refused("brackets around nothing")
        self.at += 1
        return text + "]"

    def member(self, *, is_first: bool) -> str:
        sign = self.take()
        if sign == "\\":
            sign = self.take()
            if sign in _CLASSES:
                return _CLASSES[sign]
            low = self.escaped_character(sign)
            if sign in _CONTROLS:
                return low
        elif sign == "-" and not (is_first or self.now == "]"):
            raise self.refused("a '-' in the middle of brackets")
        elif sign in "[&^":
            raise self.refused(f"{sign!r} in brackets")
        else:
            low = _literal(sign)
        following = self.pattern[self.at + 1 : self.at + 2]
        if sign == "-" or self.now != "-" or following in ("]", ""):
            return low
        self.at += 1
        high = self.take()
        if high in "\\[&^" or high < sign:
            raise self.refused("a range of that kind in brackets")
        return f"{low}-{_literal(high)}"

    def quantifier(self) -> tuple[str, int, int | None]:
        """A repetition in the pattern's notation, with its least and greatest number of repeats."""
        sign = self.now
        if not sign or sign not in "*+?{":
            return "", 1, 1
        self.at += 1
        fewest, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign, (0, 0))
        if sign == "{":
            sign, fewest, most = self.counted()
        if self.now == "+":
            raise self.refused("a possessive repetition")
        if self.now == "?":
            self.at += 1
            sign += "?"
        if self.now and self.now in "*+?{":
            raise self.refused("a repetition of a repetition")
        return sign, fewest, most

    def counted(self) -> tuple[str, int, int | None]:
        end = self.pattern.find("}", self.at)
        low, comma, high = self.pattern[self.at : end].partition(",")
        numbers = [low, *([high] if high else [])]
        if end < 0 or not all(each.isascii() and each.isdigit() for each in numbers):
            raise self.refused("a '{' that is no number of repetitions")
        if any(len(each) > 3 or int(each) > _MOST_REPEATS for each in numbers):
            raise self.refused(f"more than {_MOST_REPEATS} repetitions")
        self.at = end + 1
        most = int(high) if high else (None if comma else int(low))
        if most is not None and most < max(1, int(low)):
            raise self.refused("repetitions that cannot be")
        return f"{{{low}{comma}{high}}}", int(low), most


def _literal(sign: str) -> str:
    return sign if sign in _PLAIN else rf"\x{{{ord(sign):x}}}"
