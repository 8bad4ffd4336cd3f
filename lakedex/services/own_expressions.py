"""Expressions of indexes that Hudi has no name for: nested ones, and those over several columns.

An expression is taken where lakedex gives to the last digit what Spark gives. What is not the same
each time, what aggregates, and what is not known is refused by its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.expr.bind import bind, bound_type
from lakedex.expr.coercion import Family, family
from lakedex.expr.explicit_casts import with_casts
from lakedex.expr.functions import canonical_name, function_names
from lakedex.expr.functions.conditions import CAST_FAILS
from lakedex.expr.sql import parse_expression
from lakedex.expr.tree import Call, Cast, Column, Expr, Literal, children_of, columns_of
from lakedex.index.kinds.expression.own import source_names
from lakedex.schema.hudi_types import type_name
from lakedex.services.index_names import indexed_column
from lakedex.table import Snapshot
from lakedex.write.target import StoredSchema

_NOT_SCALAR = frozenset(
    {"identity", "if", "like", "not", "startswith", "endswith", "contains", "right", "positive"}
    | {"octet_length", CAST_FAILS}
)
_CHANGING = frozenset(
    {"rand", "random", "randn", "uuid", "shuffle", "now", "current_timestamp", "current_date"}
    | {"localtimestamp", "monotonically_increasing_id", "spark_partition_id", "input_file_name"}
    | {"current_user", "user", "current_timezone"}
)
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
    for node in _nodes(tree):
        if isinstance(node, Call):
            check_function(index, node.function)
        elif not isinstance(node, Column | Literal | Cast):
            raise UnsupportedFeature(f"CREATE INDEX {index} on a condition ({text.strip()}),")
    if isinstance(tree, Column | Literal) or not columns_of(tree):
        raise UnsupportedFeature(f"CREATE INDEX {index} on {text.strip()}, which is no function,")
    return tree


def bound_scalar(snapshot: Snapshot, index: str, tree: Expr, zone: str) -> Expr:
    """An expression bound to the columns of a table, with the casts that Spark would add.

    Raises:
        InvalidInput: A column is not there, or types do not fit.
        UnsupportedFeature: It is not certain what Spark would give.
    """
    for column in columns_of(tree):
        indexed_column(snapshot, column.path[0])
    try:
        plain = bind(tree, StoredSchema.of(snapshot).columns, time_zone=zone)
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


def _check_calls(index: str, expression: Expr, functions: Collection[str]) -> None:
    for node in _nodes(expression):
        if isinstance(node, Call) and canonical_name(node.function) in functions:
            problem = _problem(canonical_name(node.function), node.arguments)
            if problem:
                raise InvalidInput(f"{node.function} in CREATE INDEX {index} {problem}")


def _check_casts(index: str, expression: Expr) -> None:
    for node in _nodes(expression):
        if isinstance(node, Cast):
            _check_cast(index, bound_type(node.child), node.type)


def _nodes(expression: Expr) -> Iterator[Expr]:
    pending: list[Expr] = [expression]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(children_of(node))


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
    may fail too, which a query in that mode tells.
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
