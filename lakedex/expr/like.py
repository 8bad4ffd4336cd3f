"""SQL LIKE: its pattern as parts, as a regular expression, and as a range of strings.

`%` matches any characters, `_` exactly one character (a code point), everything else itself. The
match is case-sensitive, and line breaks are ordinary characters. The escape character may only
precede `%`, `_` and itself; anything else is an error, as in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidDefinition, UnsupportedFeature
from lakedex.expr.arrays import Datum

_LAST_BEFORE_SURROGATES = 0xD7FF
_FIRST_AFTER_SURROGATES = 0xE000
_LAST_CODE_POINT = 0x10FFFF


class Wildcard(Enum):
    """The two wildcards of LIKE."""

    MANY = "%"
    ONE = "_"


@dataclass(frozen=True, slots=True)
class LikePattern:
    """A pattern, split into literal strings and wildcards."""

    parts: tuple[str | Wildcard, ...]

    @property
    def prefix(self) -> str:
        """The string with which every match starts."""
        head = self.parts[0] if self.parts else ""
        return head if isinstance(head, str) else ""

    @property
    def is_exact(self) -> bool:
        """Whether the pattern has no wildcard, so that LIKE is equality with the prefix."""
        return all(isinstance(part, str) for part in self.parts)

    @property
    def is_prefix(self) -> bool:
        """Whether the pattern is `prefix%`, so that LIKE is a test of the prefix only."""
        rest = self.parts[1:] if self.prefix else self.parts
        return bool(rest) and all(part is Wildcard.MANY for part in rest)


def parse_like(pattern: str, escape: str = "\\") -> LikePattern:
    r"""Split a LIKE pattern into its parts.

    Raises:
        InvalidDefinition: The escape character is at the end or before a plain character.

    Example:
        >>> parse_like("10\\%_%").parts
        ('10%', <Wildcard.ONE: '_'>, <Wildcard.MANY: '%'>)
    """
    if len(escape) != 1:
        raise InvalidDefinition(f"the escape of LIKE must be one character, not {escape!r}")
    parts: list[str | Wildcard] = []
    text: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == escape:
            text.append(_escaped(pattern, position, escape))
            position += 1
        elif character in "%_":
            parts += ["".join(text)] if text else []
            text = []
            parts.append(Wildcard(character))
        else:
            text.append(character)
    parts += ["".join(text)] if text else []
    return LikePattern(tuple(parts))


def like_regex(pattern: LikePattern) -> str:
    r"""The pattern as an RE2 expression over the whole string.

    Example:
        >>> like_regex(parse_like("a.%"))
        '(?s)\\Aa\\..*\\z'
    """
    pieces = ["(?s)\\A"]
    for part in pattern.parts:
        if part is Wildcard.MANY:
            pieces.append(".*")
        elif part is Wildcard.ONE:
            pieces.append(".")
        else:
            pieces.append(_quoted(str(part)))
    return "".join([*pieces, "\\z"])


def matches_like(values: Datum, pattern: LikePattern) -> Datum:
    """Whether the strings match; null for a null.

    Example:
        >>> matches_like(pa.array(["bob", "B", None]), parse_like("b%")).to_pylist()
        [True, False, None]
    """
    if pattern.is_exact:
        return pc.equal(values, pa.scalar(pattern.prefix, values.type))
    if pattern.is_prefix:
        return pc.starts_with(values, pattern=pattern.prefix)
    try:
        return pc.match_substring_regex(values, pattern=like_regex(pattern))
    except pa.ArrowInvalid as error:
        raise UnsupportedFeature(f"LIKE with a pattern of {len(pattern.parts)} parts") from error


def prefix_successor(prefix: str) -> str | None:
    r"""The least string, by UTF-8 bytes, above every string that starts with `prefix`.

    None if there is none, because the prefix is empty or consists of U+10FFFF only. The code points
    of surrogates are skipped, because UTF-8 cannot represent them.

    Example:
        >>> prefix_successor("ab"), prefix_successor("a\U0010ffff"), prefix_successor("\ud7ff")
        ('ac', 'b', '\ue000')
    """
    kept = prefix.rstrip(chr(_LAST_CODE_POINT))
    if not kept:
        return None
    last = ord(kept[-1])
    following = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else last + 1
    return kept[:-1] + chr(following)


def _escaped(pattern: str, position: int, escape: str) -> str:
    if position == len(pattern):
        raise InvalidDefinition(
            f"LIKE pattern {pattern!r} ends with its escape character", position=position - 1
        )
    character = pattern[position]
    if character not in ("%", "_", escape):
        raise InvalidDefinition(
            f"LIKE pattern {pattern!r}: the escape character may not precede {character!r}",
            position=position - 1,
        )
    return character


def _quoted(text: str) -> str:
    return "".join(_quoted_character(character) for character in text)


def _quoted_character(character: str) -> str:
    if character.isalnum() or ord(character) > 0x7F or character == "_":
        return character
    return f"\\x{ord(character):02x}" if character < " " else f"\\{character}"
