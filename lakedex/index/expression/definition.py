"""What an expression index is about: its definition as an expression of the tree."""

from __future__ import annotations

import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.expr.bind import bind, bound_type
from lakedex.expr.tree import Call, Column, Expr, Literal
from lakedex.index.definitions import IndexDefinition

BLOOM_FLAVOUR = "bloom_filters"
_IDENTITY = "identity"
_ARGUMENT_OPTIONS = ("format", "days", "pos", "len")
"""The options that are arguments of the function, in the order of its parameters."""
_NUMBERS = frozenset(["days", "pos", "len"])
_UNREAD_OPTIONS = frozenset(["trimString", "idx", "replacement", "pattern"])
_ZONED_FUNCTIONS = frozenset(
    ["from_unixtime", "unix_timestamp", "to_unix_timestamp", "to_timestamp", "to_date"]
)


_FREE_OF_ZONES = frozenset(
    ["identity", "upper", "lower", "trim", "ltrim", "rtrim", "length", "substring"]
)


def indexed_expression(definition: IndexDefinition, schema: pa.Schema, zone: str) -> Expr | str:
    """The bound expression that an index covers, or why it cannot be told.

    Example:
        >>> one = IndexDefinition("expr_index_d", "column_stats", "date_format", ("ts",),
        ...                       {"expr": "date_format", "format": "yyyy-MM-dd"}, 2)
        >>> schema = pa.schema([("ts", pa.timestamp("us", "UTC"))])
        >>> indexed_expression(one, schema, "UTC").function
        'date_format'
    """
    if len(definition.source_fields) != 1:
        return "it does not name exactly one column"
    column = Column(tuple(definition.source_fields[0].split(".")))
    function = (definition.function or definition.options.get("expr", "")).lower()
    unread = sorted(_UNREAD_OPTIONS.intersection(definition.options))
    if unread:
        return f"its option {unread[0]} is not understood"
    try:
        if function in ("", _IDENTITY):
            return bind(column, schema, time_zone=zone)
        call = Call(function, (column, *_arguments(definition)))
        bound = bind(call, schema, time_zone=zone)
        bound_type(bound)
    except (LakedexError, ValueError) as error:
        return f"its expression cannot be evaluated here: {error}"
    return bound


def is_free_of_zones(definition: IndexDefinition) -> bool:
    """Whether an index is on a function that no time zone matters to, whatever its column is.

    Example:
        >>> is_free_of_zones(IndexDefinition("expr_index_u", "column_stats", "upper", ("s",)))
        True
    """
    return definition.function.lower() in _FREE_OF_ZONES


def depends_on_zone(expression: Expr, column_type: pa.DataType) -> bool:
    """Whether the session's time zone decides what the expression gives."""
    if not isinstance(expression, Call):
        return False
    zoned = pa.types.is_timestamp(column_type) and column_type.tz is not None
    return zoned or expression.function in _ZONED_FUNCTIONS


def _arguments(definition: IndexDefinition) -> list[Literal]:
    return [
        Literal(int(definition.options[name]) if name in _NUMBERS else definition.options[name])
        for name in _ARGUMENT_OPTIONS
        if name in definition.options
    ]
