"""The name of an expression index in a predicate, in the place of its expression.

`idx_day = '2022-10-01'` asks for what the index is about, computed as the index has it. A column
of that name comes first. A function of time means the time zone of the index; a query in another
zone is told so, as there is no such function in its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from lakedex.errors import IndexUnusable, InvalidInput
from lakedex.expr.tree import (
    And,
    Call,
    Column,
    Compare,
    Expr,
    Literal,
    Or,
    Unknown,
    check_depth,
    columns_of,
)
from lakedex.index.definitions import PINNED_ZONE, IndexDefinition
from lakedex.index.kinds.expression.definition import depends_on_zone, indexed_expression
from lakedex.index.kinds.expression.target import PREFIX, given_name

Path = tuple[str, ...]
Zones = Callable[[], Mapping[str, str]]


def with_expressions(predicate: Expr, named: Callable[[str], Expr | None]) -> Expr:
    """A predicate as it was written, with expressions in the place of names of indexes.

    Args:
        predicate: Not bound yet.
        named: Gives the expression of an index; None for a name that is none.

    Example:
        >>> from lakedex.expr.tree import Op
        >>> asked = Compare(Op.EQ, Column(("up",)), Literal("A"))
        >>> upper = Call("upper", (Column(("name",), pa.string()),))
        >>> with_expressions(asked, {"up": upper}.get).left.function
        'upper'
    """
    check_depth(predicate)
    known: dict[Path, Expr] = {}
    for column in columns_of(predicate):
        if len(column.path) == 1 and column.type is None:
            found = named(column.path[0])
            known |= {} if found is None else {column.path: found}
    return _replaced(predicate, known) if known else predicate


def names_of_expressions(definitions: Mapping[str, IndexDefinition]) -> frozenset[str]:
    """The names of the indexes among some that stand for an expression, in small letters."""
    return frozenset(given_name(each).lower() for each in definitions if each.startswith(PREFIX))


def expression_named(
    name: str,
    schema: pa.Schema,
    definitions: Mapping[str, IndexDefinition],
    zones: Zones,
    time_zone: str,
) -> Expr | None:
    """The bound expression of the index of a name; None for a column, or what is no such index.

    Args:
        name: As it was written.
        schema: The columns of the table.
        definitions: Its indexes.
        zones: Gives the zones that expression indexes are computed in, by index.
        time_zone: That of the query.

    Raises:
        InvalidInput: the index is computed in another zone than the query is.
        IndexUnusable: its expression is not known here.
    """
    wanted = name.lower()
    if wanted in (field.name.lower() for field in schema):
        return None
    named = {each: given_name(each) for each in definitions if each.startswith(PREFIX)}
    alike = [each for each, given in named.items() if given.lower() == wanted]
    exact = [each for each in alike if named[each] == name]
    if not alike:
        return None
    if len(exact or alike) > 1:
        raise InvalidInput(f"{name} may be each of the indexes {', '.join(alike)}")
    index = (exact or alike)[0]
    expression = indexed_expression(definitions[index], schema, time_zone)
    if isinstance(expression, str):
        raise IndexUnusable(f"the index {name} cannot stand in a predicate: {expression}")
    zone = definitions[index].options.get(PINNED_ZONE) or zones().get(index, time_zone)
    if depends_on_zone(expression) and zone != time_zone:
        raise InvalidInput(
            f"the index {name} is computed in the time zone {zone} and the query is in "
            f"{time_zone}; ask in {zone}, or write the expression instead of its name"
        )
    return expression


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
