"""The name of an expression index in a predicate, which stands for its expression.

`idx_day = '2022-10-01'` compares what the index is about, computed as the index has it. A column of
that name comes first. A function of time means the time zone of the index; a query in another zone
gets an error, as its own zone has no such function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from lakedex.errors import IndexUnusable, InvalidInput
from lakedex.expr.tree import (
    Expr,
)
from lakedex.index.definitions import PINNED_ZONE, IndexDefinition
from lakedex.index.kinds.expression.definition import depends_on_zone, indexed_expression
from lakedex.index.kinds.expression.target import PREFIX, given_name

Zones = Callable[[], Mapping[str, str]]


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
