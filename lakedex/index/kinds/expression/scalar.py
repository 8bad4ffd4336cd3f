"""Expressions of indexes that Hudi has no name for, bound to the columns of a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.expr.bind import bind, bound_type
from lakedex.expr.coercion import Family, family
from lakedex.expr.explicit_casts import with_casts
from lakedex.expr.functions import canonical_name
from lakedex.expr.tree import Call, Cast, Expr, columns_of
from lakedex.index.expressions import nodes_of
from lakedex.index.request import CreateRequest
from lakedex.schema.hudi_types import type_name

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
