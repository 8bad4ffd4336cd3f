"""The merged content of one metadata file group, as a stream of encoded records.

What log blocks say of a key is found first and kept; the base HFile then streams past and is
copied as it is, but for those keys. So memory is bounded by the log blocks, and nothing is decoded
but records that have to be joined (`files` and statistics) or have an older schema.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile
from lakedex.format.avro import METADATA_RECORD, decode_distinct, encode_distinct, encode_records
from lakedex.format.logfile import BlockKind, LogBlock, decode_delete_block, hfile_of
from lakedex.index.metadata_table.group_reader import (
    GroupReader,
    Selection,
    parsed_schema,
    record_schema,
)
from lakedex.index.metadata_table.merging import merge_batches
from lakedex.index.metadata_table.partitions import (
    FILES_PAYLOAD,
    STATS_PAYLOAD,
    MetadataPartition,
)
from lakedex.schema import project

_BATCH_BYTES = 32 << 20
_FLAGS = ("isDeleted", "isTightBound")


@dataclass(frozen=True, slots=True)
class Records:
    """Keys in ascending order with their encoded records (large_binary both)."""

    keys: pa.Array
    values: pa.Array

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, stop: int) -> Records:
        """The records from one row to another."""
        return Records(self.keys.slice(start, stop - start), self.values.slice(start, stop - start))


def merged_records(partition: MetadataPartition, reader: GroupReader) -> Iterator[Records]:
    """The live records of a group, in ascending order of their keys, in batches."""
    changed = _changed(partition, reader)
    done = 0
    if reader.base is not None:
        text = reader.base.file_info.get("schema", b"").decode("utf-8", "replace")
        for cells in reader.base.scan_batches(max_bytes=_BATCH_BYTES):
            values = _current(partition, cells.values, text, reader.base_path)
            batch = Records(cells.keys.cast(pa.large_binary()), values)
            upto = bisect_right(
                range(len(changed)), batch.keys[-1].as_py(), key=lambda n: changed.keys[n].as_py()
            )
            yield from _over(batch, changed.slice(done, upto))
            done = upto
    yield from _over(None, changed.slice(done, len(changed)))


def log_changes(partition: MetadataPartition, logs: GroupReader) -> Records:
    """What the log blocks of a group say of each key, without its base file; null for a delete.

    Whatever takes something out of the base file stays: `files` keep their marks of deleted files.
    """
    return _changed(partition, logs, keeps_deleted=True)


def encode_rows(rows: pa.Table) -> pa.Array:
    """Records from `type` and payload columns, as `record_schema` has them."""
    columns = {"key": pa.repeat("", len(rows))}
    for name in rows.column_names:
        column = rows[name].combine_chunks()
        columns[name] = _with_flags(column) if pa.types.is_struct(column.type) else column
    batch = pa.record_batch(columns)
    encode = encode_records if FILES_PAYLOAD in rows.column_names else encode_distinct
    return encode(METADATA_RECORD, batch).as_binary()


def _changed(
    partition: MetadataPartition, reader: GroupReader, *, keeps_deleted: bool = False
) -> Records:
    """What log blocks make of the keys that they name; null for a deleted key."""
    joins = FILES_PAYLOAD in partition.payloads or STATS_PAYLOAD in partition.payloads
    keys: list[pa.Array] = [pa.array([], pa.large_binary())]
    values: list[pa.Array] = [pa.array([], pa.large_binary())]
    for block in reader.log_blocks:
        for some_keys, some_values in _block_cells(partition, block, with_values=not joins):
            keys.append(some_keys)
            values.append(some_values)
    named = pa.concat_arrays(keys)
    if joins:
        touched = named.unique()
        touched = touched.take(pc.sort_indices(touched))
        schema = record_schema(partition)
        batches = reader.batches(Selection(keys=touched.cast(pa.string())))
        merged = merge_batches(partition, schema, batches, keeps_deleted=keeps_deleted)
        encoded = encode_rows(merged.drop_columns("key"))
        found = merged["key"].combine_chunks().cast(pa.large_binary())
        return Records(touched, encoded.take(pc.index_in(touched, value_set=found)))
    order = pc.sort_indices(named)
    named = named.take(order)
    # The sort is stable, so the last of equal keys is the newest.
    newest = np.ones(len(named), dtype=np.bool_)
    newest[:-1] = pc.not_equal(named[1:], named[:-1]).to_numpy(zero_copy_only=False)
    rows = order.filter(pa.array(newest))
    return Records(named.filter(pa.array(newest)), pa.concat_arrays(values).take(rows))


def _block_cells(
    partition: MetadataPartition, block: LogBlock, *, with_values: bool
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The cells of a log block; the value of a deleted key is null."""
    if block.kind is BlockKind.DELETE:
        keys = decode_delete_block(block).keys.cast(pa.large_binary())
        yield keys, pa.nulls(len(keys), pa.large_binary())
        return
    if block.kind is not BlockKind.HFILE_DATA:
        raise CorruptFile(block.path, block.offset, expected="HFile block", actual=block.kind)
    for cells in hfile_of(block).scan_batches(max_bytes=_BATCH_BYTES):
        keys = cells.keys.cast(pa.large_binary())
        if with_values:
            yield keys, _current(partition, cells.values, block.schema_text, block.path)
        else:
            yield keys, pa.nulls(len(keys), pa.large_binary())


def _current(
    partition: MetadataPartition, values: pa.Array, schema_text: str, path: str
) -> pa.Array:
    """Encoded records in the newest schema; null for an empty one, which is a deleted key."""
    record = parsed_schema(schema_text, path)
    empty = pc.equal(pc.binary_length(values), 0)
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


def _over(below: Records | None, changed: Records) -> Iterator[Records]:
    """Records of the base file with what log blocks changed laid over them; no deleted ones."""
    if below is None:
        merged = changed
    elif len(changed):
        kept = pc.invert(pc.is_in(below.keys, value_set=changed.keys))
        keys = pa.concat_arrays([below.keys.filter(kept), changed.keys])
        values = pa.concat_arrays([below.values.filter(kept), changed.values])
        order = pc.sort_indices(keys)
        merged = Records(keys.take(order), values.take(order))
    else:
        merged = below
    if merged.values.null_count:
        live = merged.values.is_valid()
        merged = Records(merged.keys.filter(live), merged.values.filter(live))
    if len(merged):
        yield merged


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
