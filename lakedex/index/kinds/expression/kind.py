"""Expression indexes as a kind of index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from lakedex.config.metadata_options import zone_setting
from lakedex.config.table_config import OWN_EXPRESSION_PREFIX
from lakedex.expr.tree import Expr
from lakedex.filegroup import FileSlice, ReadContext
from lakedex.index.contract import Mask
from lakedex.index.definitions import MAINTENANCE, IndexDefinition
from lakedex.index.expressions import EXPR, FUNCTION_OPTIONS
from lakedex.index.file_bounds import slices_with_entries
from lakedex.index.kinds.expression.definition import is_free_of_zones
from lakedex.index.kinds.expression.filter_options import FILTER_OPTIONS
from lakedex.index.kinds.expression.lookup import ExpressionIndex
from lakedex.index.kinds.expression.target import PREFIX
from lakedex.index.kinds.expression.virtual import expression_named, names_of_expressions
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind, MetadataTable
from lakedex.index.request import CreateRequest


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
        return names_of_expressions(definitions)

    def expression_named(
        self,
        name: str,
        schema: pa.Schema,
        definitions: Mapping[str, IndexDefinition],
        zones: Callable[[], Mapping[str, str]],
        time_zone: str,
    ) -> Expr | None:
        """The expression of the index."""
        return expression_named(name, schema, definitions, zones, time_zone)
