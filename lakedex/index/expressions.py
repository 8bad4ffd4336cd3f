"""Expressions in statements about indexes: `CREATE INDEX i ON t (date_format(ts, 'yyyy'))`.

A function of one column that Hudi knows has options for its other arguments; every other expression
is an option itself. An expression is accepted where lakedex computes to the last digit what Spark
computes. What changes from call to call, what aggregates, and what is not known is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.coercion import Family
from lakedex.expr.functions import canonical_name, function_names
from lakedex.expr.functions.conditions import CAST_FAILS
from lakedex.expr.sql import parse_expression
from lakedex.expr.tree import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    Literal,
    Or,
    Unknown,
    check_depth,
    children_of,
    columns_of,
)

EXPR: Final = "expr"
"""The option that names the function, or has the whole expression."""
IDENTITY: Final = "identity"
_NOT_SCALAR = frozenset(
    {"identity", "if", "like", "not", "startswith", "endswith", "contains", "right", "positive"}
    | {"octet_length", CAST_FAILS}
)
_CHANGING = frozenset(
    {"rand", "random", "randn", "uuid", "shuffle", "now", "current_timestamp", "current_date"}
    | {"localtimestamp", "monotonically_increasing_id", "spark_partition_id", "input_file_name"}
    | {"current_user", "user", "current_timezone"}
)


class CheckedBySpark(Protocol):
    """Spark, which checks an expression before anything is built."""

    def check(self, column: str, function: str, arguments: Mapping[str, str]) -> None:
        """Raise where Spark does not accept a function of a column with these options."""

    def knows(self, zone: str) -> bool:
        """Whether a time zone is the same to Spark as it is here."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes: columns of some types, and options as its other arguments."""

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
FUNCTIONS: Final[Mapping[str, Signature]] = {
    IDENTITY: Signature(_ANYTHING),
    "date_format": Signature(_DAYS, ("format",)),
    "from_unixtime": Signature(frozenset([Family.INTEGER]), (), ("format",)),
    "unix_timestamp": Signature(_TIME | _TEXT, (), ("format",)),
    "to_date": Signature(_CALENDAR | _TEXT, (), ("format",)),
    "to_timestamp": Signature(_TIME | _TEXT, (), ("format",)),
    "year": Signature(_DAYS),
    "month": Signature(_DAYS),
    "day": Signature(_DAYS),
    "hour": Signature(_CLOCK | _TEXT),
    "date_add": Signature(_DAYS, ("days",)),
    "date_sub": Signature(_DAYS, ("days",)),
    "upper": Signature(_TEXT),
    "lower": Signature(_TEXT),
    "trim": Signature(_TEXT, (), ("trimString",)),
    "ltrim": Signature(_TEXT, (), ("trimString",)),
    "rtrim": Signature(_TEXT, (), ("trimString",)),
    "length": Signature(_TEXT),
    "substring": Signature(_TEXT, ("pos", "len")),
    "regexp_extract": Signature(_TEXT, ("pattern", "idx")),
    "regexp_replace": Signature(_TEXT, ("pattern", "replacement")),
}
"""Functions that Hudi indexes and that are computed here to the last character."""

FUNCTION_OPTIONS: Final = frozenset(
    ["format", "days", "pos", "len", "trimString", "pattern", "idx", "replacement"]
)
"""The arguments of these functions."""
WHOLE_NUMBERS: Final = frozenset(["days", "pos", "len", "idx"])
"""Options whose values are numbers."""
_TO_DATE = "to_date"
_BY_CANONICAL_NAME = {canonical_name(name): name for name in FUNCTIONS}
_TRIMS = frozenset(["trim", "ltrim", "rtrim"])
_SIGNS = frozenset("(+*/%|&^:")
OWN_FUNCTIONS: Final = frozenset(
    name for name in function_names() if canonical_name(name) not in _NOT_SCALAR
)
"""What an expression may call."""


def is_expression(text: str) -> bool:
    """Whether a text is an expression, and not the name of a column.

    Example:
        >>> is_expression("price * qty"), is_expression("-qty"), is_expression("e-mail")
        (True, True, False)
        >>> is_expression("qty div 7"), is_expression("div")
        (True, False)
    """
    own = text.strip()
    has_sign = not _SIGNS.isdisjoint(own) or " - " in own or own.startswith("-")
    return has_sign or "div" in own.lower().split()[1:-1]


def spelled_out(function: str, column: str, arguments: Mapping[str, str | int]) -> str:
    """A function of a column, or of a field of one, and of constants as a call in SQL.

    Example:
        >>> spelled_out("substring", "home.city", {"pos": 1, "len": 2})
        'substring(home.city, 1, 2)'
        >>> spelled_out("trim", "name", {"trimString": "-"})
        "trim('-', name)"
    """
    parts = [each if each.isidentifier() else f"`{each}`" for each in column.split(".")]
    given = [".".join(parts), *map(_constant, arguments.values())]
    if function in _TRIMS:
        # They alone have their column last.
        given.reverse()
    return f"{function}({', '.join(given)})"


def _constant(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def parse_scalar(index: str, text: str) -> Expr:
    """The tree of an expression that an index may be on; names and types are not looked at.

    Raises:
        InvalidDefinition: It is no expression; the place is shown.
        UnsupportedFeature: A part of it cannot be indexed.
    """
    tree = parse_expression(text)
    for node in nodes_of(tree):
        if isinstance(node, Call):
            check_function(index, node.function)
        elif not isinstance(node, Column | Literal | Cast):
            raise UnsupportedFeature(f"CREATE INDEX {index} on a condition ({text.strip()}),")
    if isinstance(tree, Column | Literal) or not columns_of(tree):
        raise UnsupportedFeature(f"CREATE INDEX {index} on {text.strip()}, which is no function,")
    return tree


def read_columns(index: str, columns: list[str]) -> tuple[list[str], dict[str, str]]:
    """The columns of an index, and the options that say the same as an expression among them.

    Example:
        >>> read_columns("i", ["upper(name)"])
        (['name'], {'expr': 'upper'})
        >>> read_columns("i", ["cast(at as date)"])
        (['at'], {'expr': 'to_date'})
        >>> read_columns("i", ["name"])
        (['name'], {})
    """
    if len(columns) != 1 or not is_expression(columns[0]):
        return columns, {}
    return read_expression(index, columns[0])


def with_spelled_function(columns: Sequence[str], options: Mapping[str, str]) -> dict[str, str]:
    """The options of an index as Hudi has them where `expr` is a whole call that it knows.

    Example:
        >>> with_spelled_function(["ts"], {"expr": "from_unixtime(ts, 'yyyy')"})
        {'expr': 'from_unixtime', 'format': 'yyyy'}
        >>> with_spelled_function(["ts"], {"expr": "year"})
        {'expr': 'year'}
    """
    given = dict(options)
    if not is_expression(given.get(EXPR, "")):
        return given
    known = _as_hudi_has_it(parse_expression(given[EXPR]))
    if known is None:
        return given
    own, spelled = known
    is_alike = [each.lower() for each in own] == [each.lower() for each in columns]
    return {**given, **spelled} if is_alike and given.keys() & spelled.keys() == {EXPR} else given


def read_expression(index: str, text: str) -> tuple[list[str], dict[str, str]]:
    """The columns of an expression, and the options that say what is computed of them.

    A function of one column that Hudi knows has options for its other arguments; every other
    expression is an option itself.

    Example:
        >>> read_expression("i", "date_format(ts, 'yyyy-MM-dd')")
        (['ts'], {'expr': 'date_format', 'format': 'yyyy-MM-dd'})
        >>> read_expression("i", "upper(trim(name))")
        (['name'], {'expr': 'upper(trim(name))'})

    Raises:
        InvalidDefinition: It is no expression; the place is shown.
        UnsupportedFeature: It is none that can be indexed.
    """
    tree = parse_expression(text)
    known = _as_hudi_has_it(tree)
    if known is not None:
        return known
    names = source_names(columns_of(parse_scalar(index, text)))
    return list(names), {EXPR: text.strip()}


def _as_hudi_has_it(tree: Expr) -> tuple[list[str], dict[str, str]] | None:
    """A function of a column that Hudi knows too, with constants for its other arguments."""
    if isinstance(tree, Cast) and pa.types.is_date(tree.type):
        # Spark's optimiser leaves only the bare column of a comparison with such a cast, and that
        # is compared with functions that Hudi knows.
        tree = Call(_TO_DATE, (tree.child,))
    if not isinstance(tree, Call) or not tree.arguments:
        return None
    name = _BY_CANONICAL_NAME.get(canonical_name(tree.function))
    column, *rest = tree.arguments
    if name is None or not isinstance(column, Column):
        return None
    signature = FUNCTIONS[name]
    options = (*signature.needed, *signature.allowed)
    texts = [
        str(each.value) for each in rest if isinstance(each, Literal) and each.value is not None
    ]
    if len(texts) < len(rest) or not len(signature.needed) <= len(rest) <= len(options):
        return None
    return [".".join(column.path)], {EXPR: name, **dict(zip(options, texts, strict=False))}


def check_same_columns(index: str, named: Sequence[str], expression: Expr) -> None:
    """Refuse columns beside an expression that are not those in it.

    Raises:
        InvalidInput: naming both.
    """
    own = source_names(columns_of(expression))
    if {name.lower() for name in named} != {name.lower() for name in own}:
        raise InvalidInput(
            f"CREATE INDEX {index} names {', '.join(named)}, and its expression is of "
            f"{', '.join(own)}"
        )


def check_function(index: str, name: str) -> None:
    """Refuse a function that no expression of an index may call.

    Raises:
        UnsupportedFeature: with the reason, where there is one, or with those that may be called.
    """
    if name.lower() in OWN_FUNCTIONS:
        return
    if name.lower() in _CHANGING:
        raise UnsupportedFeature(
            f"CREATE INDEX {index} on the function {name!r}, which is not the same each time,"
        )
    if name.lower() == "split":
        raise UnsupportedFeature(
            f"CREATE INDEX {index} on the function 'split', which gives a list and has no range,",
            instead="index one of its parts, such as split(s, '-')[0]",
        )
    known = ", ".join(sorted(OWN_FUNCTIONS))
    raise UnsupportedFeature(f"CREATE INDEX {index} on the function {name!r} (only {known})")


def source_names(columns: Iterable[Column]) -> tuple[str, ...]:
    """The columns of a table that contain some columns and fields of columns, each once."""
    return tuple(dict.fromkeys(column.path[0] for column in columns))


def nodes_of(expression: Expr) -> Iterator[Expr]:
    """An expression and all parts of it."""
    pending: list[Expr] = [expression]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(children_of(node))


def with_expressions(predicate: Expr, named: Callable[[str], Expr | None]) -> Expr:
    """A predicate as it was written, with expressions in place of the names of indexes.

    Args:
        predicate: Not bound yet.
        named: Returns the expression of an index; None for any other name.

    Example:
        >>> from lakedex.expr.tree import Compare, Op
        >>> written = Compare(Op.EQ, Column(("up",)), Literal("A"))
        >>> upper = Call("upper", (Column(("name",), pa.string()),))
        >>> with_expressions(written, {"up": upper}.get).left.function
        'upper'
    """
    check_depth(predicate)
    known: dict[tuple[str, ...], Expr] = {}
    for column in columns_of(predicate):
        if len(column.path) == 1 and column.type is None:
            expression = named(column.path[0])
            known |= {} if expression is None else {column.path: expression}
    return _replaced(predicate, known) if known else predicate


def _replaced(node: Expr, known: Mapping[tuple[str, ...], Expr]) -> Expr:
    match node:
        case Column(path):
            return known.get(path, node)
        case Literal() | Unknown():
            return node
        case Compare(op, left, right):
            return Compare(op, _replaced(left, known), _replaced(right, known))
        case And(children) | Or(children):
            return replace(node, children=tuple(_replaced(child, known) for child in children))
        case Call(name, arguments):
            return Call(name, tuple(_replaced(argument, known) for argument in arguments))
        case _:
            return replace(node, child=_replaced(node.child, known))
