"""What an expression index is about: definition, expression, and the options of its filters.

A function of one column that Hudi knows is defined as Hudi does it. Functions in functions, and
functions of several columns, are computed by lakedex alone: their definition keeps the tree itself,
bound to the columns as they were, beside the text that was typed and the version of what computes
it. Another type of a column may mean another result.

A filter here is made for the values that its file has, so it needs no room to grow: the form of
filter that Hudi would choose, and how far it may grow, are kept in the definition and change
nothing. Readers take either form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config.table_config import OWN_EXPRESSION_PREFIX
from lakedex.config.write_option_names import EXPRESSION_TIME_ZONE
from lakedex.errors import (
    CorruptFile,
    IndexUnusable,
    InvalidInput,
    LakedexError,
    UnsupportedFeature,
)
from lakedex.expr.arrays import MICROS_PER_DAY
from lakedex.expr.bind import bind, bound_type
from lakedex.expr.coercion import Family, family
from lakedex.expr.evaluate import evaluate
from lakedex.expr.explicit_casts import with_casts_of_call
from lakedex.expr.functions import canonical_name
from lakedex.expr.json_form import from_json, to_json
from lakedex.expr.temporal.zones import LARGEST_SHIFT, fixed_offset
from lakedex.expr.tree import Call, Cast, Column, Expr, Literal, children_of, columns_of
from lakedex.index.definitions import OWN_EXPRESSION, IndexDefinition
from lakedex.index.expressions import source_names
from lakedex.schema.hudi_types import type_name

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
PREFIX: Final = "expr_index_"
_ANY_ZONE = "UTC"
_MOST_SHIFTED_DAYS = 800
"""Days that clocks and the starts of years may lie away from a date."""
EXPRESSION_TEXT: Final = "expr"
_EVALUATOR = "lakedex.evaluator"
_VERSION = 1
"""Grows when an expression may come out otherwise than before."""
_SIZED = (Family.INTEGER, Family.FLOAT)
_RATE, _ENTRIES, _KIND, _MOST = "fpp", "numentries", "filtertype", "maxentries"
_HASHES = "numHashFunctions"
FILTER_OPTIONS: Final = (_RATE, _ENTRIES, _KIND, _MOST, _HASHES)
_DEFAULT_RATE = 1e-6
_LEAST_ENTRIES = 10
_SMALLEST_RATE = 1e-15
_MOST_ENTRIES = 10_000_000
_KINDS = frozenset(["SIMPLE", "DYNAMIC_V0"])


def indexed_expression(definition: IndexDefinition, schema: pa.Schema, zone: str) -> Expr | str:
    """The bound expression that an index covers, or why it is not known.

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
    """Whether fields within columns are read, which other engines may drop and add again."""
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


def given_name(name: str) -> str:
    """The name that an expression index was given, from that of its partition.

    Example:
        >>> given_name("expr_index_own-total"), given_name("expr_index_day")
        ('total', 'day')
    """
    return name.removeprefix(OWN_EXPRESSION_PREFIX).removeprefix(PREFIX)


@dataclass(frozen=True, slots=True)
class ExpressionTarget:
    """One expression index, bound to the columns of its table."""

    definition: IndexDefinition
    expression: Expr
    zone: str | None
    """The time zone that it is computed in; None where no zone changes what comes out."""

    @property
    def name(self) -> str:
        """The name of its metadata partition."""
        return self.definition.name

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns that it reads, without the fields inside."""
        return source_names(columns_of(self.expression))

    @property
    def is_bloom(self) -> bool:
        """Whether files have filters of the values, and not their ranges."""
        return self.definition.index_type == BLOOM_FLAVOUR

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return bound_type(self.expression)

    def values(self, rows: pa.Table) -> pa.ChunkedArray:
        """What the expression gives for some rows.

        Raises:
            UnsupportedFeature: It is not known what Spark gives for one of them.
        """
        for column in columns_of(self.expression):
            first, *inner = column.path
            _check_in_range(pc.struct_field(rows[first], inner) if inner else rows[first])
        return certain_values(self.expression, rows, self.zone or _ANY_ZONE)

    @classmethod
    def of(
        cls, definition: IndexDefinition, schema: pa.Schema, zones: Mapping[str, str], own_zone: str
    ) -> ExpressionTarget:
        """The index that a definition tells.

        Args:
            definition: What is indexed.
            schema: The columns of the table.
            zones: The zones that indexes are computed in, as far as they are known.
            own_zone: The zone of the writer for the others, empty where it does not say one.

        Raises:
            IndexUnusable: it cannot be computed here.
        """
        zone = zones.get(definition.name) or own_zone
        found = indexed_expression(definition, schema, zone or _ANY_ZONE)
        if isinstance(found, str):
            raise IndexUnusable(
                f"the index {definition.name} cannot be kept up to date: {found}; drop it first"
            )
        if not depends_on_zone(found):
            return cls(definition, found, None)
        if not zone:
            raise IndexUnusable(
                f"the index {definition.name} depends on a time zone, and the table does not store "
                "which; give that of the sessions that wrote it as the option "
                f"{EXPRESSION_TIME_ZONE.name}, such as UTC"
            )
        return cls(definition, found, zone)


def certain_values(expression: Expr, rows: pa.Table, zone: str) -> pa.ChunkedArray:
    """What an expression gives for some rows, in a time zone.

    Raises:
        UnsupportedFeature: It is not known what Spark gives for one of them.
    """
    found = evaluate(expression, rows, time_zone=zone, certain=True)
    result = found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])
    if depends_on_zone(expression) and fixed_offset(zone) is None:
        for column in columns_of(expression):
            first, *inner = column.path
            values = pc.struct_field(rows[first], inner) if inner else rows[first]
            _check_since_1970(values, zone)
        _check_since_1970(result, zone)
    return result


def _check_since_1970(values: pa.ChunkedArray, zone: str) -> None:
    """Refuse earlier moments where a region decides: time zone databases differ in them.

    A whole number may be a count of seconds since then.
    """
    kind = values.type
    if not (pa.types.is_temporal(kind) or pa.types.is_signed_integer(kind)):
        return
    smallest = pc.min(values).cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    if smallest.is_valid and smallest.as_py() < 0:
        raise UnsupportedFeature(f"a moment before 1970 in the time zone {zone}")


def _check_in_range(values: pa.ChunkedArray) -> None:
    """Refuse moments whose wall-clock time does not fit into 64 bits."""
    if pa.types.is_timestamp(values.type):
        ends = pc.min_max(values.cast(pa.int64()))
        limit = np.iinfo(np.int64).max - LARGEST_SHIFT
    elif pa.types.is_date32(values.type):
        ends = pc.min_max(values.cast(pa.int32()))
        limit = np.iinfo(np.int64).max // MICROS_PER_DAY - _MOST_SHIFTED_DAYS
    else:
        return
    if any(end.is_valid and abs(end.as_py()) > limit for end in ends.values()):
        raise UnsupportedFeature("a moment at the very end of time")


def own_options(text: str, expression: Expr) -> dict[str, str]:
    """What the definition of an index says of an expression, which is bound.

    Example:
        >>> from lakedex.expr.tree import Call
        >>> sorted(own_options("abs(n)", Call("abs", (Column(("n",), pa.int32()),))))
        ['expr', 'lakedex.evaluator', 'lakedex.expression']
    """
    return {
        EXPRESSION_TEXT: text,
        OWN_EXPRESSION: json.dumps(to_json(expression)),
        _EVALUATOR: str(_VERSION),
    }


def own_expression(definition: IndexDefinition, schema: pa.Schema, zone: str) -> Expr:
    """The expression of an index of lakedex, bound to the columns of its table.

    Raises:
        IndexUnusable: It is of a later release, or a column has another type now.
        InvalidInput: A column is not there any more.
    """
    version = definition.options.get(_EVALUATOR, "")
    if not version.isdecimal() or int(version) > _VERSION:
        raise IndexUnusable(f"it is computed by version {version!r} of expressions, not {_VERSION}")
    stored = stored_tree(definition)
    bound = bind(_untyped(stored), schema, time_zone=zone, case_sensitive=True)
    for old, new in zip(columns_of(stored), columns_of(bound), strict=True):
        if not _is_same(old.type, new.type):
            raise IndexUnusable(f"its column {old.name} was {_type_of(old)} and is {_type_of(new)}")
    bound_type(bound)
    return bound


def stored_tree(definition: IndexDefinition) -> Expr:
    """The tree in a definition, with the types that its columns had.

    Raises:
        CorruptFile: There is no such tree in it.
    """
    try:
        return from_json(json.loads(definition.options[OWN_EXPRESSION]))
    except (LakedexError, ValueError, RecursionError) as error:
        place = f"the definition of {definition.name}"
        raise CorruptFile(place, 0, expected="an expression", actual=error) from error


def _untyped(expr: Expr) -> Expr:
    """The tree with columns as they may be now."""
    match expr:
        case Column(path):
            return Column(path)
        case Cast(child, kind):
            return Cast(_untyped(child), kind)
        case Call(name, arguments):
            return Call(name, tuple(map(_untyped, arguments)))
        case _:
            return expr


def _is_same(old: pa.DataType | None, new: pa.DataType | None) -> bool:
    if old is None or new is None or family(old) is not family(new):
        return False
    if family(old) in _SIZED:
        return bool(old.bit_width == new.bit_width)
    return family(old) is not Family.DECIMAL or old == new


def _type_of(column: Column) -> str:
    return "unknown" if column.type is None else type_name(column.type)


def check_filter_options(index: str, options: Mapping[str, str]) -> None:
    """Refuse options that no filter can have.

    Raises:
        InvalidInput: Naming the option.
    """
    rate = options.get(_RATE)
    if rate is not None and _rate(rate) is None:
        raise InvalidInput(f"{_RATE}={rate!r} of index {index} is not between 0 and 1")
    for name in (_ENTRIES, _MOST, _HASHES):
        given = options.get(name)
        if given is not None and _count(given) is None:
            raise InvalidInput(f"{name}={given!r} of index {index} is not 1 to {_MOST_ENTRIES}")
    kind = options.get(_KIND)
    if kind is not None and kind.upper() not in _KINDS:
        raise InvalidInput(f"{_KIND}={kind!r} of index {index} is none of {sorted(_KINDS)}")


def error_rate(options: Mapping[str, str]) -> float:
    """How often a filter may be wrong; what others wrote and cannot be counts for nothing.

    Example:
        >>> error_rate({"fpp": "0.01"}), error_rate({"fpp": "7"})
        (0.01, 1e-06)
    """
    return _rate(options.get(_RATE, "")) or _DEFAULT_RATE


def least_entries(options: Mapping[str, str]) -> int:
    """For how many values a filter is made at least."""
    return _count(options.get(_ENTRIES, "")) or _LEAST_ENTRIES


def _rate(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return max(found, _SMALLEST_RATE) if 0 < found < 1 else None


def _count(text: str) -> int | None:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return None
    return int(digits) if 0 < int(digits) <= _MOST_ENTRIES else None
