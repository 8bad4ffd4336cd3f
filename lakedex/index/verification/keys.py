"""The keys of all rows and of the entries of an index, by file group, and how they match.

Keys come slice by slice from several threads and are needed group by group. What is more than fits
into memory goes to files of a temporary folder, one for each of a few buckets of groups. Entries
are read group by group and dropped. An entry in another group than the one its key belongs to is
found by no lookup, so it counts as missing there and as stale where it is.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile
from lakedex.filegroup import parse_data_file
from lakedex.format.hfile import Cells
from lakedex.format.logfile import BlockKind, decode_delete_block, hfile_of
from lakedex.index.metadata_table import MetadataTable, metadata_partition
from lakedex.index.metadata_table.group_reader import GroupReader
from lakedex.schema.field_paths import flat

_SCHEMA = pa.schema([("key", pa.large_string()), ("slice", pa.int32()), ("group", pa.int32())])
_MOST_BUCKETS = 256
Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
_SCAN_BYTES = 32 << 20


class RowKeys:
    """Keeps keys with their slice and their group, and returns them one group at a time.

    Example:
        >>> keys = RowKeys(group_count=2)
        >>> keys.add(pa.array(["a", "b"]), 7, np.array([1, 0], np.int32))
        >>> keys.of_group(1)[0].to_pylist(), keys.of_group(1)[1].tolist()
        (['a'], [7])
    """

    def __init__(self, group_count: int, most_bytes: int = 64 << 20) -> None:
        """Keep so many bytes in memory, and the rest in files."""
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
        """Release memory and files."""
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


@dataclass(frozen=True, slots=True)
class Matched:
    """How row keys and entry keys of one group go together."""

    place: pa.Array
    """The entry of each row; null where there is none."""
    missing: Ints
    """Rows without entry, one for each key."""
    stale: Ints
    """Entries without row."""
    repeated: Mask
    """Rows whose key another row has too."""
    key_codes: Ints
    """A number for each row that is the same for the same key."""


def match(row_keys: pa.Array, entry_keys: pa.Array) -> Matched:
    """Match the keys of rows with those of entries.

    Example:
        >>> matched = match(pa.array(["a", "b", "b"]), pa.array(["b", "c"]))
        >>> matched.missing.tolist(), matched.stale.tolist(), matched.repeated.tolist()
        ([0], [1], [False, True, True])
    """
    rows = row_keys.cast(pa.large_string())
    entries = entry_keys.cast(pa.large_string())
    place = pc.index_in(rows, value_set=entries)
    codes = _codes(rows, place)
    counts = np.bincount(codes)
    absent = place.is_null().to_numpy(zero_copy_only=False)
    return Matched(
        place=place,
        missing=_first_of_each(np.flatnonzero(absent), codes),
        stale=_stale(rows, entries, place),
        repeated=counts[codes] > 1,
        key_codes=codes,
    )


def _codes(rows: pa.Array, place: pa.Array) -> Ints:
    """A number for each key: that of its entry, where all have one."""
    if not place.null_count:
        numbers: Ints = place.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers
    encoded = rows.dictionary_encode()
    codes: Ints = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _first_of_each(rows: Ints, codes: Ints) -> Ints:
    """The first of the rows of each key."""
    chosen: Ints = rows[np.sort(np.unique(codes[rows], return_index=True)[1])]
    return chosen


def _stale(rows: pa.Array, entries: pa.Array, place: pa.Array) -> Ints:
    known = np.zeros(len(entries), dtype=np.bool_)
    known[place.drop_null().to_numpy()] = True
    if known.all():
        return np.zeros(0, dtype=np.int64)
    # Of entries that are equal only the first has rows by its place.
    known = pc.is_in(entries, value_set=rows).to_numpy(zero_copy_only=False).astype(np.bool_)
    return np.flatnonzero(~known)


def live_keys(metadata: MetadataTable, partition: str) -> pa.ChunkedArray:
    """The keys of all entries; their payloads, which may be large, are not kept."""
    parts = []
    for group in metadata.groups(partition):
        reader = metadata.group_reader(partition, group.file_id)
        parts.append(_live_keys(reader, group.file_id))
    return pa.chunked_array(parts, pa.string())


def group_entries(metadata: MetadataTable, partition: str, group_number: int) -> pa.Table:
    """All entries of one file group of an index."""
    return metadata.scan_prefixes(partition, [""], [group_number])


def foreign_groups(metadata: MetadataTable, partition: str) -> list[str]:
    """File ids in the folder of an index that do not belong to it."""
    prefix = metadata_partition(partition).file_id_prefix
    file_ids = set()
    for info in metadata.storage.list(partition):
        parsed = parse_data_file(info.path.rpartition("/")[2], info.size_bytes)
        if parsed is not None and not parsed.file_id.startswith(prefix):
            file_ids.add(parsed.file_id)
    return sorted(file_ids)


def _live_keys(reader: GroupReader, path: str) -> pa.Array:
    keys: list[pa.Array] = []
    alive: list[pa.Array] = []
    for cells in _cells(reader):
        keys.append(cells.keys.cast(pa.binary()))
        alive.append(pc.greater(pc.binary_length(cells.values), 0))
    if not keys:
        return pa.array([], pa.string())
    encoded = pa.chunked_array(keys, pa.binary()).combine_chunks().dictionary_encode()
    state = np.zeros(len(encoded.dictionary), dtype=np.bool_)
    flags = pa.chunked_array(alive, pa.bool_()).to_numpy()
    state[encoded.indices.to_numpy()] = flags.astype(np.bool_)
    try:
        return encoded.dictionary.filter(pa.array(state)).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptFile(path, 0, expected="keys in UTF-8", actual=error) from error


def _cells(reader: GroupReader) -> Iterator[Cells]:
    """The cells of a group, oldest first; a deleted key has an empty value."""
    if reader.base is not None:
        yield from reader.base.scan_batches(max_bytes=_SCAN_BYTES)
    for block in reader.log_blocks:
        if block.kind is BlockKind.DELETE:
            gone = decode_delete_block(block).keys.cast(pa.binary())
            yield Cells(gone, pa.repeat(pa.scalar(b""), len(gone)), None)
        else:
            yield from hfile_of(block).scan_batches(max_bytes=_SCAN_BYTES)
