"""The options that say how rows are laid out: by writes, by bulk inserts, and by a clustering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lakedex.config import write_option_names as options
from lakedex.config.clustering_scope import ClusteringScope
from lakedex.errors import UnsupportedFeature


class BulkSort(Enum):
    """How a bulk insert sorts the rows of a partition."""

    NONE = "none"
    """As they come; every file is of one partition, whatever Hudi's repartitioning modes say."""
    IN_FILES = "in files"
    """The rows inside of each file."""
    ACROSS_FILES = "across files"
    """All of them, so that each file has a range of its own."""


_LEAST_BYTES, _INSTEAD_BYTES = 1 << 10, 1 << 20
"""Where writes make a file of every row, a clustering makes files of this size."""
_SORTS = {"GLOBAL_SORT": BulkSort.ACROSS_FILES, "PARTITION_SORT": BulkSort.IN_FILES}


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """How rows are laid out.

    Example:
        >>> LayoutOptions.resolve({"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}).bulk_sort
        <BulkSort.ACROSS_FILES: 'across files'>
    """

    write_columns: tuple[str, ...]
    """What new rows are sorted by, columns or expression indexes; none leaves them as they come."""
    bulk_sort: BulkSort
    bulk_columns: tuple[str, ...]
    """What a bulk insert sorts by; `write_columns`, else the record key, where none is named."""
    strategy: str
    """How several columns become one order: `linear`, `z-order` or `hilbert`."""
    clustering_columns: tuple[str, ...]
    clustering_file_bytes: int
    clustering_scope: ClusteringScope
    clustering_keeps_meta: bool

    @classmethod
    def resolve(cls, settings: Mapping[str, str]) -> LayoutOptions:
        """The options by their names; files of a clustering are as large as others unless told.

        Raises:
            InvalidInput: a value is wrong.
        """
        columns = options.BULK_SORT_COLUMNS.value(settings)
        sort = _SORTS.get(options.BULK_SORT_MODE.value(settings), BulkSort.NONE)
        if columns and sort is BulkSort.NONE:
            # To Hudi these are the columns of a partitioner, which goes before the mode.
            sort = BulkSort.ACROSS_FILES
        size = options.CLUSTERING_FILE_SIZE.value(settings)
        if options.CLUSTERING_FILE_SIZE.given(settings) is None:
            size = options.MAX_FILE_SIZE.value(settings)
            size = size if size >= _LEAST_BYTES else _INSTEAD_BYTES
        return cls(
            write_columns=options.WRITE_SORT_COLUMNS.value(settings),
            bulk_sort=sort,
            bulk_columns=columns,
            strategy=options.LAYOUT_STRATEGY.value(settings),
            clustering_columns=options.CLUSTERING_COLUMNS.value(settings),
            clustering_file_bytes=size,
            clustering_scope=ClusteringScope.resolve(settings),
            clustering_keeps_meta=options.CLUSTERING_KEEPS_META.value(settings),
        )

    def require_kept_meta(self) -> None:
        """Refuse a clustering that would make every row look newly written.

        Raises:
            UnsupportedFeature: the option asks for that.
        """
        if not self.clustering_keeps_meta:
            name = options.CLUSTERING_KEEPS_META.name
            raise UnsupportedFeature(f"{name}=false (rows keep their commit times)")
