"""The name of an expression index in a predicate, in the place of its expression.

`idx_day = '2022-10-01'` asks for what the index is about, computed as the index has it. A column
of that name comes first. A function of time means the time zone of the index; a query in another
zone is told so, as there is no such function in its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from lakedex.config.own_partitions import OWN_EXPRESSION_PREFIX
from lakedex.errors import IndexUnusable, InvalidInput
from lakedex.expr.depth import check_depth
from lakedex.expr.tree import (
    And,
    Call,
    Column,
    Compare,
    Expr,
    Literal,
    Or,
    Unknown,
    columns_of,
)
from lakedex.index.definitions import IndexDefinition
from lakedex.index.expression.definition import depends_on_zone, indexed_expression
from lakedex.index.expression.target import PREFIX

Path = tuple[str, ...]
Zones = Callable[[], Mapping[str, str]]


def with_expressions(
    predicate: Expr,
    schema: pa.Schema,
    definitions: Mapping[str, IndexDefinition],
    zones: Zones,
    time_zone: str,
) -> Expr:
    """A predicate as it was written, with expressions in the place of names of indexes.

    Args:
        predicate: Not bound yet.
        schema: The columns of the table.
        definitions: Its indexes.
        zones: Gives the zones that expression indexes are computed in, by index.
        time_zone: That of the query.

    Raises:
        InvalidInput: the index is computed in another zone than the query is.
        IndexUnusable: its expression is not known here.

    Example:
        >>> one = IndexDefinition("expr_index_up", "column_stats", "upper", ("s",))
        >>> from lakedex.expr.tree import Op
        >>> asked = Compare(Op.EQ, Column(("up",)), Literal("A"))
        >>> schema = pa.schema([("s", pa.string())])
        >>> with_expressions(asked, schema, {one.name: one}, dict, "UTC").left.function
        'upper'
    """
    check_depth(predicate)
    known: dict[Path, Expr] = {}
    for column in columns_of(predicate):
        if len(column.path) == 1 and column.type is None:
            found = expression_named(column.path[0], schema, definitions, zones, time_zone)
            known |= {} if found is None else {column.path: found}
    return _replaced(predicate, known) if known else predicate


def expression_named(
    name: str,
    schema: pa.Schema,
    definitions: Mapping[str, IndexDefinition],
    zones: Zones,
    time_zone: str,
) -> Expr | None:
    """The bound expression of the index of a name; None for a column, or what is no such index."""
    wanted = name.lower()
    if wanted in (field.name.lower() for field in schema):
        return None
    names = {_given_name(each).lower(): each for each in definitions if each.startswith(PREFIX)}
    index = names.get(wanted)
    if index is None:
        return None
    expression = indexed_expression(definitions[index], schema, time_zone)
    if isinstance(expression, str):
        raise IndexUnusable(f"the index {name} cannot stand in a predicate: {expression}")
    zone = zones().get(index, time_zone)
    if depends_on_zone(expression) and zone != time_zone:
        raise InvalidInput(
            f"the index {name} is computed in the time zone {zone} and the query is in "
            f"{time_zone}; ask in {zone}, or write the expression instead of its name"
        )
    return expression


def _given_name(index: str) -> str:
    return index.removeprefix(OWN_EXPRESSION_PREFIX).removeprefix(PREFIX)


def _replaced(node: Expr, known: Mapping[Path, Expr]) -> Expr:
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
