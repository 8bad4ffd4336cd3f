"""Expression indexes as a kind of index.

The name of an expression index in a predicate stands for its expression: `idx_day = '2022-10-01'`
compares what the index is about, computed as the index has it. A column of that name comes first. A
function of time means the time zone of the index; a query in another zone gets an error, as its own
zone has no such function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from lakedex.config.metadata_options import zone_setting
from lakedex.config.table_config import OWN_EXPRESSION_PREFIX
from lakedex.errors import IndexUnusable, InvalidInput
from lakedex.expr.tree import Expr
from lakedex.filegroup import FileSlice, ReadContext
from lakedex.index.contract import Mask
from lakedex.index.definitions import MAINTENANCE, PINNED_ZONE, IndexDefinition
from lakedex.index.expressions import EXPR, FUNCTION_OPTIONS
from lakedex.index.file_bounds import slices_with_entries
from lakedex.index.kinds.expression.definition import (
    FILTER_OPTIONS,
    PREFIX,
    depends_on_zone,
    given_name,
    indexed_expression,
    is_free_of_zones,
)
from lakedex.index.kinds.expression.lookup import ExpressionIndex
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind, MetadataTable
from lakedex.index.metadata_table.partitions import Change
from lakedex.index.request import CreateRequest
from lakedex.index.written import CommitChanges

Zones = Callable[[], Mapping[str, str]]


class ExpressionKind(ExpressionIndex, MetadataIndexKind):
    """Expression indexes as a kind of index."""

    partition = Kind.EXPRESSION_INDEX
    indexes_expressions = True
    options = (EXPR, MAINTENANCE, *sorted(FUNCTION_OPTIONS), *FILTER_OPTIONS)
    prefixes = (OWN_EXPRESSION_PREFIX, PREFIX)
    serves_queries_only = True
    usual_file_groups = 2
    collects = True

    def accepts(self, request: CreateRequest, kind: str) -> bool:
        """Whether a statement is about an expression, or filters of values that are no keys."""
        del kind
        accepts: Callable[[CreateRequest], bool] = self._part("define").accepts
        return accepts(request)

    def records(
        self,
        name: str,
        changes: CommitChanges,
        instant: str,
        definitions: Mapping[str, IndexDefinition],
    ) -> Change:
        """What a commit does to an expression index, of ranges or of filters."""
        records: Callable[[str, CommitChanges, str, Mapping[str, IndexDefinition]], Change]
        records = self._part("collect").records
        return records(name, changes, instant, definitions)

    def can_build_again(
        self, name: str, definition: IndexDefinition | None, kept: Mapping[str, str]
    ) -> bool:
        """Where it is known in which time zone it is computed, or that does not matter."""
        if definition is None or not definition.source_fields:
            return False
        return zone_setting(name) in kept or is_free_of_zones(definition)

    def can_maintain(self, name: str, definitions: Mapping[str, IndexDefinition]) -> bool:
        """Where the table says what the index is on."""
        return name in definitions

    def covered(
        self,
        metadata: MetadataTable,
        definition: IndexDefinition,
        context: ReadContext,
        slices: Sequence[FileSlice],
    ) -> Mask:
        """Those of which it has the entries of all files."""
        del context
        return slices_with_entries(metadata, definition, slices)

    def expression_names(self, definitions: Mapping[str, IndexDefinition]) -> frozenset[str]:
        """The names that expression indexes were given."""
        return _names_of_expressions(definitions)

    def expression_named(
        self,
        name: str,
        schema: pa.Schema,
        definitions: Mapping[str, IndexDefinition],
        zones: Callable[[], Mapping[str, str]],
        time_zone: str,
    ) -> Expr | None:
        """The expression of the index."""
        return _expression_named(name, schema, definitions, zones, time_zone)


def _names_of_expressions(definitions: Mapping[str, IndexDefinition]) -> frozenset[str]:
    """The names of the indexes among some that stand for an expression, in small letters."""
    return frozenset(given_name(each).lower() for each in definitions if each.startswith(PREFIX))


def _expression_named(
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
