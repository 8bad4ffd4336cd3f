"""Bloom filters of record keys as a kind of index."""

from __future__ import annotations

from lakedex.config import write_option_names as options_of
from lakedex.index.file_groups import IndexedRows
from lakedex.index.kinds.bloom_filters.lookup import BloomFilterIndex
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind


class BloomFiltersKind(BloomFilterIndex, MetadataIndexKind):
    """Bloom filters of record keys as a kind of index."""

    partition = Kind.BLOOM_FILTERS
    switches = (options_of.BLOOM_FILTERS,)
    aliases = ("bloom_filter",)
    build_order = 2
    usual_file_groups = 4
    collects = True

    def first_file_groups(self, size: IndexedRows) -> int:
        """As options say."""
        return size.options.bloom_filter_groups
