"""CREATE INDEX on an expression: a function of one column with constant arguments, or any other.

The definition of a function that Hudi knows is Hudi's own: the function's name, and its other
arguments under the names that Hudi gives them. Other expressions are kept apart, where Hudi does
not see them (`own_expressions`). What is computed here is what Spark computes; a function whose
meaning is not known to the last character is refused by its name.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from lakedex.config import write_option_names as names_of
from lakedex.config.metadata_options import zone_setting
from lakedex.config.table_config import OWN_EXPRESSION_PREFIX
from lakedex.errors import IndexUnusable, InvalidInput, LakedexError, UnsupportedFeature
from lakedex.expr.coercion import Family, family
from lakedex.expr.spark_text import time_zone_of
from lakedex.expr.tree import columns_of
from lakedex.index.definitions import ASYNC, MAINTENANCE, OWN_EXPRESSION, IndexDefinition
from lakedex.index.kinds.expression.definition import BLOOM_FLAVOUR, expression_text
from lakedex.index.kinds.expression.filter_options import FILTER_OPTIONS, check_filter_options
from lakedex.index.kinds.expression.own import own_options, source_names
from lakedex.index.kinds.expression.target import PREFIX, ExpressionTarget
from lakedex.index.metadata_table.stat_bounds import outermost
from lakedex.schema.hudi_types import type_name
from lakedex.services.index_dropping import drop_index
from lakedex.services.index_names import check_index_name, find_index, indexed_column
from lakedex.services.indexing import BackgroundBuild, build_in_background, start_build
from lakedex.services.own_expressions import (
    OWN_FUNCTIONS,
    bound_scalar,
    check_function,
    check_same_columns,
    is_expression,
    parse_scalar,
    spelled_out,
)
from lakedex.table import Snapshot
from lakedex.write.result import WriteResult
from lakedex.write.target import StoredSchema
from lakedex.write.verbs import TableWriter

EXPR: Final = "expr"
FLAVOURS: Final = ("column_stats", "bloom_filters")
_VERSION = 2
_DEFAULT_ZONE = "UTC"
_IDENTITY = "identity"
_FILTERED_TYPES = (
    *(pa.string(), pa.large_string()),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
)
"""Of which filters of Hudi and of lakedex hold the same texts."""

Built = TypeVar("Built")


class CheckedBySpark(Protocol):
    """What Spark is asked before anything is built."""

    def check(self, column: str, function: str, arguments: Mapping[str, str]) -> None:
        """Raise where Spark does not take a function of a column with these options."""

    def knows(self, zone: str) -> bool:
        """Whether a time zone is the same to Spark as it is here."""


@dataclass(frozen=True, slots=True)
class _Signature:
    """What a function is given: columns of some types, and options as its other arguments."""

    takes: frozenset[Family]
    needed: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


_TEXT = frozenset([Family.STRING])
_TIME = frozenset([Family.DATE, Family.TIMESTAMP])
_CLOCK = frozenset([Family.TIMESTAMP, Family.TIMESTAMP_NTZ])
_CALENDAR = _TIME | _CLOCK
_DAYS = _CALENDAR | _TEXT
"""Spark casts texts to a date or a timestamp first."""
_ANYTHING = frozenset(Family) - {Family.OTHER, Family.NULL}
FUNCTIONS: Final[Mapping[str, _Signature]] = {
    _IDENTITY: _Signature(_ANYTHING),
    "date_format": _Signature(_DAYS, ("format",)),
    "from_unixtime": _Signature(frozenset([Family.INTEGER]), (), ("format",)),
    "unix_timestamp": _Signature(_TIME | _TEXT, (), ("format",)),
    "to_date": _Signature(_CALENDAR | _TEXT, (), ("format",)),
    "to_timestamp": _Signature(_TIME | _TEXT, (), ("format",)),
    "year": _Signature(_DAYS),
    "month": _Signature(_DAYS),
    "day": _Signature(_DAYS),
    "hour": _Signature(_CLOCK | _TEXT),
    "date_add": _Signature(_DAYS, ("days",)),
    "date_sub": _Signature(_DAYS, ("days",)),
    "upper": _Signature(_TEXT),
    "lower": _Signature(_TEXT),
    "trim": _Signature(_TEXT, (), ("trimString",)),
    "ltrim": _Signature(_TEXT, (), ("trimString",)),
    "rtrim": _Signature(_TEXT, (), ("trimString",)),
    "length": _Signature(_TEXT),
    "substring": _Signature(_TEXT, ("pos", "len")),
    "regexp_extract": _Signature(_TEXT, ("pattern", "idx")),
    "regexp_replace": _Signature(_TEXT, ("pattern", "replacement")),
}
"""Functions that Hudi indexes and that are computed here to the last character."""

_OPTIONS = frozenset(
    ["format", "days", "pos", "len", "trimString", "pattern", "idx", "replacement"]
)
INDEX_OPTIONS: Final = (EXPR, MAINTENANCE, *sorted(_OPTIONS), *FILTER_OPTIONS)
"""What is said of an index itself, beside the options of the write that builds it."""
_LETTERS = frozenset(string.ascii_letters)
_LETTERS_OF_DAYS = frozenset("yuMLdDQqEG")
WHOLE_NUMBERS: Final = frozenset(["days", "pos", "len", "idx"])
"""Options whose values are numbers."""


def create_expression_index(
    writer: TableWriter,
    name: str,
    columns: Sequence[str],
    *,
    using: str,
    options: Mapping[str, str],
    if_missing: bool = False,
    check: CheckedBySpark | None = None,
    add: Callable[[TableWriter, Mapping[str, str], ExpressionTarget], Built],
) -> Built | None:
    """Build an index of what a function gives for the rows that are there.

    Args:
        writer: The table; its option `lakedex.expression.time.zone` is the zone in which the index
            is computed for ever, UTC where it says none.
        name: What the index is called.
        columns: The column.
        using: `column_stats` for ranges, which is the default, or `bloom_filters`.
        options: The function as `expr`, its arguments, and write options.
        if_missing: Do nothing when the index is there already.
        check: Asks Spark, where there is one.
        add: Builds what was checked, with the write options among the options.

    Raises:
        InvalidInput: Something in it is wrong; the table is as it was.
        UnsupportedFeature: The function or the kind of index; the table is as it was.
        CommitConflict: Another writer was first; the table is as it was.
    """
    own = {key: value for key, value in options.items() if key in INDEX_OPTIONS}
    rest = {key: value for key, value in options.items() if key not in own}
    asked = writer.with_options(rest)
    zone = asked.target().options.metadata.session_zone or _DEFAULT_ZONE
    snapshot = asked.snapshot()
    there = find_index(snapshot, name)
    if there is not None:
        if if_missing:
            return None
        raise InvalidInput(f"table {snapshot.config.name} has the index {there} already")
    check_index_name(name)
    flavour = _flavour(name, using)
    sizes = {key: own.pop(key) for key in FILTER_OPTIONS if key in own}
    is_async = own.pop(MAINTENANCE, "") == ASYNC
    if sizes and flavour != BLOOM_FLAVOUR:
        raise InvalidInput(f"the option {next(iter(sizes))} is for {BLOOM_FLAVOUR}, not {flavour}")
    check_filter_options(name, sizes)
    known = zone if time_zone_of(zone) is not None else _DEFAULT_ZONE
    target = _checked_target(snapshot, name, flavour, columns, own, known, check)
    if is_async:
        target = _async_target(snapshot, name, columns, own, known, target)
    if target.zone is not None:
        _check_zone(name, zone, target.zone, check)
    if sizes:
        made = replace(target.definition, options={**target.definition.options, **sizes})
        target = replace(target, definition=made)
    return add(writer, rest, target)


def _check_zone(name: str, zone: str, known: str, check: CheckedBySpark | None) -> None:
    if known != zone:
        raise InvalidInput(
            f"CREATE INDEX {name} needs to know the time zone {zone!r} of the session, and does "
            "not; SET TIME ZONE to a region, such as America/Los_Angeles, or to an offset"
        )
    if check is not None and not check.knows(zone):
        raise InvalidInput(
            f"CREATE INDEX {name}: the time zone database of Java and the one of Python have "
            f"other offsets for {zone!r}, so the index could not tell what Spark computes; SET "
            "TIME ZONE to a region that both know alike, such as Europe/Berlin, or to an offset"
        )


def _checked_target(
    snapshot: Snapshot,
    name: str,
    flavour: str,
    columns: Sequence[str],
    own: Mapping[str, str],
    zone: str,
    check: CheckedBySpark | None,
) -> ExpressionTarget:
    function = own[EXPR].strip().lower()
    if _is_own(function, columns):
        target = _own_target(snapshot, name, flavour, columns, own, zone)
        if check is not None:
            text = target.definition.function
            check.check(", ".join(columns), text, {OWN_EXPRESSION: type_name(target.type)})
        return target
    arguments = _checked_arguments(name, function, own)
    if len(columns) != 1:
        raise UnsupportedFeature(
            f"an index ({name}) on {function} of {len(columns)} columns, not one,"
        )
    known: dict[str, str | int] = {
        each: int(value) if each in WHOLE_NUMBERS else value for each, value in arguments.items()
    }
    spelled = {EXPR: spelled_out(function, columns[0], known)}
    if _is_field(snapshot, columns[0]) and function != _IDENTITY:
        # Hudi would keep the ranges of the field, not of the function.
        return _checked_target(snapshot, name, flavour, columns, spelled, zone, check)
    column = indexed_column(snapshot, columns[0])
    made = {EXPR: function, **arguments}
    definition = IndexDefinition(PREFIX + name, flavour, function, (column,), made, _VERSION)
    if check is not None:
        check.check(column, function, arguments)
    target = _target(snapshot, definition, zone)
    if target.is_bloom and target.zone is not None:
        # Hudi would fill filters in the zone of whoever writes, and no filter tells its zone.
        return _own_target(snapshot, name, flavour, columns, spelled, zone)
    return target


def _async_target(
    snapshot: Snapshot,
    name: str,
    columns: Sequence[str],
    own: Mapping[str, str],
    zone: str,
    checked: ExpressionTarget,
) -> ExpressionTarget:
    """The same index, which writers do not maintain, where Hudi does not see it."""
    target = checked
    if not target.definition.is_own:
        function = target.definition.function
        if function == _IDENTITY:
            raise InvalidInput(
                f"the index {name} on a plain column cannot have {MAINTENANCE}={ASYNC} with ranges "
                "or filters of files; create it USING bitmap, or as a secondary index"
            )
        given = _checked_arguments(name, function, own)
        arguments: dict[str, str | int] = {
            each: int(value) if each in WHOLE_NUMBERS else value for each, value in given.items()
        }
        spelled = {EXPR: spelled_out(function, columns[0], arguments)}
        flavour = target.definition.index_type
        target = _own_target(snapshot, name, flavour, columns, spelled, zone)
    options = {**target.definition.options, MAINTENANCE: ASYNC}
    return replace(target, definition=replace(target.definition, options=options))


def _is_field(snapshot: Snapshot, column: str) -> bool:
    """Whether a name is that of a field within a column."""
    return "." in column and column not in StoredSchema.of(snapshot).columns.names


def add_now(
    writer: TableWriter, options: Mapping[str, str], target: ExpressionTarget
) -> WriteResult:
    """Build an index whose definition has been checked, in one commit."""
    return add_expression_index(writer.with_options(options), target)


def add_in_background(
    writer: TableWriter, options: Mapping[str, str], target: ExpressionTarget
) -> BackgroundBuild:
    """Build an index whose definition has been checked while writers go on."""
    zone = {} if target.zone is None else {names_of.EXPRESSION_TIME_ZONE.name: target.zone}
    claim = start_build(writer, {**options, **zone}, [target.definition])
    return build_in_background(writer, claim)


def add_expression_index(writer: TableWriter, target: ExpressionTarget) -> WriteResult:
    """Build an index whose definition has been checked, and keep its time zone."""
    zone = target.zone
    keeping = {} if zone is None else {zone_setting(target.name): zone}
    if zone is not None:
        writer = writer.with_options({names_of.EXPRESSION_TIME_ZONE.name: zone})
    return writer.add_index(target.definition, keeping)


def refresh_expression_index(writer: TableWriter, there: str) -> None:
    """Build an expression index anew, in the time zone that it is computed in."""
    # What could not be built again must not be dropped.
    target = stored_expression(writer, writer.snapshot(), there)
    drop_index(writer.address, there, writer.target().patience)
    add_expression_index(writer, target)


def stored_expression(writer: TableWriter, snapshot: Snapshot, there: str) -> ExpressionTarget:
    """An expression index that a table has, as it is built anew.

    Raises:
        IndexUnusable: it cannot be computed here.
    """
    definition = snapshot.definitions.get(there)
    if definition is None:
        raise IndexUnusable(f"the index {there} has no definition; drop it, and create it again")
    metadata = writer.target().options.metadata
    columns = StoredSchema.of(snapshot).columns
    zones = metadata.expression_zones
    return ExpressionTarget.of(definition, columns, zones, metadata.session_zone)


def _flavour(name: str, using: str) -> str:
    chosen = using.lower() or FLAVOURS[0]
    if chosen not in FLAVOURS:
        raise UnsupportedFeature(
            f"CREATE INDEX {name} of kind {chosen!r} on an expression (only {', '.join(FLAVOURS)})"
        )
    return chosen


def _checked_arguments(name: str, function: str, given: Mapping[str, str]) -> dict[str, str]:
    """The arguments of the function, in the order that it has them."""
    if function not in FUNCTIONS:
        check_function(name, function)
        known = ", ".join(sorted(FUNCTIONS))
        raise UnsupportedFeature(f"CREATE INDEX {name} on the function {function!r} (only {known})")
    wanted = FUNCTIONS[function]
    has = (*wanted.needed, *wanted.allowed)
    for option in given:
        if option not in (EXPR, *has):
            raise UnsupportedFeature(f"the option {option!r} of {function} in CREATE INDEX {name}")
    for option in wanted.needed:
        if option not in given:
            raise InvalidInput(f"CREATE INDEX {name} needs the option {option!r} of {function}")
    for option in WHOLE_NUMBERS & set(given):
        digits = given[option].removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
            raise InvalidInput(f"{option}={given[option]!r} of CREATE INDEX {name} is no number")
    return {option: given[option] for option in has if option in given}


def _target(snapshot: Snapshot, definition: IndexDefinition, zone: str) -> ExpressionTarget:
    """The index bound to its column, tried on a null: nothing fails when rows come."""
    columns = StoredSchema.of(snapshot).columns
    function, (column,) = definition.function, definition.source_fields
    kind = columns.field(column).type
    if family(kind) not in FUNCTIONS[function].takes:
        raise InvalidInput(f"column {column!r} of type {kind} cannot be indexed by {function}")
    clock = set(definition.options.get("format", "")) - _LETTERS_OF_DAYS
    if family(kind) is Family.DATE and function == "date_format" and clock & _LETTERS:
        # Where clocks go forward at midnight, a day begins at one o'clock.
        raise UnsupportedFeature(f"the time of day of the date {column!r} in an index")
    try:
        target = ExpressionTarget.of(definition, columns, {}, zone)
        field = columns.field(column).with_nullable(nullable=True)
        target.values(pa.table([pa.nulls(1, field.type)], schema=pa.schema([field])))
        outermost(target.type)
    except (LakedexError, pa.ArrowException, ValueError) as error:
        raise InvalidInput(
            f"{function} of column {column!r} ({kind}) cannot be indexed: {error}"
        ) from error
    _check_flavour(target)
    return target


def _is_own(function: str, columns: Sequence[str]) -> bool:
    """Whether an expression is one that Hudi has no name for."""
    if is_expression(function):
        return True
    return function not in FUNCTIONS and function in OWN_FUNCTIONS and bool(columns)


def _own_target(
    snapshot: Snapshot,
    name: str,
    flavour: str,
    columns: Sequence[str],
    given: Mapping[str, str],
    zone: str,
) -> ExpressionTarget:
    """An index on an expression that Hudi does not know, tried on nulls."""
    for option in given:
        if option != EXPR:
            raise UnsupportedFeature(
                f"the option {option!r} of an expression in CREATE INDEX {name}"
            )
    text = given[EXPR].strip()
    if not is_expression(text):
        text = f"{text}({', '.join(columns)})"
    tree = parse_scalar(name, text)
    check_same_columns(name, [each.partition(".")[0] for each in columns], tree)
    expression = bound_scalar(snapshot, name, tree, zone)
    sources = source_names(columns_of(expression))
    options = own_options(text, expression)
    full = OWN_EXPRESSION_PREFIX + name
    definition = IndexDefinition(full, flavour, text, sources, options, _VERSION)
    schema = StoredSchema.of(snapshot).columns
    try:
        target = ExpressionTarget.of(definition, schema, {}, zone)
        fields = [schema.field(each).with_nullable(nullable=True) for each in sources]
        nulls = [pa.nulls(1, field.type) for field in fields]
        target.values(pa.table(nulls, schema=pa.schema(fields)))
        outermost(target.type)
    except (LakedexError, pa.ArrowException, ValueError) as error:
        raise InvalidInput(f"{text} cannot be indexed: {error}") from error
    if target.zone is not None and pa.types.is_decimal(target.type):
        raise UnsupportedFeature(
            f"an index on {text}, which depends on a time zone and is decimal,"
        )
    _check_flavour(target)
    return target


def _check_flavour(target: ExpressionTarget) -> None:
    if target.is_bloom and target.type not in _FILTERED_TYPES:
        what = expression_text(target.definition)
        raise UnsupportedFeature(
            f"an index of bloom filters on {what}, which is {type_name(target.type)} and neither "
            "text nor a whole number,",
            instead="create it USING column_stats",
        )
