"""Bloom filters of record keys as a kind of index."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lakedex.config import write_option_names as options_of
from lakedex.errors import InvalidInput
from lakedex.index.advice import HypotheticalIndex
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.bloom_filters.collect import blooms_change
from lakedex.index.kinds.bloom_filters.lookup import BloomFilterIndex
from lakedex.index.kinds.record_index.advice import what_if as key_what_if
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind
from lakedex.index.metadata_table.partitions import Change
from lakedex.index.request import CreateRequest, NewIndex
from lakedex.index.size_estimate import IndexedRows
from lakedex.index.written import CommitChanges

_WHY_SYNC = (
    "upserts may find records by it; create one USING bloom_filters on an expression, or USING "
    "bitmap, instead"
)


class BloomFiltersKind(BloomFilterIndex, MetadataIndexKind):
    """Bloom filters of record keys as a kind of index."""

    partition = Kind.BLOOM_FILTERS
    switches = (options_of.BLOOM_FILTERS,)
    aliases = ("bloom_filter",)
    build_order = 2
    usual_file_groups = 4
    collects = True

    def define(self, request: CreateRequest) -> NewIndex:
        """The write options that keep bloom filters.

        Filters of another column are an expression index on the column as it is.

        Raises:
            InvalidInput: the columns are not the record key, or an option is wrong.
        """
        options = request.write_options(_WHY_SYNC)
        keys = request.config.record_key_fields
        if request.columns and request.columns != tuple(keys):
            raise InvalidInput(
                f"the index bloom_filters of table {request.table} is on its key "
                f"({', '.join(keys)}), not on {', '.join(request.columns)}"
            )
        return NewIndex({**options, options_of.BLOOM_FILTERS.name: "true"})

    def extend(self, request: CreateRequest) -> None:
        """Check a statement about the filters of the table: nothing can be added to them."""
        self.define(request)

    def rebuild(
        self, request: CreateRequest, name: str, definition: IndexDefinition | None
    ) -> NewIndex:
        """The write option by which they are built again."""
        del request, name, definition
        return NewIndex({options_of.BLOOM_FILTERS.name: "true"})

    def records(
        self,
        name: str,
        changes: CommitChanges,
        instant: str,
        definitions: Mapping[str, IndexDefinition],
    ) -> Change:
        """The filters of new base files, and the keys of removed ones."""
        del definitions
        return blooms_change(changes.notes.get(name, ()), changes.removed, instant)

    def what_if(self, columns: tuple[str, ...], schema: pa.Schema) -> HypotheticalIndex:
        """Filters of record keys."""
        return key_what_if(self, columns, schema)

    def first_file_groups(self, size: IndexedRows) -> int:
        """As options say."""
        return size.options.bloom_filter_groups
