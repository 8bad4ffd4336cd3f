"""What an expression index is about: its definition as an expression of the tree."""

from __future__ import annotations

import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.expr.bind import bind, bound_type
from lakedex.expr.coercion import Family, family
from lakedex.expr.explicit_casts import with_casts_of_call
from lakedex.expr.functions import canonical_name
from lakedex.expr.tree import Call, Cast, Column, Expr, Literal, children_of, columns_of
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.expression.own import EXPRESSION_TEXT, own_expression, stored_tree

BLOOM_FLAVOUR = "bloom_filters"
_IDENTITY = "identity"
_ARGUMENT_OPTIONS = ("format", "days", "pos", "len", "pattern", "idx", "replacement", "trimString")
"""The options that are arguments of the function, in the order of its parameters."""
_NUMBERS = frozenset(["days", "pos", "len", "idx"])
_ZONED_FUNCTIONS = frozenset(
    ["from_unixtime", "unix_timestamp", "to_unix_timestamp", "to_timestamp", "to_date"]
)


_OF_CAST_TEXTS = frozenset(
    ["date_format", "year", "month", "dayofmonth", "hour", "date_add", "date_sub"]
)
_FREE_OF_ZONES = frozenset(
    {"identity", "upper", "lower", "trim", "ltrim", "rtrim", "length", "substring"}
    | {"regexp_extract", "regexp_replace"}
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
    if definition.is_own:
        try:
            return own_expression(definition, schema, zone)
        except LakedexError as error:
            return f"its expression cannot be evaluated here: {error}"
    if len(definition.source_fields) != 1:
        return "it does not name exactly one column"
    column = Column(tuple(definition.source_fields[0].split(".")))
    function = (definition.function or definition.options.get("expr", "")).lower()
    try:
        if function in ("", _IDENTITY):
            return bind(column, schema, time_zone=zone)
        call = Call(function, (column, *_arguments(definition)))
        bound = bind(call, schema, time_zone=zone)
        if isinstance(bound, Call) and canonical_name(function) in _OF_CAST_TEXTS:
            bound = _with_cast_text(bound)
        bound_type(bound)
    except (LakedexError, ValueError) as error:
        return f"its expression cannot be evaluated here: {error}"
    return bound


def _with_cast_text(call: Call) -> Expr:
    """A call with the cast of its text to a date or a timestamp, which Spark adds too."""
    is_text = family(bound_type(call.arguments[0])) is Family.STRING
    return with_casts_of_call(call) if is_text else call


def is_free_of_zones(definition: IndexDefinition) -> bool:
    """Whether an index is on a function that no time zone matters to, whatever its column is.

    Example:
        >>> is_free_of_zones(IndexDefinition("expr_index_u", "column_stats", "upper", ("s",)))
        True
    """
    if definition.is_own:
        return not depends_on_zone(stored_tree(definition))
    return definition.function.lower() in _FREE_OF_ZONES


def depends_on_zone(expression: Expr) -> bool:
    """Whether the session's time zone may decide what a bound expression gives.

    Example:
        >>> depends_on_zone(Call("upper", (Column(("s",), pa.string()),)))
        False
    """
    pending: list[Expr] = [] if isinstance(expression, Column) else [expression]
    while pending:
        node = pending.pop()
        match node:
            case Call(name) if name in _ZONED_FUNCTIONS or _is_of_moments(node):
                return True
            case Column(_, kind) | Cast(_, kind) if kind is not None and _is_moment(kind):
                return True
        pending.extend(children_of(node))
    return False


def is_of_fields(expression: Expr) -> bool:
    """Whether fields within columns are asked for, which other engines may drop and add again."""
    return any(len(column.path) > 1 for column in columns_of(expression))


def expression_text(definition: IndexDefinition) -> str:
    """What an index is on, for people.

    Example:
        >>> expression_text(IndexDefinition("expr_index_u", "column_stats", "upper", ("s",)))
        'upper(s)'
    """
    if definition.is_own:
        return definition.options.get(EXPRESSION_TEXT, "")
    return f"{definition.function}({', '.join(definition.source_fields)})"


def _is_of_moments(call: Call) -> bool:
    """Whether a call gives a moment, or makes one of its argument: all texts of times do."""
    try:
        if canonical_name(call.function) == "date_format":
            return bool(pa.types.is_timestamp(bound_type(call.arguments[0])))
        return _is_moment(bound_type(call))
    except LakedexError:
        return True


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def _arguments(definition: IndexDefinition) -> list[Literal]:
    return [
        Literal(int(definition.options[name]) if name in _NUMBERS else definition.options[name])
        for name in _ARGUMENT_OPTIONS
        if name in definition.options
    ]
