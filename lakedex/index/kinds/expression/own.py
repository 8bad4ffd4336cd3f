"""Expressions that only lakedex computes: functions in functions, and functions of several columns.

Their definition keeps the tree itself, bound to the columns as they were, beside the text that was
typed and the version of what computes it. Another type of a column may mean another result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from lakedex.errors import CorruptFile, IndexUnusable, LakedexError
from lakedex.expr.bind import bind, bound_type
from lakedex.expr.coercion import Family, family
from lakedex.expr.json_form import from_json, to_json
from lakedex.expr.tree import Call, Cast, Column, Expr, columns_of
from lakedex.index.definitions import OWN_EXPRESSION, IndexDefinition
from lakedex.schema.hudi_types import type_name

EXPRESSION_TEXT: Final = "expr"
_EVALUATOR = "lakedex.evaluator"
_VERSION = 1
"""Grows when an expression may come out otherwise than before."""
_SIZED = (Family.INTEGER, Family.FLOAT)


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
            raise IndexUnusable(f"its column {old.name} was {_told(old)} and is {_told(new)}")
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


def source_names(columns: Iterable[Column]) -> tuple[str, ...]:
    """The columns of a table that some columns and fields of columns lie in, each once."""
    return tuple(dict.fromkeys(column.path[0] for column in columns))


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


def _told(column: Column) -> str:
    return "unknown" if column.type is None else type_name(column.type)
