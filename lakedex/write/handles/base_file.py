"""Writes a file group's base file: a first one, or a new one with changes merged in.

Unchanged rows keep commit time and sequence number; all rows get the name of the new file. The code
that merges log files decides which version of a record wins. The footer is the one that Hudi
expects (`encode_base_file`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakedex.filegroup import META_COLUMNS, FileSlice, ReadContext, read_slice
from lakedex.filegroup.ordering import ordering_of
from lakedex.format.bloom import BloomFilter
from lakedex.format.parquet import write_base_file
from lakedex.index.maintenance import ChangedRows, ColumnSizes
from lakedex.index.written import BloomText
from lakedex.merge import ChangeSet, newest_per_key
from lakedex.schema.field_paths import flat
from lakedex.write.context import WriteContext
from lakedex.write.handles.incoming import (
    Incoming,
    Mask,
    Outcome,
    Positions,
    with_file_name,
    without_meta_values,
)
from lakedex.write.handles.publishing import Publisher
from lakedex.write.handles.work import NO_COMMIT, GroupWork, WrittenFile
from lakedex.write.rows import KEY

_LEAST_BLOOM_ENTRIES = 10


@dataclass(frozen=True)
class BaseBytes:
    """A base file before it is put into the table."""

    data: bytes
    bloom_type: str
    bloom_text: str
    """Empty, as the type is, where the footer has no filter."""
    sizes: ColumnSizes

    def bloom(self, partition: str, file: str) -> BloomText | None:
        """The filter in the footer; None without one."""
        if not self.bloom_type:
            return None
        return BloomText(partition, file, self.bloom_type, self.bloom_text)


def encode_base_file(facts: WriteContext, rows: pa.Table) -> BaseBytes:
    """The base file with these rows; equal rows give equal bytes.

    Without meta columns the footer has neither a bloom filter nor key bounds, as in Hudi.
    """
    rows = facts.in_file(rows)
    if not facts.config.populate_meta_fields:
        return _encoded(facts, without_meta_values(rows))
    keys = flat(rows[KEY])
    # A filter made for fewer keys than it gets would answer yes too often.
    entries = max(facts.bloom_entries or 0, len(keys), _LEAST_BLOOM_ENTRIES)
    bloom = BloomFilter.create_simple(entries, facts.bloom_error_rate)
    bloom.add(keys)
    return _encoded(facts, rows, bloom, key_bounds(keys))


def _encoded(
    facts: WriteContext,
    rows: pa.Table,
    bloom: BloomFilter | None = None,
    bounds: tuple[str | None, str | None] = (None, None),
) -> BaseBytes:
    sink = pa.BufferOutputStream()
    metadata = write_base_file(
        rows,
        sink,
        avro_schema_text=facts.schema_text,
        bloom=bloom,
        min_key=bounds[0],
        max_key=bounds[1],
        compression=facts.compression,
    )
    data = sink.getvalue().to_pybytes()
    sizes = _column_sizes(metadata, rows.schema, facts.sized_columns)
    if bloom is None:
        return BaseBytes(data, "", "", sizes)
    return BaseBytes(data, bloom.type_code, bloom.encode(), sizes)


def _column_sizes(
    metadata: pq.FileMetaData, schema: pa.Schema, wanted: tuple[str, ...]
) -> ColumnSizes:
    """The bytes of the wanted columns; those of a nested one are the sum of its leaves."""
    sizes: dict[str, tuple[int, int]] = {}
    end = 0
    leaves = {}
    for field in schema:
        start, end = end, end + _leaf_count(field.type)
        leaves[field.name] = range(start, end)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for name in wanted:
        chunks = [group.column(leaf) for group in groups for leaf in leaves[name]]
        sizes[name] = (
            sum(chunk.total_compressed_size for chunk in chunks),
            sum(chunk.total_uncompressed_size for chunk in chunks),
        )
    return sizes


def _leaf_count(data_type: pa.DataType) -> int:
    if not pa.types.is_nested(data_type):
        return 1
    return sum(_leaf_count(data_type.field(n).type) for n in range(data_type.num_fields))


_FOUR_BYTE_LEAD = 0xF0
_TO_UTF16_ORDER = np.arange(256, dtype=np.uint8)
# U+E000 to U+FFFF start with these bytes; they go behind all lead bytes of four-byte characters.
_TO_UTF16_ORDER[[0xEE, 0xEF]] = (0xF5, 0xF6)
_FROM_UTF16_ORDER = bytes.maketrans(b"\xf5\xf6", b"\xee\xef")
_LAST_CHARACTERS = ("\uffff", "\U0010ffff")


def key_bounds(keys: pa.Array) -> tuple[str | None, str | None]:
    """A lower and an upper bound of all keys; None for no keys.

    Example:
        >>> key_bounds(pa.array(["k2", "k1", "k3"]))
        ('k1', 'k3')
        >>> key_bounds(pa.array(["a\uff5e", "a\U0001f600"]))
        ('a', 'b')
    """
    both = pc.min_max(keys)
    low, high = both["min"].as_py(), both["max"].as_py()
    if low is None or not _has_four_byte_characters(keys):
        return low, high
    java_low, java_high = _java_bounds(keys)
    if java_low != low:
        low = _shared_start(low, java_low)
    if java_high != high:
        high = _after(_shared_start(high, java_high)) or java_high
    return low, high


def _bytes_of(keys: pa.Array) -> tuple[pa.Array, np.ndarray]:
    binary = keys.cast(pa.large_string()).cast(pa.large_binary())
    return binary, np.frombuffer(binary.buffers()[2] or b"", dtype=np.uint8)


def _has_four_byte_characters(keys: pa.Array) -> bool:
    data = _bytes_of(keys)[1]
    return bool(len(data)) and int(data.max()) >= _FOUR_BYTE_LEAD


def _java_bounds(keys: pa.Array) -> tuple[str, str]:
    """The bounds in the order of UTF-16 units."""
    binary, data = _bytes_of(keys)
    buffers = [None, binary.buffers()[1], pa.py_buffer(_TO_UTF16_ORDER[data].tobytes())]
    moved = pa.Array.from_buffers(pa.large_binary(), len(binary), buffers, offset=binary.offset)
    both = pc.min_max(moved)
    low, high = (both[end].as_py().translate(_FROM_UTF16_ORDER) for end in ("min", "max"))
    return low.decode(), high.decode()


def _shared_start(one: str, other: str) -> str:
    length = min(len(one), len(other))
    differs = (at for at in range(length) if one[at] != other[at])
    return one[: next(differs, length)]


def _after(prefix: str) -> str | None:
    """A text that comes after all that start with the prefix, in both orders."""
    kept = prefix.rstrip("".join(_LAST_CHARACTERS))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # No character is a lone surrogate.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)


_ROW = "row"


@dataclass(frozen=True)
class _Merged:
    """The rows of the new file, and how they came about."""

    rows: pa.Table
    added: pa.Array
    gone: pa.Array
    updates: int
    deletes: int
    changed: ChangedRows | None = None

    @property
    def is_unchanged(self) -> bool:
        return not (len(self.added) or self.updates or self.deletes)


def write_base(
    facts: WriteContext,
    context: ReadContext,
    publisher: Publisher,
    group: GroupWork,
    incoming: Incoming,
) -> Outcome | None:
    """Write the base file; None when nothing in the group changes."""
    stored = _stored_rows(context, group.current)
    merged = _merge(context, stored, incoming, facts.row_columns)
    if merged.is_unchanged:
        return None
    rows = with_file_name(merged.rows, group.file_name)
    encoded = encode_base_file(facts, rows)
    size = publisher.publish(group, encoded.data)
    base = None if group.current is None else group.current.base
    file = WrittenFile(
        partition=group.partition,
        file_id=group.file_id,
        name=group.file_name,
        is_log=False,
        size=size,
        previous_base=None if base is None else base.name,
        prev_commit=NO_COMMIT if group.current is None else group.current.base_instant,
        num_writes=rows.num_rows,
        num_inserts=len(merged.added),
        num_updates=merged.updates,
        num_deletes=merged.deletes,
    )
    bloom = encoded.bloom(group.partition, file.name)
    return Outcome(
        file, rows, encoded.sizes, merged.added, merged.gone, bloom, changed=merged.changed
    )


def _stored_rows(context: ReadContext, current: FileSlice | None) -> pa.Table:
    schema = context.schema
    if current is None:
        return schema.empty_table()
    parts = list(read_slice(context, current, schema.names, batch_rows=None))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _merge(
    context: ReadContext, stored: pa.Table, incoming: Incoming, indexed: list[str]
) -> _Merged:
    """Lay the incoming rows over the stored ones.

    Rows are numbered, stored ones first, and only the numbers go through the merge.
    """
    tell = partial(_changed_rows, stored, incoming.rows, indexed)
    count = stored.num_rows
    nothing = pa.nulls(0, pa.string())
    if not incoming.is_here.any():
        new = np.flatnonzero(incoming.is_new)
        rows = _taken(stored, incoming.rows, np.concatenate([np.arange(count), count + new]))
        changed = tell(np.zeros(0, dtype=np.int64), new, None)
        return _Merged(rows, incoming.keys.take(pa.array(new)), nothing, 0, 0, changed)
    keys = context.record_keys(stored)
    # Of a key that stands twice no version may stay that is older than the new one.
    merged, inserted = merged_numbers(context, stored, keys, incoming, every_copy=True)
    kept = merged[merged < count]
    lost = np.ones(count, dtype=np.bool_)
    lost[kept] = False
    updates = len(merged) - len(kept)
    added = np.sort(np.concatenate([inserted, count + np.flatnonzero(incoming.is_new)]))
    rows = _taken(stored, incoming.rows, np.concatenate([merged, added]))
    left = keys.filter(pa.array(lost)).unique()
    return _Merged(
        rows=rows,
        added=incoming.keys.take(pa.array(added - count)),
        gone=left.filter(pa.array(_has_none_of(left, flat(rows[KEY])))),
        updates=updates,
        deletes=int(lost.sum()) - updates,
        changed=tell(
            np.flatnonzero(lost),
            np.concatenate([np.unique(merged[merged >= count]), added]) - count,
            left,
        ),
    )


def _changed_rows(
    stored: pa.Table,
    incoming: pa.Table,
    indexed: list[str],
    lost: Positions,
    came: Positions,
    lost_keys: pa.Array | None,
) -> ChangedRows | None:
    """The rows that went and those that came; None where no index needs them."""
    if not indexed:
        return None
    columns = list(dict.fromkeys([KEY, *indexed]))
    before = stored.select(columns)
    others = None
    if lost_keys is not None and len(lost_keys):
        # Where a key stands twice one of its rows may stay.
        is_same = pc.is_in(before[KEY], value_set=lost_keys).to_numpy().astype(np.bool_)
        is_same[lost] = False
        others = before.filter(pa.array(is_same)) if is_same.any() else None
    after = incoming.select(columns).take(pa.array(came))
    return ChangedRows(before.take(pa.array(lost)), after, others)


def merged_numbers(
    context: ReadContext,
    stored: pa.Table,
    keys: pa.Array,
    incoming: Incoming,
    *,
    every_copy: bool = False,
) -> tuple[Positions, Positions]:
    """Which rows take the places of the stored ones, and which have no place among them.

    Of a key that stands twice the first row is replaced, as a reader of log files does it, or
    `every_copy`.
    """
    here = np.flatnonzero(incoming.is_here)
    entries = incoming.entries(context, here)
    numbers = pa.table({_ROW: stored.num_rows + here})
    changes = ChangeSet(
        entries, newest_per_key(entries), numbers, np.arange(len(here)), every_copy=every_copy
    )
    ordering = ordering_of(stored, context.ordering_fields)
    merged = changes.apply(pa.table({_ROW: np.arange(stored.num_rows)}), keys, ordering)
    return merged[_ROW].to_numpy(), changes.inserts()[_ROW].to_numpy()


def _taken(stored: pa.Table, incoming: pa.Table, numbers: Positions) -> pa.Table:
    """Rows by their numbers; file names are not worth the copy, as they are set after."""
    both = pa.concat_tables([_without_names(stored), _without_names(incoming)])
    if len(numbers) != both.num_rows or not np.array_equal(numbers, np.arange(len(numbers))):
        both = both.take(pa.array(numbers))
    number = META_COLUMNS.index("_hoodie_file_name")
    field = stored.schema.field(number)
    return both.add_column(number, field, pa.nulls(both.num_rows, field.type))


def _without_names(rows: pa.Table) -> pa.Table:
    return rows.drop_columns(["_hoodie_file_name"])


def _has_none_of(keys: pa.Array, others: pa.Array) -> Mask:
    return ~pc.is_in(keys, value_set=others).to_numpy(zero_copy_only=False).astype(np.bool_)
