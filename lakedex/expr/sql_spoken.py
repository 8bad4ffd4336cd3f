"""Calls whose arguments are told apart by words: EXTRACT, TRIM and SUBSTRING with FROM.

EXTRACT (field FROM time)
TRIM ([BOTH | LEADING | TRAILING] [characters] FROM text)
SUBSTRING (text FROM start [FOR count])

`date_part('field', time)` is EXTRACT with commas.
"""

from __future__ import annotations

from typing import Protocol

from lakedex.errors import InvalidDefinition
from lakedex.expr.sql_lexer import Kind, Token
from lakedex.expr.tree import Call, Expr

_FIELDS = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    **dict.fromkeys(("day", "d", "days"), "dayofmonth"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    "doy": "dayofyear",
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
}
_SIDES = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_SPOKEN = frozenset(["EXTRACT", "TRIM", "SUBSTRING", "SUBSTR"])


class Reader(Protocol):
    """What is asked of the parser; its place is at the opening parenthesis."""

    tokens: list[Token]
    place: int

    @property
    def now(self) -> Token:
        """The token at the place."""

    def take(self) -> Token:
        """The token at the place, which moves on."""

    def accept(self, *keywords: str) -> bool:
        """Whether one of these stood here; then the place moves on."""

    def expect(self, keyword: str) -> None:
        """Move on over a keyword that must stand here."""

    def expression(self, least: int) -> Expr:
        """What stands here, up to operators that bind less."""


def spoken_call(reader: Reader, name: str, lowest: int) -> Expr | None:
    """The call, if it is written with FROM; else None, and nothing is read.

    Args:
        reader: At the parenthesis behind the name.
        name: In capitals.
        lowest: Where an argument starts to be read.

    Raises:
        InvalidDefinition: There is no such field.
    """
    if name not in _SPOKEN or not _has_from(reader):
        return None
    reader.expect("(")
    if name == "EXTRACT":
        field = reader.take().value
        reader.expect("FROM")
        found: Expr = part_of_time(field, reader.expression(lowest))
    elif name == "TRIM":
        found = _trimmed(reader, lowest)
    else:
        arguments = [reader.expression(lowest)]
        reader.expect("FROM")
        arguments.append(reader.expression(lowest))
        if reader.accept("FOR"):
            arguments.append(reader.expression(lowest))
        found = Call("substring", tuple(arguments))
    reader.expect(")")
    return found


def part_of_time(field: str, time: Expr) -> Call:
    """A part of a time by its name, as EXTRACT has it.

    Raises:
        InvalidDefinition: There is no such part, or it is no whole number.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> part_of_time("DOW", Column(("ts",))).function
        'dayofweek'
    """
    function = _FIELDS.get(field.lower())
    if function is None:
        raise InvalidDefinition(f"{field!r} of a time is not known (only {', '.join(_FIELDS)})")
    return Call(function, (time,))


def _trimmed(reader: Reader, lowest: int) -> Expr:
    side = _SIDES.get(reader.now.keyword, "")
    if side:
        reader.take()
    characters = () if reader.now.keyword == "FROM" else (reader.expression(lowest),)
    reader.expect("FROM")
    return Call(side or "trim", (reader.expression(lowest), *characters))


def _has_from(reader: Reader) -> bool:
    """Whether FROM stands in the parentheses that open here, and in none inside of them."""
    depth = 0
    for place in range(reader.place, len(reader.tokens)):
        token = reader.tokens[place]
        depth += {"(": 1, ")": -1}.get(token.keyword, 0)
        if token.kind is Kind.END or not depth:
            return False
        if depth == 1 and token.keyword == "FROM":
            return True
    return False
