"""The merged content of one metadata file group, as a stream of encoded records.

The cells of log blocks become sorted runs, on disk where they are many; the base HFile streams past
them and is copied as it is, but for the keys that they name. So neither base file nor log files are
ever in memory whole, and nothing is decoded but records that have to be joined (`files` and
statistics) or have an older schema.

What is added in any order is kept until it reaches a budget, then sorted and put on disk as a run.
In the end the runs, and sorted files beside them, are merged: of each stream one piece is in
memory, and all cells up to the least of the pieces' last keys are sorted at once. Of equal keys
the newest wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.avro import METADATA_RECORD, decode_distinct, encode_distinct, encode_records
from lakedex.format.hfile import HFileReader
from lakedex.index.metadata_table.group_reader import (
    NO_BYTES,
    GroupReader,
    Selection,
    record_schema,
)
from lakedex.index.metadata_table.merging import merge_batches
from lakedex.index.metadata_table.partitions import (
    FILES_PAYLOAD,
    STATS_PAYLOAD,
    MetadataPartition,
)
from lakedex.schema import parse_avro_record, project

_MOST_RUNS = 64
"""More runs on disk than this become one."""
_PIECES = 16
"""A run is read back in pieces of this part of the budget."""
MERGE_BYTES = 16 << 20
"""How much of the base file, and how much of all log files, is in memory at a time."""
_FLAGS = ("isDeleted", "isTightBound")


@dataclass(frozen=True, slots=True)
class Records:
    """Keys in ascending order with their encoded records (large_binary both).

    The record of a deleted key is null.
    """

    keys: pa.Array
    values: pa.Array

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """The memory that keys and records take."""
        return int(self.keys.nbytes + self.values.nbytes)

    def slice(self, start: int, stop: int) -> Records:
        """The records from one row to another."""
        return Records(self.keys.slice(start, stop - start), self.values.slice(start, stop - start))

    def live(self) -> Records:
        """The records without deleted keys."""
        if not self.values.null_count:
            return self
        kept = self.values.is_valid()
        return Records(self.keys.filter(kept), self.values.filter(kept))

    def count_up_to(self, key: bytes) -> int:
        """How many keys are not greater than another."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.keys[middle].as_py() > key else (middle + 1, high)
        return low


def newest_of(parts: Sequence[Records]) -> Records:
    """The cells of some parts, oldest first, in the order of their keys, the newest of each.

    Example:
        >>> old = Records(pa.array([b"a", b"b"]), pa.array([b"1", b"1"]))
        >>> new = Records(pa.array([b"b", b"a"]), pa.array([b"2", None]))
        >>> newest_of([old, new]).values.to_pylist()
        [None, b'2']
    """
    keys = pa.concat_arrays([part.keys for part in parts])
    values = pa.concat_arrays([part.values for part in parts])
    order = pc.sort_indices(keys)
    keys = keys.take(order)
    # The sort is stable, so the last of equal keys is the newest.
    newest = np.ones(len(keys), dtype=np.bool_)
    newest[:-1] = pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
    if newest.all():
        return Records(keys, values.take(order))
    kept = pa.array(newest)
    return Records(keys.filter(kept), values.take(order.filter(kept)))


def merge_sorted(streams: Sequence[Iterator[Records]]) -> Iterator[Records]:
    """The newest cells of streams that are sorted, oldest stream first, in pieces."""
    heads = [next(stream, None) for stream in streams]
    while True:
        waiting = [(number, head) for number, head in enumerate(heads) if head is not None]
        if not waiting:
            return
        limit = min(head.keys[-1].as_py() for _, head in waiting)
        parts = []
        for number, head in waiting:
            upto = head.count_up_to(limit)
            if upto:
                parts.append(head.slice(0, upto))
            rest = head.slice(upto, len(head))
            heads[number] = rest if len(rest) else next(streams[number], None)
        yield parts[0] if len(parts) == 1 else newest_of(parts)


class SortedRuns:
    """Cells in the order in which they came, kept in memory up to a budget and then on disk.

    Example:
        >>> with SortedRuns(budget=1) as runs:
        ...     runs.add(Records(pa.array([b"b", b"a"]), pa.array([b"1", b"1"])))
        ...     runs.add(Records(pa.array([b"b"]), pa.array([b"2"])))
        ...     [piece.values.to_pylist() for piece in merge_sorted(runs.streams())]
        [[b'1'], [b'2']]
    """

    def __init__(self, budget: int) -> None:
        """Keep so many bytes in memory."""
        self._budget = budget
        self._waiting: list[Records] = []
        self._bytes = 0
        self._files: list[IO[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(self._files)

    def add(self, records: Records) -> None:
        """Take cells, in any order of their keys; they are newer than all before."""
        if not len(records):
            return
        self._waiting.append(records)
        self._bytes += records.nbytes
        if self._bytes > self._budget:
            self._files.append(self._written(iter([newest_of(self._waiting)])))
            self._waiting, self._bytes = [], 0
        if len(self._files) > _MOST_RUNS:
            older, self._files = self._files, []
            self._files.append(self._written(merge_sorted([_read(each) for each in older])))
            self._close(older)

    def streams(self) -> list[Iterator[Records]]:
        """The sorted runs, the oldest first."""
        found = [_read(each) for each in self._files]
        if self._waiting:
            found.append(iter([newest_of(self._waiting)]))
            self._waiting = []
        return found

    def _written(self, run: Iterator[Records]) -> IO[bytes]:
        """A file without a name that holds a run; it goes when it is closed."""
        file = TemporaryFile(prefix="lakedex-run-")  # noqa: SIM115 - closed with the runs
        piece_bytes = max(1, self._budget // _PIECES)
        writer = None
        for records in run:
            rows = pa.table({"key": records.keys, "value": records.values})
            writer = writer or pa.ipc.new_stream(file, rows.schema)
            cells = max(1, len(rows) * piece_bytes // max(1, records.nbytes))
            writer.write_table(rows, max_chunksize=cells)
        if writer is not None:
            writer.close()
        return file

    @staticmethod
    def _close(files: list[IO[bytes]]) -> None:
        for file in files:
            file.close()


def _read(file: IO[bytes]) -> Iterator[Records]:
    file.seek(0)
    for batch in pa.ipc.open_stream(file):
        yield Records(batch.column(0), batch.column(1))


def merged_records(partition: MetadataPartition, reader: GroupReader) -> Iterator[Records]:
    """The live records of a group, in ascending order of their keys, in batches."""
    with SortedRuns(MERGE_BYTES) as runs:
        if _joins(partition):
            runs.add(_joined(partition, reader))
        else:
            for cells in _log_cells(partition, reader):
                runs.add(cells)
        streams = runs.streams()
        if reader.base is not None:
            streams.insert(0, _base_records(partition, reader, reader.base))
        for merged in merge_sorted(streams):
            live = merged.live()
            if len(live):
                yield live


def live_count(reader: GroupReader) -> int:
    """How many keys a group holds: those of its base file, and what log blocks change of that."""
    base = reader.base
    count = base.entry_count if base else 0
    with SortedRuns(MERGE_BYTES) as runs:
        for _, keys, values in reader.log_cells(MERGE_BYTES):
            runs.add(Records(keys, _marks(keys, values)))
        for changed in merge_sorted(runs.streams()):
            stored = np.zeros(len(changed), dtype=np.bool_)
            if base is not None:
                stored[base.lookup(changed.keys).query] = True
            alive = changed.values.is_valid().to_numpy(zero_copy_only=False)
            count += int((alive & ~stored).sum()) - int((~alive & stored).sum())
    return count


def log_changes(partition: MetadataPartition, logs: GroupReader) -> Records:
    """What the log blocks of a group say of each key, without its base file; null for a delete.

    Whatever takes something out of the base file stays: `files` keep their marks of deleted files.
    """
    if _joins(partition):
        return _joined(partition, logs, keeps_deleted=True)
    nothing = pa.array([], pa.large_binary())
    return newest_of([Records(nothing, nothing), *_log_cells(partition, logs)])


def encode_rows(rows: pa.Table) -> pa.Array:
    """Records from `type` and payload columns, as `record_schema` has them."""
    columns = {"key": pa.repeat("", len(rows))}
    for name in rows.column_names:
        column = rows[name].combine_chunks()
        columns[name] = _with_flags(column) if pa.types.is_struct(column.type) else column
    batch = pa.record_batch(columns)
    encode = encode_records if FILES_PAYLOAD in rows.column_names else encode_distinct
    return encode(METADATA_RECORD, batch).as_binary()


def _joins(partition: MetadataPartition) -> bool:
    """Whether the records of a key are put together; such partitions are small."""
    return FILES_PAYLOAD in partition.payloads or STATS_PAYLOAD in partition.payloads


def _joined(
    partition: MetadataPartition, reader: GroupReader, *, keeps_deleted: bool = False
) -> Records:
    """What the records of log blocks and base file make of the keys that log blocks name."""
    named = [cells.keys for cells in _log_cells(partition, reader)]
    touched = pa.concat_arrays([pa.array([], pa.large_binary()), *named]).unique()
    touched = touched.take(pc.sort_indices(touched))
    schema = record_schema(partition)
    batches = reader.batches(Selection(keys=touched.cast(pa.string())))
    merged = merge_batches(partition, schema, batches, keeps_deleted=keeps_deleted)
    encoded = encode_rows(merged.drop_columns("key"))
    found = merged["key"].combine_chunks().cast(pa.large_binary())
    return Records(touched, encoded.take(pc.index_in(touched, value_set=found)))


def _base_records(
    partition: MetadataPartition, reader: GroupReader, base: HFileReader
) -> Iterator[Records]:
    text = base.file_info.get("schema", b"").decode("utf-8", "replace")
    for cells in base.scan_batches(max_bytes=MERGE_BYTES):
        values = _current(partition, cells.values, text, reader.base_path)
        yield Records(cells.keys.cast(pa.large_binary()), values)


def _log_cells(partition: MetadataPartition, reader: GroupReader) -> Iterator[Records]:
    """The cells of log blocks, oldest first; the value of a deleted key is null."""
    for block, keys, values in reader.log_cells(MERGE_BYTES):
        if values is None or _joins(partition):
            yield Records(keys, _marks(keys, values))
        else:
            yield Records(keys, _current(partition, values, block.schema_text, block.path))


def _marks(keys: pa.Array, values: pa.Array | None) -> pa.Array:
    """Null for a deleted key, and nothing for one that is there."""
    nothing = pa.nulls(len(keys), pa.large_binary())
    if values is None:
        return nothing
    is_gone = pc.equal(pc.binary_length(values), NO_BYTES)
    return pc.if_else(is_gone, nothing, pa.scalar(b"", pa.large_binary()))


def _current(
    partition: MetadataPartition, values: pa.Array, schema_text: str, path: str
) -> pa.Array:
    """Encoded records in the newest schema; null for an empty one, which is a deleted key."""
    record = parse_avro_record(schema_text, path=path)
    empty = pc.equal(pc.binary_length(values), NO_BYTES)
    kept = values.cast(pa.large_binary())
    if record != METADATA_RECORD:
        schema = record_schema(partition)
        known = {field.name for field in record.fields}
        wanted = [name for name in schema.names if name in known]
        present = kept.filter(pc.invert(empty))
        decoded = decode_distinct(record, present, columns=wanted, path=path)
        encoded = encode_rows(project(pa.Table.from_batches([decoded]), schema))
        place = np.cumsum(~empty.to_numpy(zero_copy_only=False)) - 1
        kept = encoded.take(pa.array(place, mask=empty.to_numpy(zero_copy_only=False)))
    elif pc.any(empty).as_py():
        kept = pc.if_else(empty, pa.scalar(None, pa.large_binary()), kept)
    return kept


def _with_flags(payload: pa.StructArray) -> pa.StructArray:
    """A payload whose flags are all set: older writers left some out."""
    names = [field.name for field in payload.type]
    children = [
        pc.fill_null(payload.field(number), fill_value=False)
        if name in _FLAGS
        else payload.field(number)
        for number, name in enumerate(names)
    ]
    return pa.StructArray.from_arrays(children, names, mask=payload.is_null())
