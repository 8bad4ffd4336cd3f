r"""Which pieces of text a value must contain for a condition to be true.

A condition becomes alternatives; each of them is a set of pieces, all of which stand in every value
for which the condition is true. Conditions without such pieces are not answered.

    message LIKE 'error%disk_7'     "error" at the start, "disk", "7" at the end
    message RLIKE 'disk|(?:a+)bc'   "disk", or "bc"

Texts are compared after `folded`, which maps ASCII capitals to small letters and the two other
characters whose lower case contains an ASCII letter to their lower case. It maps character by
character, so that it keeps containment. A condition on `lower(column)` sees the lower case of all
characters: only the ASCII parts of its constants can be looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from lakedex.errors import LakedexError
from lakedex.expr.like import LikePattern, parse_like
from lakedex.expr.tree import Call, Column, Compare, Expr, In, Like, Literal, Op, StartsWith

KELVIN, KELVIN_LOWER = "\u212a", "k"
DOTTED_I, DOTTED_I_LOWER = "\u0130", "i\u0307"
_FOLDED: Final = str.maketrans(
    {chr(code): chr(code + 32) for code in range(ord("A"), ord("Z") + 1)}
    | {KELVIN: KELVIN_LOWER, DOTTED_I: DOTTED_I_LOWER}
)
_ASCII_RUN = re.compile(r"[\x00-\x7f]+")
_LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Piece:
    """A text that stands somewhere in a value, or at its start or end."""

    text: str
    at_start: bool = False
    at_end: bool = False


Alternatives = list[list[Piece]]


def folded(text: str) -> str:
    r"""A text as the index compares it.

    Example:
        >>> folded("Disk \u212a7 ÄÖ")
        'disk k7 ÄÖ'
    """
    return text.translate(_FOLDED)


def required_pieces(condition: Expr, column: tuple[str, ...]) -> Alternatives | None:
    """The pieces that a value of a column must contain; None if the condition requires none.

    Args:
        condition: A condition without AND and OR.
        column: The path of the column.

    Example:
        >>> from lakedex.expr import parse_predicate
        >>> required_pieces(parse_predicate("m LIKE 'ab%'"), ("m",))
        [[Piece(text='ab', at_start=True, at_end=False)]]
    """
    try:
        child, alternatives = _parts(condition)
    except LakedexError:
        return None  # a pattern that is wrong, or not understood
    if alternatives is None:
        return None
    if isinstance(child, Call) and child.function == _LOWER:
        (child,) = child.arguments
        alternatives = [list(chain.from_iterable(map(_ascii, each))) for each in alternatives]
    if not isinstance(child, Column) or child.path != column:
        return None
    return alternatives if all(alternatives) else None


def _parts(condition: Expr) -> tuple[Expr | None, Alternatives | None]:
    """What a condition is about, and what its constant requires."""
    match condition:
        case Compare(Op.EQ | Op.EQ_NULL_SAFE, child, Literal(str() as value, _)):
            return child, [[Piece(value, at_start=True, at_end=True)]]
        case In(child, values):
            texts = [each.value for each in values if each.value is not None]
            exact = [[Piece(text, True, True)] for text in texts if isinstance(text, str)]  # noqa: FBT003
            return child, exact if exact and len(exact) == len(texts) else None
        case StartsWith(child, prefix):
            return child, [[Piece(prefix, at_start=True)]]
        case Like(child, pattern, escape):
            return child, [_pieces_of_like(parse_like(pattern, escape))]
        case Call(name, (child, Literal(str() as value, _), *_)) if name in _OF_CALL:
            return child, _OF_CALL[name](value)
    return None, None


def _pieces_of_like(pattern: LikePattern) -> list[Piece]:
    parts = pattern.parts
    last = len(parts) - 1
    return [
        Piece(part, at_start=at == 0, at_end=at == last)
        for at, part in enumerate(parts)
        if isinstance(part, str)
    ]


def _ascii(piece: Piece) -> Iterator[Piece]:
    """The runs of ASCII characters of a piece."""
    for run in _ASCII_RUN.finditer(piece.text):
        yield Piece(
            run.group(),
            at_start=piece.at_start and run.start() == 0,
            at_end=piece.at_end and run.end() == len(piece.text),
        )


def _pieces_of_regex(pattern: str) -> Alternatives:
    return [[Piece(text) for text in texts] for texts in _RegexReader(pattern).alternatives()]


class _NotReadable(LakedexError):
    """A part of a regular expression that may mean something else than it seems to."""


@dataclass(slots=True)
class _RegexReader:
    r"""Reads the texts off a Java regular expression that every match contains.

    Texts inside of groups are not used. Whatever could change the meaning of what follows, such as
    `(?i)` or `\Q`, makes the pattern unreadable.
    """

    pattern: str
    at: int = 0

    def alternatives(self) -> list[list[str]]:
        found = [[""]]
        while self.at < len(self.pattern):
            sign = self._take()
            if sign == "|":
                found.append([""])
            else:
                self._element(sign, found[-1])
        return [[text for text in texts if text] for texts in found]

    def _element(self, sign: str, texts: list[str]) -> None:
        """Read one element with its quantifier; the last of the texts is the one that goes on."""
        character = self._character(sign)
        fewest, is_repeated = self._quantifier()
        if character is None or not fewest:
            texts.append("")
            return
        texts[-1] += character
        if is_repeated:
            texts.append("")

    def _character(self, sign: str) -> str | None:
        """The character that an element stands for; None if it may be any of several."""
        if sign == "\\":
            return self._escaped()
        if sign == "(":
            self._group()
            return None
        if sign == "[":
            self._bracket()
            return None
        if sign in ".^$":
            return None
        if sign in "*+?{)":
            raise _NotReadable(sign)
        return sign

    def _escaped(self) -> str | None:
        sign = self._take()
        if not sign.isascii() or not sign.isalnum():
            return sign
        if sign not in "dDwWsSbBAZztnrfae":
            raise _NotReadable(sign)
        return None

    def _group(self) -> None:
        """Skip a group and those inside of it."""
        depth = 1
        self._group_start()
        while depth:
            sign = self._take()
            if sign == "\\":
                self._escaped()
            elif sign == "[":
                self._bracket()
            elif sign == "(":
                self._group_start()
                depth += 1
            elif sign == ")":
                depth -= 1

    def _group_start(self) -> None:
        if self.pattern.startswith("?", self.at) and not self.pattern.startswith("?:", self.at):
            raise _NotReadable(self.pattern[self.at :])

    def _bracket(self) -> None:
        """Skip a character class."""
        if self.pattern.startswith("^", self.at):
            self.at += 1
        if self.pattern.startswith("]", self.at):
            raise _NotReadable("]")
        while (sign := self._take()) != "]":
            if sign == "\\":
                self._escaped()
            elif sign in "[&":
                raise _NotReadable(sign)

    def _quantifier(self) -> tuple[int, bool]:
        """How often an element occurs at least, and whether it may occur more than once."""
        bounds = re.compile(r"([*+?])|\{([0-9]{1,4})(,[0-9]{0,4})?\}").match(self.pattern, self.at)
        if bounds is None:
            if self.pattern.startswith("{", self.at):
                raise _NotReadable("{")
            return 1, False
        self.at = bounds.end()
        if self.pattern[self.at : self.at + 1] in ("?", "+"):
            self.at += 1
        sign, count, _ = bounds.groups()
        return (int(sign == "+") if sign else int(count)), True

    def _take(self) -> str:
        if self.at >= len(self.pattern):
            raise _NotReadable(self.pattern)
        self.at += 1
        return self.pattern[self.at - 1]


_OF_CALL: Final[dict[str, Callable[[str], Alternatives]]] = {
    "contains": lambda text: [[Piece(text)]],
    "startswith": lambda text: [[Piece(text, at_start=True)]],
    "endswith": lambda text: [[Piece(text, at_end=True)]],
    "rlike": _pieces_of_regex,
}
