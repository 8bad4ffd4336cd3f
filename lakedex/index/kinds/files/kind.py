"""The file listing as a kind of index: the files of each partition, and the list of partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakedex.filegroup import parse_data_file
from lakedex.format.avro import METADATA_RECORD, encode_records
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind
from lakedex.index.metadata_table.keys import partition_key
from lakedex.index.metadata_table.partitions import (
    ALL_PARTITIONS_KEY,
    FILES_PAYLOAD,
    Change,
    RecordType,
)
from lakedex.index.verification.findings import Problem
from lakedex.index.written import CommitChanges
from lakedex.storage import split

_FILES_TYPE = pa.map_(pa.string(), pa.struct([("size", pa.int64()), ("isDeleted", pa.bool_())]))
_Entry = tuple[str, dict[str, int | bool]]


class FilesKind(MetadataIndexKind):
    """The file listing as a kind of index, which queries use to find the files of a table."""

    kind = "files"
    partition = Kind.FILES
    is_creatable = False

    def records(
        self,
        name: str,
        changes: CommitChanges,
        instant: str,
        definitions: Mapping[str, IndexDefinition],
    ) -> Change:
        """The files that a commit adds and removes."""
        del name, instant, definitions
        return files_change(changes.added, changes.removed, changes.dropped_partitions)

    def can_repair(self, problem: Problem, *, is_plain: bool) -> bool:
        """Where the problem is about a data file, and not about a partition."""
        del is_plain
        return parse_data_file(split(problem.key)[1], 0) is not None


def files_change(
    added: Mapping[str, Mapping[str, int]],
    removed: Mapping[str, Sequence[str]] | None = None,
    dropped: Sequence[str] = (),
) -> Change:
    """The listing of new and removed files, and of partitions that came and went."""
    removed = removed or {}
    maps: dict[str, list[_Entry]] = {}
    if added or dropped or not removed:
        came = [(partition_key(path), _entry(0)) for path in added]
        went = [(partition_key(path), _GONE) for path in dropped if path not in added]
        maps[ALL_PARTITIONS_KEY] = [*came, *went]
    for path in dict.fromkeys((*added, *removed)):
        files = added.get(path, {})
        entries = [(name, _entry(size)) for name, size in files.items()]
        entries += [(name, _GONE) for name in removed.get(path, ()) if name not in files]
        maps[partition_key(path)] = entries
    types = [
        RecordType.PARTITION_LIST.value if key == ALL_PARTITIONS_KEY else RecordType.FILES.value
        for key in maps
    ]
    batch = pa.record_batch(
        {
            "key": pa.repeat("", len(maps)),
            "type": pa.array(types, pa.int32()),
            FILES_PAYLOAD: pa.array(list(maps.values()), _FILES_TYPE),
        }
    )
    keys = pa.array(list(maps), pa.string())
    return Change(keys, encode_records(METADATA_RECORD, batch).as_binary())


_GONE: dict[str, int | bool] = {"size": 0, "isDeleted": True}


def _entry(size: int) -> dict[str, int | bool]:
    return {"size": size, "isDeleted": False}
