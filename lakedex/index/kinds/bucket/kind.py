"""The bucket index as a kind of index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakedex.index.catalog import IndexInfo
from lakedex.index.contract import StoredTable
from lakedex.index.kinds.bucket.listing import list_bucket_index
from lakedex.index.kinds.bucket.lookup import BucketLookup
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.verification.check import FilesMade, FilesRepaired
from lakedex.index.verification.findings import Problem


class BucketKind(BucketLookup, MetadataIndexKind):
    """The bucket index as a kind of index: its file groups are the index."""

    partition = None
    aliases = ("bucket_index",)
    is_creatable = False
    needs_metadata = False
    is_layout = True

    def outside_metadata(self, table: StoredTable) -> list[IndexInfo]:
        """The bucket index of a table, if it has one."""
        return list_bucket_index(table)

    def repair_files(self, subject: FilesRepaired, problems: Sequence[Problem]) -> FilesMade:
        """Make lost and damaged hashing metadata again."""
        repair: Callable[[FilesRepaired, Sequence[Problem]], FilesMade]
        repair = self._part("repair").repair_files
        return repair(subject, problems)
