"""Bloom filters as writers keep them up to date: the filter of record keys of each base file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.filegroup import RECORD_KEY, BaseFile, FileSlice, ReadContext, read_slice
from lakedex.format.bloom import BloomFilter
from lakedex.format.parquet import read_footer
from lakedex.index.kinds.bloom_filters.lookup import PARTITION
from lakedex.index.maintenance import (
    Collector,
    CollectTask,
    FileRows,
    MaintainedIndex,
    MaintainRequest,
)
from lakedex.index.written import BloomText

_LEAST_ENTRIES = 10


@dataclass(frozen=True)
class BloomTarget(MaintainedIndex):
    """The bloom filters of a table."""

    @property
    def name(self) -> str:
        """The name of the index."""
        return PARTITION

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
