"""The log files of a slice as one set of changes: blocks decoded, newest version of each key.

Hudi skips torn blocks: a writer died halfway, and its records do not count. But where a
log file bears the time of the one write that made it, and that write is complete, a torn block is
damage, and skipping it would lose changes in silence.

An attempt that died may leave a torn file beside the whole one of the attempt that counted, so a
file is only missed when no other of the slice bears its time. In layout 1 log files bear the time
of the base file, and many writes append to them: there no damage can be detected.

A virtual block stands for the blocks of the log files that it names, so that a reader of the slice
finds the records of a write beside a resize of buckets where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile, FileMissing, LakedexError, UnsupportedFeature
from lakedex.filegroup.context import DELETED_FLAG, OPERATION, ReadContext
from lakedex.filegroup.names import LogFile, parse_data_file
from lakedex.filegroup.ordering import ordering_values, raw_ordering
from lakedex.filegroup.slices import FileSlice
from lakedex.format.logfile import (
    BlockKind,
    LogBlock,
    count_records,
    decode_avro_blocks,
    decode_delete_block,
    decode_parquet_block,
    decode_virtual_block,
    effective_blocks,
    read_blocks,
)
from lakedex.merge import ChangeSet, Entries, newest_per_key
from lakedex.storage import Storage
from lakedex.storage.source import MemorySource

_DELETE_OPERATION = "D"
_TOGETHER_BYTES = 4 << 20
"""Blocks are decoded together up to so many bytes."""
_WHOLE_BYTES = 128 << 10
"""Log files up to this size are read at once."""
_Mask = npt.NDArray[np.bool_]


def check_whole(
    file_slice: FileSlice,
    log: LogFile,
    blocks: Sequence[LogBlock],
    is_committed: Callable[[str], bool],
) -> None:
    """Raise `CorruptFile` when a complete write is known to have left more than these blocks."""
    torn = [block.offset for block in blocks if block.kind is BlockKind.CORRUPT]
    times = {block.instant_time for block in blocks if block.kind is not BlockKind.CORRUPT}
    is_other = bool(times) and log.instant_time not in times
    if (blocks and not torn and not is_other) or log.instant_time == file_slice.base_instant:
        return
    bearers = sum(other.instant_time == log.instant_time for other in file_slice.logs)
    if bearers == 1 and is_committed(log.instant_time):
        torn_text = "a torn one" if torn else f"one of {min(times, default='')}"
        raise CorruptFile(
            file_slice.path_of(log.name),
            torn[0] if torn else 0,
            expected=f"a whole block of the completed write {log.instant_time}",
            actual=torn_text if blocks else "an empty file",
        )


def marked_deleted(rows: pa.Table) -> _Mask:
    """Rows that every reader takes for deletes, by a column of the table.

    Example:
        >>> marked_deleted(pa.table({"_hoodie_is_deleted": [True, None, False]})).tolist()
        [True, False, False]
        >>> marked_deleted(pa.table({"_hoodie_operation": ["I", "D"]})).tolist()
        [False, True]
    """
    marked = np.zeros(rows.num_rows, dtype=np.bool_)
    if DELETED_FLAG in rows.column_names:
        marked |= rows[DELETED_FLAG].to_numpy() == np.True_
    if OPERATION in rows.column_names:
        marked |= pc.equal(rows[OPERATION], _DELETE_OPERATION).to_numpy() == np.True_
    return marked


def without_ordering(columns: Sequence[pa.Array], count: int) -> _Mask:
    """Rows that carry no ordering value: null, or Hudi's default, the int 0.

    Example:
        >>> versions = pa.array([None, 0, 7], pa.int32())
        >>> without_ordering([versions], 3).tolist()
        [True, True, False]
    """
    without = np.ones(count, dtype=np.bool_)
    for values in columns:
        missing = values.is_null()
        if pa.types.is_int32(values.type):
            missing = pc.or_(missing, pc.equal(values, 0).fill_null(pa.scalar(value=True)))
        without &= missing.to_numpy(zero_copy_only=False).astype(np.bool_)
    return without


@dataclass(frozen=True, slots=True)
class _Part:
    """The entries of one block; a delete block has no rows."""

    keys: pa.Array
    ordering: tuple[pa.Array, ...]
    is_delete: _Mask
    is_unconditional: _Mask
    rows: pa.Table | None
    missing: frozenset[str] = frozenset()
    """The columns that a partial update leaves as they are."""


def slice_blocks(context: ReadContext, file_slice: FileSlice) -> list[LogBlock]:
    """The log blocks of a slice that count, oldest first."""
    found: list[LogBlock] = []
    for log in file_slice.logs:
        blocks = read_log(context.storage, file_slice.path_of(log.name), log.size_bytes)
        check_whole(file_slice, log, blocks, context.is_committed)
        found.extend(blocks)
    return effective_blocks(found, is_committed=context.is_committed)


def read_log(storage: Storage, path: str, size_bytes: int) -> list[LogBlock]:
    """All blocks of a log file, in place of virtual ones those of the log files that they name.

    Raises:
        CorruptFile: a log file that is named is not the one that was meant.
        FileMissing: it is not there.
    """
    found: list[LogBlock] = []
    for block in _all_blocks(storage, path, size_bytes):
        if block.kind is BlockKind.VIRTUAL:
            found += _named_blocks(storage, block)
        else:
            found.append(block)
    return found


def _all_blocks(storage: Storage, path: str, size_bytes: int) -> list[LogBlock]:
    source = storage.source(path, size_bytes)
    if source.size <= _WHOLE_BYTES:
        # One request for all of it: headers and records are wanted anyway.
        source = MemorySource(source.read(0, source.size), source.path)
    return read_blocks(source)


def _named_blocks(storage: Storage, virtual: LogBlock) -> list[LogBlock]:
    found: list[LogBlock] = []
    folder = virtual.path.rpartition("/")[0]
    for named in decode_virtual_block(virtual):
        path = f"{folder}/{named.name}" if folder else named.name
        if not isinstance(parse_data_file(named.name, named.size_bytes), LogFile):
            raise CorruptFile(virtual.path, virtual.offset, expected="a log file", actual=path)
        try:
            blocks = _all_blocks(storage, path, named.size_bytes)
        except FileMissing as error:
            raise FileMissing(
                f"{path} is not there, whose records {virtual.path} stands for; restore the table "
                "to a commit before it"
            ) from error
        # Of another write, or torn, they would be passed over in silence.
        for block in blocks:
            is_data = block.kind in (BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA, BlockKind.DELETE)
            if not is_data or block.instant_time != virtual.instant_time:
                raise CorruptFile(
                    path,
                    block.offset,
                    expected=f"a block with records of {virtual.instant_time}",
                    actual=block.kind.name,
                )
        if not blocks:
            raise CorruptFile(path, 0, expected="blocks with records", actual="an empty file")
        found += [replace(block, found_through=virtual.path) for block in blocks]
    return found


def read_changes(context: ReadContext, file_slice: FileSlice, target: pa.Schema) -> ChangeSet:
    """The newest change of each key in a slice's log files, rows with the `target` columns."""
    return read_many_changes(context, [file_slice], target)[0]


def read_many_changes(
    context: ReadContext, slices: Sequence[FileSlice], target: pa.Schema
) -> list[ChangeSet]:
    """The same for each of many slices, whose log blocks are decoded together.

    Decoding the few records of one slice costs hardly less than decoding those of many.
    """
    runs_of = [_runs(context, slice_blocks(context, each)) for each in slices]
    stored = iter(_decoded_together(context, [run for runs in runs_of for run in runs], target))
    return [
        _newest_changes(
            context,
            [_part(context, run, next(stored), target, file_slice.partition) for run in runs],
            target,
        )
        for file_slice, runs in zip(slices, runs_of, strict=True)
    ]


def _newest_changes(context: ReadContext, parts: list[_Part], target: pa.Schema) -> ChangeSet:
    entries = _joined(context, parts)
    tables = [part.rows for part in parts if part.rows is not None]
    rows = pa.concat_tables(tables).combine_chunks() if tables else target.empty_table()
    return ChangeSet(entries, newest_per_key(entries), rows, _row_of_entry(parts))


def _decoded_together(
    context: ReadContext, runs: list[list[LogBlock]], target: pa.Schema
) -> list[pa.Table | None]:
    """The stored rows of the runs of one form, decoded at once; None for runs to decode alone."""
    by_form: dict[str, list[int]] = {}
    for number, (first, *_) in enumerate(runs):
        if _is_alike(context, first, first):
            by_form.setdefault(first.schema_text, []).append(number)
    found: list[pa.Table | None] = [None] * len(runs)
    for numbers in by_form.values():
        if len(numbers) == 1:
            continue
        try:
            rows = _stored_rows(context, [block for n in numbers for block in runs[n]], target)
        except LakedexError:
            continue  # Decoded alone, the run at fault fails in its turn, and no other one.
        counts = [sum(count_records(block) for block in runs[number]) for number in numbers]
        starts = [0, *accumulate(counts)]
        if rows.num_columns:
            for number, start, count in zip(numbers, starts, counts, strict=False):
                found[number] = rows.slice(start, count)
    return found


def plain_blocks(context: ReadContext, file_slice: FileSlice) -> list[LogBlock] | None:
    """The log blocks of a slice, if all of them hold whole rows of one and the newest form."""
    if not file_slice.logs:
        return []
    blocks = slice_blocks(context, file_slice)
    computes = context.config.drop_partition_columns or context.has_virtual_keys
    is_plain = context.history is None and not computes
    if is_plain and all(_is_alike(context, blocks[0], block) for block in blocks):
        return blocks
    return None


def change_set(context: ReadContext, rows: pa.Table, keys: pa.Array) -> ChangeSet:
    """The newest change of each key among rows of log blocks, oldest first."""
    part = _part_of(context, rows, keys, frozenset())
    entries = _joined(context, [part])
    return ChangeSet(entries, newest_per_key(entries), rows, _row_of_entry([part]))


def _runs(context: ReadContext, blocks: list[LogBlock]) -> list[list[LogBlock]]:
    """The blocks in their order, with those together that can be decoded together.

    Many small commits leave many small blocks; each costs about as much as a larger one.
    """
    runs: list[list[LogBlock]] = []
    size = 0
    for block in blocks:
        own = block.content.size
        if runs and size + own <= _TOGETHER_BYTES and _is_alike(context, runs[-1][0], block):
            runs[-1].append(block)
            size += own
        else:
            runs.append([block])
            size = own
    return runs


def _is_alike(context: ReadContext, one: LogBlock, other: LogBlock) -> bool:
    """Whether the records of two blocks have the same form."""
    plain = all(each.kind is BlockKind.AVRO_DATA and not each.is_partial for each in (one, other))
    return plain and context.history is None and one.schema_text == other.schema_text


def _part(
    context: ReadContext,
    run: list[LogBlock],
    rows: pa.Table | None,
    target: pa.Schema,
    partition: str,
) -> _Part:
    """The entries of a run of blocks; `rows` are its stored rows where they are decoded already."""
    block = run[0]
    if block.kind is BlockKind.DELETE:
        return _deletes(context, block)
    if block.is_partial and context.history is not None:
        raise UnsupportedFeature(f"partial updates of renamed columns, as in {block.path},")
    if rows is None:
        rows = _stored_rows(context, run, target)
    missing = _missing_columns(context, block, rows, target) if block.is_partial else frozenset()
    rows = context.conform(rows, block.instant_time, target, partition)
    return _part_of(context, rows, context.record_keys(rows), missing)


def _missing_columns(
    context: ReadContext, block: LogBlock, rows: pa.Table, target: pa.Schema
) -> frozenset[str]:
    """The columns that a partial update leaves as they are."""
    if not context.has_virtual_keys:
        return frozenset(target.names).difference(rows.column_names)
    wanted = context.stored_names(target.names, block.instant_time)
    for name in context.config.record_key_fields:
        if name.partition(".")[0] not in rows.column_names:
            raise UnsupportedFeature(
                f"a partial update without the key column {name}, as in {block.path}, of a table "
                "without meta columns"
            )
    return frozenset(wanted).difference(rows.column_names)


def _part_of(
    context: ReadContext, rows: pa.Table, keys: pa.Array, missing: frozenset[str]
) -> _Part:
    is_delete = marked_deleted(rows)
    raw = raw_ordering(rows, context.ordering_fields)
    return _Part(
        keys,
        tuple(ordering_values(values) for values in raw),
        is_delete,
        is_delete & without_ordering(raw, rows.num_rows),
        rows,
        missing,
    )


def block_keys(
    context: ReadContext, block: LogBlock, target: pa.Schema, partition: str
) -> pa.Array:
    """The record keys in a data block; `target` names the column that they are made of."""
    rows = _stored_rows(context, [block], target)
    return context.record_keys(context.conform(rows, block.instant_time, target, partition))


def _stored_rows(context: ReadContext, run: list[LogBlock], target: pa.Schema) -> pa.Table:
    """The rows of data blocks as they are stored, with no more columns than needed."""
    block = run[0]
    stored = context.stored_names(target.names, block.instant_time)
    if block.kind is BlockKind.AVRO_DATA:
        return pa.Table.from_batches([decode_avro_blocks(run, columns=stored)])
    if block.kind is BlockKind.PARQUET_DATA:
        return decode_parquet_block(block, columns=stored)
    raise UnsupportedFeature(f"a {block.kind.name} block in the data log {block.path}")


def _deletes(context: ReadContext, block: LogBlock) -> _Part:
    deletes = decode_delete_block(block)
    count = len(deletes.keys)
    fields = context.ordering_fields
    types = context.ordering_types()
    found = deletes.ordering_values()
    columns: list[pa.Array] | None = None
    if found.values is not None and fields:
        columns = _typed_ordering(found.values, types)
    if columns is None:
        unconditional = np.ones(count, dtype=np.bool_)
        columns = [pa.nulls(count, data_type) for data_type in types]
    else:
        unconditional = found.unconditional
    ordering = tuple(ordering_values(column) for column in columns)
    return _Part(deletes.keys, ordering, np.ones(count, dtype=np.bool_), unconditional, None)


def _typed_ordering(values: pa.Array, types: list[pa.DataType]) -> list[pa.Array] | None:
    """Ordering values of deletes in the types of the ordering columns; None if they differ.

    A delete whose value is of another type than the column counts as unconditional.
    """
    parts = values.flatten() if pa.types.is_struct(values.type) else [values]
    if len(parts) != len(types):
        return None
    try:
        return [part.cast(data_type) for part, data_type in zip(parts, types, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _joined(context: ReadContext, parts: list[_Part]) -> Entries:
    if not parts:
        none = np.zeros(0, dtype=np.bool_)
        empty = tuple(pa.nulls(0, data_type) for data_type in context.ordering_types())
        return Entries(pa.nulls(0, pa.string()), empty, none, none, none)
    return Entries(
        pa.concat_arrays([part.keys.cast(pa.string()) for part in parts]),
        tuple(
            pa.concat_arrays(list(columns))
            for columns in zip(*(part.ordering for part in parts), strict=True)
        ),
        np.concatenate([part.is_delete for part in parts]),
        np.concatenate([part.is_unconditional for part in parts]),
        np.concatenate([np.full(len(part.keys), part.rows is None) for part in parts]),
        {
            name: np.concatenate([np.full(len(p.keys), name not in p.missing) for p in parts])
            for name in frozenset().union(*(part.missing for part in parts))
        },
    )


def _row_of_entry(parts: list[_Part]) -> npt.NDArray[np.int64]:
    """The position of the row of each entry among all rows; 0 for deletes, which have none."""
    places = []
    start = 0
    for part in parts:
        if part.rows is None:
            places.append(np.zeros(len(part.keys), dtype=np.int64))
        else:
            places.append(np.arange(start, start + part.rows.num_rows, dtype=np.int64))
            start += part.rows.num_rows
    return np.concatenate(places) if places else np.zeros(0, dtype=np.int64)
