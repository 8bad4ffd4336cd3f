"""What CREATE INDEX accepts for an expression: a function of one column with constants, or another.

The definition of a function that Hudi knows is Hudi's own: the function's name, and its other
arguments under the names that Hudi gives them. Other expressions have definitions of lakedex's own,
which Hudi does not see. What lakedex computes is what Spark computes; a function whose meaning is
not known to the last character is refused by its name.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakedex.config import write_option_names as names_of
from lakedex.config.metadata_options import zone_setting
from lakedex.config.table_config import OWN_EXPRESSION_PREFIX
from lakedex.errors import IndexUnusable, InvalidInput, LakedexError, UnsupportedFeature
from lakedex.expr.bind import bind, bound_type
from lakedex.expr.coercion import Family, family
from lakedex.expr.explicit_casts import with_casts
from lakedex.expr.functions import canonical_name
from lakedex.expr.spark_text import time_zone_of
from lakedex.expr.tree import Call, Cast, Expr, columns_of
from lakedex.index.definitions import ASYNC, MAINTENANCE, OWN_EXPRESSION, IndexDefinition
from lakedex.index.expressions import (
    EXPR,
    FUNCTION_OPTIONS,
    FUNCTIONS,
    IDENTITY,
    OWN_FUNCTIONS,
    WHOLE_NUMBERS,
    check_function,
    check_same_columns,
    is_expression,
    nodes_of,
    parse_scalar,
    source_names,
    spelled_out,
)
from lakedex.index.kinds.expression.definition import (
    BLOOM_FLAVOUR,
    FILTER_OPTIONS,
    PREFIX,
    ExpressionTarget,
    check_filter_options,
    expression_text,
    own_options,
)
from lakedex.index.metadata_table.stat_values import outermost
from lakedex.index.request import CreateRequest, NewIndex
from lakedex.schema.hudi_types import type_name

_FLAVOURS: Final = ("column_stats", BLOOM_FLAVOUR)
_VERSION = 2
_DEFAULT_ZONE = "UTC"
_FILTERED_TYPES = (
    *(pa.string(), pa.large_string()),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
)
"""Of which filters of Hudi and of lakedex hold the same texts."""
_OWN_OPTIONS = frozenset([EXPR, MAINTENANCE, *FUNCTION_OPTIONS, *FILTER_OPTIONS])
_LETTERS = frozenset(string.ascii_letters)
_LETTERS_OF_DAYS = frozenset("yuMLdDQqEG")
_OF_TEXT = frozenset(
    {"upper", "lower", "trim", "ltrim", "rtrim", "length", "substring", "left", "replace", "lpad"}
    | {"rpad", "reverse", "regexp_extract", "regexp_replace", "split[]"}
)
_OF_NUMBERS = frozenset(
    {"+", "-", "*", "/", "%", "div", "abs", "negative", "floor", "ceil", "round"}
)
_CHOICES = frozenset(["coalesce", "greatest", "least"])
_NUMBERS = (Family.INTEGER, Family.FLOAT, Family.DECIMAL)
_TIMES = (Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ)


def accepts(request: CreateRequest) -> bool:
    """Whether a statement is about an expression, or about filters of other values than keys."""
    if EXPR in request.options:
        return True
    if request.using.lower() != BLOOM_FLAVOUR or request.name.lower() == BLOOM_FLAVOUR:
        return False
    named = [request.column(each) for each in request.columns]
    return named != list(request.config.record_key_fields)


def define(request: CreateRequest) -> NewIndex:
    """The index on an expression, computed for ever in the session zone of now.

    Raises:
        InvalidInput: something in it is wrong.
        UnsupportedFeature: the function or the flavour.
    """
    own = {key: value for key, value in request.options.items() if key in _OWN_OPTIONS}
    rest = {key: value for key, value in request.options.items() if key not in own}
    own.setdefault(EXPR, IDENTITY)
    zone = request.resolve(rest).metadata.session_zone or _DEFAULT_ZONE
    flavour = _flavour(request.name, request.using)
    sizes = {key: own.pop(key) for key in FILTER_OPTIONS if key in own}
    is_async = own.pop(MAINTENANCE, "") == ASYNC
    if sizes and flavour != BLOOM_FLAVOUR:
        raise InvalidInput(f"the option {next(iter(sizes))} is for {BLOOM_FLAVOUR}, not {flavour}")
    check_filter_options(request.name, sizes)
    known = zone if time_zone_of(zone) is not None else _DEFAULT_ZONE
    target = _checked_target(request, flavour, own, known)
    if is_async:
        target = _async_target(request, own, known, target)
    if target.zone is not None:
        _check_zone(request, zone, target.zone)
    if sizes:
        sized = replace(target.definition, options={**target.definition.options, **sizes})
        target = replace(target, definition=sized)
    return _new_index(target, rest)


def extend(request: CreateRequest) -> None:
    """Nothing can be added to an index on an expression."""
    del request


def rebuild(request: CreateRequest, name: str, definition: IndexDefinition | None) -> NewIndex:
    """An index that the table has, as it is built again, in the time zone that it is computed in.

    Raises:
        IndexUnusable: it cannot be computed here.
    """
    if definition is None:
        raise IndexUnusable(f"the index {name} has no definition; drop it, and create it again")
    metadata = request.resolve({}).metadata
    zones, own_zone = metadata.expression_zones, metadata.session_zone
    return _new_index(ExpressionTarget.of(definition, request.schema, zones, own_zone), {})


def _new_index(target: ExpressionTarget, options: Mapping[str, str]) -> NewIndex:
    zone = target.zone
    if zone is None:
        return NewIndex(options, target.definition)
    return NewIndex(
        {**options, names_of.EXPRESSION_TIME_ZONE.name: zone},
        target.definition,
        {zone_setting(target.name): zone},
        zone,
    )


def _check_zone(request: CreateRequest, zone: str, known: str) -> None:
    name = request.name
    if known != zone:
        raise InvalidInput(
            f"CREATE INDEX {name} needs to know the time zone {zone!r} of the session, and does "
            "not; SET TIME ZONE to a region, such as America/Los_Angeles, or to an offset"
        )
    if request.spark is not None and not request.spark.knows(zone):
        raise InvalidInput(
            f"CREATE INDEX {name}: the time zone database of Java and the one of Python have "
            f"other offsets for {zone!r}, so the index could not tell what Spark computes; SET "
            "TIME ZONE to a region that both know alike, such as Europe/Berlin, or to an offset"
        )


def _checked_target(
    request: CreateRequest, flavour: str, own: Mapping[str, str], zone: str
) -> ExpressionTarget:
    name, columns = request.name, request.columns
    function = own[EXPR].strip().lower()
    if _is_own(function, columns):
        target = _own_target(request, flavour, own, zone)
        if request.spark is not None:
            text = target.definition.function
            own_type = {OWN_EXPRESSION: type_name(target.type)}
            request.spark.check(", ".join(columns), text, own_type)
        return target
    arguments = _checked_arguments(name, function, own)
    if len(columns) != 1:
        raise UnsupportedFeature(
            f"an index ({name}) on {function} of {len(columns)} columns, not one,"
        )
    spelled = {EXPR: spelled_out(function, columns[0], _constants(arguments))}
    if _is_field(request, columns[0]) and function != IDENTITY:
        # Hudi would keep the ranges of the field, not of the function.
        return _checked_target(request, flavour, spelled, zone)
    column = request.column(columns[0])
    options = {EXPR: function, **arguments}
    definition = IndexDefinition(PREFIX + name, flavour, function, (column,), options, _VERSION)
    if request.spark is not None:
        request.spark.check(column, function, arguments)
    target = _target(request, definition, zone)
    if target.is_bloom and target.zone is not None:
        # Hudi would fill filters in the zone of whoever writes, and filters do not name their zone.
        return _own_target(request, flavour, spelled, zone)
    return target


def _async_target(
    request: CreateRequest, own: Mapping[str, str], zone: str, checked: ExpressionTarget
) -> ExpressionTarget:
    """The same index, which writers do not maintain, where Hudi does not see it."""
    target, name = checked, request.name
    if not target.definition.is_own:
        function = target.definition.function
        if function == IDENTITY:
            raise InvalidInput(
                f"the index {name} on a plain column cannot have {MAINTENANCE}={ASYNC} with ranges "
                "or filters of files; create it USING bitmap, or as a secondary index"
            )
        arguments = _constants(_checked_arguments(name, function, own))
        spelled = {EXPR: spelled_out(function, request.columns[0], arguments)}
        target = _own_target(request, target.definition.index_type, spelled, zone)
    options = {**target.definition.options, MAINTENANCE: ASYNC}
    return replace(target, definition=replace(target.definition, options=options))


def _constants(arguments: Mapping[str, str]) -> dict[str, str | int]:
    return {
        name: int(value) if name in WHOLE_NUMBERS else value for name, value in arguments.items()
    }


def _is_field(request: CreateRequest, column: str) -> bool:
    """Whether a name is that of a field within a column."""
    return "." in column and column not in request.schema.names


def _flavour(name: str, using: str) -> str:
    chosen = using.lower() or _FLAVOURS[0]
    if chosen not in _FLAVOURS:
        raise UnsupportedFeature(
            f"CREATE INDEX {name} of kind {chosen!r} on an expression (only {', '.join(_FLAVOURS)})"
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


def _target(request: CreateRequest, definition: IndexDefinition, zone: str) -> ExpressionTarget:
    """The index bound to its column, tried on a null: nothing fails when rows come."""
    columns = request.schema
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


def _is_own(function: str, columns: tuple[str, ...]) -> bool:
    """Whether an expression is one that Hudi has no name for."""
    if is_expression(function):
        return True
    return function not in FUNCTIONS and function in OWN_FUNCTIONS and bool(columns)


def _own_target(
    request: CreateRequest, flavour: str, given: Mapping[str, str], zone: str
) -> ExpressionTarget:
    """An index on an expression that Hudi does not know, tried on nulls."""
    name, columns = request.name, request.columns
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
    expression = bound_scalar(request, tree, zone)
    sources = source_names(columns_of(expression))
    options = own_options(text, expression)
    full = OWN_EXPRESSION_PREFIX + name
    definition = IndexDefinition(full, flavour, text, sources, options, _VERSION)
    schema = request.schema
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


def bound_scalar(request: CreateRequest, tree: Expr, zone: str) -> Expr:
    """An expression bound to the columns of a table, with the casts that Spark would add.

    Raises:
        InvalidInput: A column is not there, or types do not fit.
        UnsupportedFeature: It is not certain what Spark would give.
    """
    index = request.name
    for column in columns_of(tree):
        request.column(column.path[0])
    try:
        plain = bind(tree, request.schema, time_zone=zone)
        # A text is another number in ANSI mode, so that its cast is not left to Spark.
        _check_calls(index, plain, _OF_NUMBERS | _OF_TEXT)
        bound = with_casts(plain)
        _check_calls(index, bound, _CHOICES)
        _check_casts(index, bound)
        bound_type(bound)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInput(f"the expression of CREATE INDEX {index}: {error}") from error
    except LakedexError as error:
        if isinstance(error, UnsupportedFeature | InvalidInput):
            raise
        raise InvalidInput(f"the expression of CREATE INDEX {index}: {error}") from error
    return bound


def _check_calls(index: str, expression: Expr, functions: Collection[str]) -> None:
    for node in nodes_of(expression):
        if isinstance(node, Call) and canonical_name(node.function) in functions:
            problem = _problem(canonical_name(node.function), node.arguments)
            if problem:
                raise InvalidInput(f"{node.function} in CREATE INDEX {index} {problem}")


def _check_casts(index: str, expression: Expr) -> None:
    for node in nodes_of(expression):
        if isinstance(node, Cast):
            _check_cast(index, bound_type(node.child), node.type)


def _problem(name: str, arguments: Sequence[Expr]) -> str:
    kinds = [bound_type(argument) for argument in arguments]
    families = [family(kind) for kind in kinds]
    if name in _OF_TEXT and families[0] is not Family.STRING:
        return f"takes a text, not {type_name(kinds[0])}; write CAST(... AS STRING)"
    if name in _OF_NUMBERS and any(each not in _NUMBERS for each in families):
        return f"takes numbers, not {', '.join(map(type_name, kinds))}"
    if name in _CHOICES and any(not _is_alike(kind, kinds[0]) for kind in kinds[1:]):
        return f"is given several types ({', '.join(map(type_name, kinds))}); CAST them to one"
    return ""


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    return one == other or family(one) is family(other) is Family.STRING


def _check_cast(index: str, source: pa.DataType, target: pa.DataType) -> None:
    """Refuse casts whose result is not known to the last digit.

    Those of numbers may fail in ANSI mode: a file with such a number has no entry. Those of texts
    may fail too, as a query in that mode does.
    """
    families = (family(source), family(target))
    one, other = families
    is_of_times = one in _TIMES and other in _TIMES
    if one is Family.STRING or one is other or is_of_times or families in _KNOWN_CASTS:
        return
    raise UnsupportedFeature(
        f"a cast of {type_name(source)} to {type_name(target)} in CREATE INDEX {index}"
    )


_KNOWN_CASTS = frozenset(
    [
        (Family.INTEGER, Family.FLOAT),
        (Family.INTEGER, Family.DECIMAL),
        (Family.INTEGER, Family.STRING),
        (Family.INTEGER, Family.BOOLEAN),
        (Family.INTEGER, Family.TIMESTAMP),
        (Family.FLOAT, Family.INTEGER),
        (Family.FLOAT, Family.BOOLEAN),
        (Family.DECIMAL, Family.INTEGER),
        (Family.DECIMAL, Family.FLOAT),
        (Family.DECIMAL, Family.STRING),
        (Family.DECIMAL, Family.BOOLEAN),
        (Family.BOOLEAN, Family.INTEGER),
        (Family.BOOLEAN, Family.FLOAT),
        (Family.BOOLEAN, Family.STRING),
        (Family.TIMESTAMP, Family.INTEGER),
        *((time, Family.STRING) for time in _TIMES),
    ]
)
