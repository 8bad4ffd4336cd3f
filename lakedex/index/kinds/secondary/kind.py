"""Secondary indexes as a kind of index."""

from __future__ import annotations

from collections.abc import Mapping

from lakedex.config.own_partitions import ASYNC_SECONDARY_PREFIX, COMPOSITE_PREFIX
from lakedex.index.definitions import COVERING, MAINTENANCE, IndexDefinition
from lakedex.index.kinds.secondary.composite import composites_behind
from lakedex.index.kinds.secondary.lookup import SecondaryIndex
from lakedex.index.kinds.secondary.pairs import PREFIX
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind
from lakedex.timeline import Timeline


class SecondaryKind(SecondaryIndex, MetadataIndexKind):
    """Secondary indexes as a kind of index."""

    partition = Kind.SECONDARY_INDEX
    is_default = True
    leaves_outdated_entries = True
    options = (COVERING, MAINTENANCE)
    prefixes = (COMPOSITE_PREFIX, ASYNC_SECONDARY_PREFIX, PREFIX)
    serves_queries_only = True

    def behind(
        self, timeline: Timeline, definitions: Mapping[str, IndexDefinition]
    ) -> frozenset[str]:
        """Indexes on several columns that another engine, which does not know them, left behind."""
        return composites_behind(timeline, definitions)
