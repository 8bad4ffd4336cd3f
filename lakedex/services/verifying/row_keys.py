"""The keys of all rows by the file group of an index, in memory that does not grow with the table.

Keys come slice by slice from several threads and are wanted group by group. What is more than
fits is put into files of a temporary folder, one for each of a few buckets of groups.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.schema.field_paths import flat

_SCHEMA = pa.schema([("key", pa.large_string()), ("slice", pa.int32()), ("group", pa.int32())])
_MOST_BUCKETS = 256
Ints32 = npt.NDArray[np.int32]


class RowKeys:
    """Keeps keys with their slice and their group, and gives them back one group at a time.

    Example:
        >>> keys = RowKeys(group_count=2)
        >>> keys.add(pa.array(["a", "b"]), 7, np.array([1, 0], np.int32))
        >>> keys.of_group(1)[0].to_pylist(), keys.of_group(1)[1].tolist()
        (['a'], [7])
    """

    def __init__(self, group_count: int, most_bytes: int = 64 << 20) -> None:
        """Nothing yet; so many bytes are kept in memory."""
        self._bucket_count = max(1, min(group_count, _MOST_BUCKETS))
        self._most_bytes = most_bytes
        self._kept: list[pa.RecordBatch] = []
        self._bytes = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._writers: dict[int, tuple[pa.NativeFile, pa.RecordBatchStreamWriter]] = {}
        self._guard = threading.Lock()

    def add(self, keys: pa.Array | pa.ChunkedArray, slice_number: int, groups: Ints32) -> None:
        """Keep the keys of some rows of a slice; may be called by several threads."""
        whole = flat(keys)
        slices = np.full(len(whole), slice_number, dtype=np.int32)
        columns = [whole.cast(pa.large_string()), pa.array(slices), pa.array(groups, pa.int32())]
        batch = pa.record_batch(columns, schema=_SCHEMA)
        with self._guard:
            self._kept.append(batch)
            self._bytes += batch.nbytes
            if self._bytes > self._most_bytes:
                self._spill()

    def of_group(self, group: int) -> tuple[pa.Array, Ints32]:
        """The keys of a group and the slice of each, in the order in which they came."""
        rows = self._rows_of(group)
        rows = rows.filter(pa.array(rows["group"].to_numpy() == group))
        slices: Ints32 = rows["slice"].to_numpy()
        return rows["key"].combine_chunks(), slices

    def close(self) -> None:
        """Give memory and files back."""
        self._kept.clear()
        self._end_files()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _rows_of(self, group: int) -> pa.Table:
        kept = pa.Table.from_batches(self._kept, _SCHEMA)
        if self._folder is None:
            return kept
        self._end_files()
        path = self._path(group % self._bucket_count)
        if not path.exists():
            return kept
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
            return pa.concat_tables([stream.read_all(), kept])

    def _spill(self) -> None:
        rows = pa.Table.from_batches(self._kept, _SCHEMA)
        self._kept, self._bytes = [], 0
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="lakedex-verify-")
        buckets = rows["group"].to_numpy() % self._bucket_count
        for bucket in np.unique(buckets).tolist():
            part = rows.filter(pa.array(buckets == bucket))
            self._writer(bucket).write_table(part)

    def _writer(self, bucket: int) -> pa.RecordBatchStreamWriter:
        if bucket not in self._writers:
            file = pa.OSFile(str(self._path(bucket)), "wb")
            self._writers[bucket] = file, pa.ipc.new_stream(file, _SCHEMA)
        return self._writers[bucket][1]

    def _path(self, bucket: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name, f"{bucket}.arrow")

    def _end_files(self) -> None:
        with self._guard:
            for file, writer in self._writers.values():
                writer.close()
                file.close()
            self._writers.clear()
