"""Bloom filters as writers keep them up to date, and their records in the metadata table.

The filters of new base files come, those of removed files go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.filegroup import RECORD_KEY, BaseFile, FileSlice, ReadContext, read_slice
from lakedex.format.avro import METADATA_RECORD, encode_records
from lakedex.format.bloom import BloomFilter
from lakedex.format.parquet import read_footer
from lakedex.index.maintenance import (
    Collector,
    CollectTask,
    FileRows,
    MaintainedIndex,
    MaintainRequest,
)
from lakedex.index.metadata_table.keys import bloom_key
from lakedex.index.metadata_table.partitions import BLOOM_PAYLOAD, Change, Kind, RecordType
from lakedex.index.written import BloomText

_LEAST_ENTRIES = 10


@dataclass(frozen=True)
class BloomTarget(MaintainedIndex):
    """The bloom filters of a table."""

    @property
    def name(self) -> str:
        """The name of the index."""
        return Kind.BLOOM_FILTERS.value

    @property
    def reads_slices(self) -> bool:
        """A build reads the filters in the footers of base files."""
        return True

    def collector(self, task: CollectTask) -> BloomCollector:
        """The collector of one task."""
        return BloomCollector(task)

    def joined(self, parts: Sequence[Sequence[BloomText]]) -> Sequence[BloomText]:
        """The filters of all files."""
        return tuple(bloom for part in parts for bloom in part)


def maintained(name: str, request: MaintainRequest) -> MaintainedIndex | None:
    """The bloom filters of a table."""
    del name, request
    return BloomTarget()


class BloomCollector(Collector):
    """The filters of the base files of one task."""

    def __init__(self, task: CollectTask) -> None:
        """Start without files."""
        self._task = task
        self._blooms: list[BloomText] = []

    def add_file(self, file: FileRows) -> None:
        """Add the filter of a base file."""
        if file.bloom is not None:
            self._blooms.append(file.bloom)

    def add_slice(self, context: ReadContext, file_slice: FileSlice) -> None:
        """Add the filter in the footer of a base file."""
        if file_slice.base is not None:
            self._blooms.append(self._stored(context, file_slice, file_slice.base))

    def finish(self) -> object:
        """The filters."""
        return tuple(self._blooms) or None

    def _stored(self, context: ReadContext, current: FileSlice, base: BaseFile) -> BloomText:
        """The filter in a base file's footer; where there is none, one is made of its keys."""
        footer = read_footer(context.storage.source(current.path_of(base.name), base.size_bytes))
        if footer.bloom_text is not None:
            text = footer.bloom_text.decode("ascii", "replace")
            return BloomText(current.partition, base.name, footer.bloom_type_code, text)
        alone = FileSlice(current.partition, current.file_id, base.instant_time, base)
        parts = [
            context.record_keys(rows).cast(pa.string())
            for rows in read_slice(context, alone, [RECORD_KEY])
        ]
        keys = pa.chunked_array(parts, pa.string())
        entries = max(self._task.bloom_entries or 0, len(keys), _LEAST_ENTRIES)
        bloom = BloomFilter.create_simple(entries, self._task.bloom_error_rate)
        bloom.add(keys)
        return BloomText(current.partition, base.name, bloom.type_code, bloom.encode())


def blooms_change(
    blooms: Sequence[BloomText], removed: Mapping[str, Sequence[str]], instant: str
) -> Change:
    """The bloom filters of new base files, and the keys of removed ones."""
    gone = [
        bloom_key(partition, name)
        for partition, files in removed.items()
        for name in files
        if not name.startswith(".")
    ]
    added = _added(blooms, instant)
    return Change(added.keys, added.values, pa.array(gone, pa.string()))


def _added(blooms: Sequence[BloomText], instant: str) -> Change:
    if not blooms:
        return Change()
    keys = [bloom_key(bloom.partition, bloom.file) for bloom in blooms]
    columns = {
        "type": pa.array([bloom.type_code for bloom in blooms], pa.string()),
        "timestamp": pa.array([instant] * len(keys), pa.string()),
        "bloomFilter": pa.array([bloom.text.encode() for bloom in blooms], pa.binary()),
        "isDeleted": pa.array([False] * len(keys), pa.bool_()),
    }
    batch = pa.record_batch(
        {
            "key": pa.repeat("", len(keys)),
            "type": pa.repeat(pa.scalar(RecordType.BLOOM_FILTER.value, pa.int32()), len(keys)),
            BLOOM_PAYLOAD: pa.StructArray.from_arrays(list(columns.values()), list(columns)),
        }
    )
    return Change(pa.array(keys, pa.string()), encode_records(METADATA_RECORD, batch).as_binary())
