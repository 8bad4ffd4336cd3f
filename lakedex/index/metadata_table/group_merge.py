"""The merged content of one metadata file group, as a stream of encoded records.

The cells of log blocks become sorted runs, on disk where they are many; the base HFile streams past
them and is copied as it is, but for the keys that they name. So neither base file nor log files are
ever in memory whole, and nothing is decoded but records that have to be joined (`files` and
statistics) or have an older schema.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.avro import METADATA_RECORD, decode_distinct, encode_distinct, encode_records
from lakedex.format.hfile import HFileReader
from lakedex.index.metadata_table.cell_file import NO_BYTES, Selection
from lakedex.index.metadata_table.group_reader import GroupReader, record_schema
from lakedex.index.metadata_table.merging import merge_batches
from lakedex.index.metadata_table.partitions import (
    FILES_PAYLOAD,
    STATS_PAYLOAD,
    MetadataPartition,
)
from lakedex.index.metadata_table.sorted_runs import (
    Records,
    SortedRuns,
    merge_sorted,
    newest_of,
)
from lakedex.schema import parse_avro_record, project

MERGE_BYTES = 16 << 20
"""How much of the base file, and how much of all log files, is in memory at a time."""
_FLAGS = ("isDeleted", "isTightBound")


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
