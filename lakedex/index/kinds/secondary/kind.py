"""Secondary indexes as a kind of index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from lakedex.config.table_config import ASYNC_SECONDARY_PREFIX, COMPOSITE_PREFIX
from lakedex.filegroup import FileSlice, ReadContext
from lakedex.index.contract import Mask
from lakedex.index.definitions import COVERING, MAINTENANCE, IndexDefinition
from lakedex.index.kinds.secondary.collect import MaintainedSecondary
from lakedex.index.kinds.secondary.coverage import (
    composite_note,
    composites_behind,
    covered_slices,
    covering_note,
    find_pairs,
    kept_note,
    kept_up_note,
    stamped,
)
from lakedex.index.kinds.secondary.key_encoding import is_certain
from lakedex.index.kinds.secondary.lookup import SecondaryIndex
from lakedex.index.kinds.secondary.records import FEW_PAIRS, PREFIX
from lakedex.index.maintenance import MaintainedIndex
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind, MetadataTable
from lakedex.index.metadata_table.hashing import Int32s, shards_of
from lakedex.index.metadata_table.keys import placed_values_of_secondary
from lakedex.index.request import NewIndex
from lakedex.index.size_estimate import IndexedRows, shards_for
from lakedex.index.verification.findings import Problem, ProblemKind
from lakedex.schema.field_paths import type_at
from lakedex.timeline import Timeline


class SecondaryKind(SecondaryIndex, MetadataIndexKind):
    """Secondary indexes as a kind of index."""

    partition = Kind.SECONDARY_INDEX
    is_of_keys = True
    few_entries = FEW_PAIRS
    collects = True
    is_suggested = True
    needs = ("record_index",)
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

    def first_file_groups(self, size: IndexedRows) -> int:
        """As many as a record index over the whole table would get."""
        options = size.options
        return shards_for(
            size.rows,
            *options.record_index_groups,
            partitioned=False,
            room=options.record_index_room,
        )

    def stamped(
        self, definition: IndexDefinition, timeline: Callable[[], Timeline]
    ) -> IndexDefinition:
        """With the newest write, where readers hold the index against it."""
        return stamped(definition, timeline)

    def commit_note(
        self,
        maintained: Sequence[MaintainedIndex],
        new: Sequence[MaintainedIndex],
        timeline: Timeline,
        definitions: Mapping[str, IndexDefinition],
    ) -> dict[str, str]:
        """The indexes that were kept up to date, and those that are right as a whole."""
        targets, made = ([each.target for each in _own(some)] for some in (maintained, new))
        return {
            **kept_up_note(targets),
            **covering_note(targets, made, timeline, definitions),
            **composite_note(targets, made, timeline, definitions),
        }

    def planned(self, definition: IndexDefinition | None) -> NewIndex | None:
        """The index that the definition describes."""
        return NewIndex({}, definition)

    def has_plain_entries(self, definition: IndexDefinition, schema: pa.Schema) -> bool:
        """Whether entries name no file groups, and values have one text in every engine."""
        types = [type_at(each, schema) for each in definition.source_fields]
        is_encoded = all(kind is not None and is_certain(kind) for kind in types)
        return definition.names_columns and not definition.is_covering and is_encoded

    def can_repair(self, problem: Problem, *, is_plain: bool) -> bool:
        """Where an entry is nothing but its key."""
        return is_plain and problem.kind is not ProblemKind.WRONG

    def kept_note(
        self, timeline: Timeline, definitions: Mapping[str, IndexDefinition]
    ) -> dict[str, str]:
        """The indexes on several columns that were right before the commit are so after it."""
        return kept_note(timeline, definitions)

    def covered(
        self,
        metadata: MetadataTable,
        definition: IndexDefinition,
        context: ReadContext,
        slices: Sequence[FileSlice],
    ) -> Mask:
        """Those that the index names as read."""
        return covered_slices(metadata, definition, context, slices)

    def find_records(
        self,
        metadata: MetadataTable,
        name: str,
        definition: IndexDefinition | None,
        keys: pa.Array,
    ) -> pa.Table:
        """The records of some keys."""
        return find_pairs(metadata, name, definition, keys)

    def key_shards(
        self, definition: IndexDefinition | None, keys: pa.Array, count: int
    ) -> Int32s | None:
        """Those of the values' hashes, or of the whole keys' in an index of the first version."""
        if definition is None:
            return None
        if not definition.is_placed_by_value:
            return shards_of(keys, count)
        values = placed_values_of_secondary(keys, max(1, len(definition.source_fields)))
        return None if values.null_count else shards_of(values, count)


def _own(indexes: Sequence[MaintainedIndex]) -> list[MaintainedSecondary]:
    return [each for each in indexes if isinstance(each, MaintainedSecondary)]
