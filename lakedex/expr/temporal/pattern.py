"""Spark's date patterns (`yyyy-MM-dd HH:mm:ss`), taken apart.

A run of one letter is a field, text in single quotes and all other characters stand for
themselves, two single quotes for one. Only the fields listed here are understood; every other
letter is refused by name, because guessing would give other strings than Spark does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from lakedex.errors import InvalidDefinition, UnsupportedFeature

_LONGEST_RUN = {
    "y": 6,
    "u": 6,
    "M": 4,
    "L": 4,
    "d": 2,
    "H": 2,
    "h": 2,
    "m": 2,
    "s": 2,
    "S": 9,
    "E": 4,
    "a": 1,
}
_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|'")
_RESERVED = frozenset("[]{}#")
_SIGNIFICANCE = ("yyyy", "MM", "dd", "HH", "mm", "ss")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a pattern: its letter and how often it is repeated."""

    letter: str
    count: int


@lru_cache(maxsize=256)
def parse_pattern(pattern: str) -> tuple[str | Field, ...]:
    """Cut a pattern into literal texts and fields.

    Raises:
        InvalidDefinition: for an open quote.
        UnsupportedFeature: for a letter or a width that is not implemented.

    Example:
        >>> parse_pattern("yyyy'y'")
        (Field(letter='y', count=4), 'y')
    """
    tokens: list[str | Field] = []
    for found in _TOKEN.finditer(pattern):
        text = found.group()
        if text == "'":
            raise InvalidDefinition(
                f"date pattern {pattern!r} has an open quote", position=found.start()
            )
        if text.startswith("'"):
            tokens.append(text[1:-1].replace("''", "'") or "'")
        elif found.group(1):
            tokens.append(_field(text, pattern))
        elif _RESERVED & set(text):
            raise UnsupportedFeature(f"date pattern {pattern!r} with optional or reserved signs")
        else:
            tokens.append(text)
    return tuple(tokens)


def sorts_as_time(pattern: str) -> bool:
    """Whether the formatted strings sort as the times do, for the years 0 to 9999.

    True when the fields go from year downwards with none left out, each of fixed width; a
    fraction of a second may end them. `MM-yyyy`, `yy` and `yyyy-dd` do not sort.

    Example:
        >>> sorts_as_time("yyyy-MM-dd"), sorts_as_time("dd.MM.yyyy"), sorts_as_time("yyyy-M")
        (True, False, False)
    """
    try:
        tokens = parse_pattern(pattern)
    except (InvalidDefinition, UnsupportedFeature):
        return False
    fields = [token.letter * token.count for token in tokens if isinstance(token, Field)]
    fields = [field.replace("u", "y").replace("L", "M") for field in fields]
    if len(fields) == len(_SIGNIFICANCE) + 1 and set(fields[-1]) == {"S"}:
        fields = fields[:-1]
    return bool(fields) and tuple(fields) == _SIGNIFICANCE[: len(fields)]


def _field(text: str, pattern: str) -> Field:
    letter = text[0]
    if len(text) > _LONGEST_RUN.get(letter, 0):
        raise UnsupportedFeature(f"field {text[:40]!r} of date pattern {pattern[:80]!r}")
    return Field(letter, len(text))
