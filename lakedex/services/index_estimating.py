"""What a secondary index would cost and bring, from a sample of file slices.

A sample sees a part of the files. How many values there are follows from how many were seen in one
sampled file and in two (Chao's estimator for samples without replacement); how many files hold a
value, from that. The size is that of an index made of the sample's own pairs of value and key,
with as many keys to a value as in the table.

Of a table of up to 24 files that has no more than some 400,000 rows everything is read, so the
figures are counts. Of larger ones the size is within 15 % of the real index; the files per value
are within 25 % where values are about equally frequent, and too high, by some times where a few
values have most of the rows and the table has many more files than are sampled.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config.metadata_options import IndexRoom, record_index_bounds
from lakedex.engine import Engine
from lakedex.errors import InvalidInput
from lakedex.filegroup import RECORD_KEY, FileSlice, read_slice
from lakedex.format.avro import METADATA_RECORD_SCHEMA
from lakedex.format.hfile import write_hfile
from lakedex.format.logfile import BlockKind, HeaderKey, encode_block, encode_delete_content
from lakedex.index.kinds.secondary.key_encoding import is_indexable, spelled
from lakedex.index.kinds.secondary.pairs import SecondaryTarget, pair_rows
from lakedex.index.metadata_table.group_files import HFILE_OPTIONS
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.keys import placed_values_of_secondary, secondary_values
from lakedex.index.metadata_table.pair_writer import FEW_PAIRS, pair_records
from lakedex.schema.field_paths import column_at, flat, type_at, values_at
from lakedex.services.index_names import indexed_path
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties
from lakedex.timeline import load_table_config
from lakedex.write.metadata_plan import shards_for
from lakedex.write.row_size import stored_rows

Ints = npt.NDArray[np.int64]
_MOST_SLICES = 24
_MOST_ROWS = 400_000
_TOMBSTONES = 2_000
_MOST_GROWTH = 1_000_000
_OPENINGS = 3
"""How often a build looks at the whole table: before it begins, and under the lock."""
_COMMIT_FILES = 16
"""Files that the commit of a build writes, besides those of its file groups."""
_FILES_A_GROUP = 2
"""The log file by which it comes to be, and its base file."""
_FILE_SECONDS = 0.005
"""What a small file takes to be safely on a disk, besides the way to its storage."""


@dataclass(frozen=True, slots=True)
class IndexEstimate:
    """An index that does not exist yet."""

    column: str
    """The column, or the columns of an index on several."""
    rows: int
    """The entries that it would have."""
    values: int
    """Different values, about."""
    file_groups: int
    size_bytes: int
    build_seconds: float
    """Commit included; by one task after another, unless an engine was given: then as its jobs."""
    bytes_per_change: float
    """What a write adds for a row whose value changes: an entry, and a tombstone."""
    bytes_per_write: int
    """What a write adds to all file groups together, however few rows it changes."""
    files: int
    """File slices of the table."""
    files_per_value: float
    """How many of them a lookup of one value reads, about."""
    sampled_rows: int


@dataclass(frozen=True)
class _Sample:
    keys: pa.Array
    values: Ints
    """Numbers of values, equal where the values are."""
    seen: Ints
    """In how many of the sampled slices each value is, by its number."""
    slices: int
    seconds: float
    pairs: pa.Table
    columns: int


def estimate_index(
    snapshot: Snapshot,
    column: str | Sequence[str],
    *,
    growth: float = 1.0,
    engine: Engine | None = None,
) -> IndexEstimate:
    """What a secondary index on a column would be like.

    Args:
        snapshot: The table.
        column: The column, or the columns.
        growth: How many times as many rows the table will have; values grow in number with them.
        engine: Who would build it; how long a job of it takes to start is tried out.

    Raises:
        InvalidInput: The column is missing or cannot be indexed, or there are no rows.
    """
    columns = _checked_columns(snapshot, [column] if isinstance(column, str) else column)
    target = SecondaryTarget("sample", columns, 1, 1)
    _check_growth(growth)
    files = len(snapshot.slices)
    sample = _read(snapshot, target)
    if not len(sample.keys):
        raise InvalidInput(f"table {snapshot.config.name} has no rows to estimate an index from")
    share = sample.slices / files
    rows = max(len(sample.keys), stored_rows(snapshot)) if share < 1 else len(sample.keys)
    per_value = files_per_value(sample.seen, sample.slices, files)
    values = min(float(rows), max(1.0, sample.seen.sum() / share / per_value))
    grown = round(rows * growth)
    groups = groups_for(snapshot, grown)
    started = time.perf_counter()
    fixed, per_entry = _entry_bytes(sample, rows / values)
    encoding = time.perf_counter() - started
    empty_write, tombstone = _log_bytes(sample, target.columns[0])
    building = (sample.seconds + encoding) * grown / len(sample.keys)
    return IndexEstimate(
        column=target.told,
        rows=grown,
        values=round(values * growth),
        file_groups=groups,
        size_bytes=round(_used_groups(sample, groups, values * growth) * fixed + grown * per_entry),
        build_seconds=_commit_seconds(snapshot, groups)
        + (building if engine is None else _as_jobs(engine, building, grown)),
        bytes_per_change=per_entry + tombstone,
        bytes_per_write=round(groups * empty_write),
        files=files,
        files_per_value=per_value,
        sampled_rows=len(sample.keys),
    )


def _commit_seconds(snapshot: Snapshot, groups: int) -> float:
    """What a build takes however few rows there are: it opens the table, and writes small files."""
    began = time.perf_counter()
    _ = Snapshot.open(snapshot.storage).slices
    opened = time.perf_counter()
    load_table_config(snapshot.storage)
    # The way to the storage and back, which a disk hardly has.
    opening, way = opened - began, time.perf_counter() - opened
    files = _COMMIT_FILES + _FILES_A_GROUP * groups
    return _OPENINGS * opening + files * (_FILE_SECONDS + way)


def _as_jobs(engine: Engine, seconds: float, entries: int) -> float:
    """What so much work takes when the tasks of an engine share it.

    One job reads the slices; another one writes the file groups, unless the entries are few.
    """
    for _ in range(2):  # The first may have to start workers, which then stay.
        began = time.perf_counter()
        engine.map("see how long a job takes", abs, list(range(engine.parallelism)))
        start = time.perf_counter() - began
    jobs = 1 if entries <= FEW_PAIRS else 2
    return jobs * start + seconds / engine.parallelism


def groups_for(snapshot: Snapshot, rows: int) -> int:
    """The file groups that an index of record keys of the table gets for so many rows."""
    kept = read_own_properties(snapshot.storage)
    room = IndexRoom.resolve(kept)
    return shards_for(rows, *record_index_bounds(kept), partitioned=False, room=room)


def _check_growth(growth: object) -> None:
    if not isinstance(growth, int | float) or not 0 < growth <= _MOST_GROWTH:
        raise InvalidInput(f"growth is a factor above 0, at most {_MOST_GROWTH:,}, not {growth!r}")


def _checked_columns(snapshot: Snapshot, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns as the table spells them."""
    found = tuple(indexed_path(snapshot, str(each)) for each in columns)
    for column in found:
        kind = type_at(column, snapshot.schema)
        if kind is None or not is_indexable(kind):
            raise InvalidInput(
                f"column {column!r} of table {snapshot.config.name} cannot have a secondary index"
            )
    if not found:
        raise InvalidInput("name the column to index")
    return found


def _read(snapshot: Snapshot, target: SecondaryTarget) -> _Sample:
    """Slices from all over the table, while they are few rows."""
    started = time.perf_counter()
    names = list(dict.fromkeys([RECORD_KEY, *map(column_at, target.columns)]))
    parts: list[pa.Table] = []
    counts: list[int] = []
    for current in spread_slices(snapshot.slices, _MOST_SLICES):
        own = list(read_slice(snapshot.read_context, current, names))
        parts += own
        counts.append(sum(part.num_rows for part in own))
        if sum(counts) >= _MOST_ROWS:
            break
    table = pa.concat_tables([snapshot.read_context.target(names).empty_table(), *parts])
    pairs = pair_rows(target, table, is_delete=False)
    encoded = _values(target, table).dictionary_encode(null_encoding="encode")
    numbers = encoded.indices.to_numpy().astype(np.int64)
    keys = table[RECORD_KEY].combine_chunks()
    seconds = time.perf_counter() - started
    seen = _slices_of_values(numbers, np.repeat(np.arange(len(counts)), counts))
    return _Sample(keys, numbers, seen, len(counts), seconds, pairs, len(target.columns))


def _slices_of_values(numbers: Ints, slice_of: Ints) -> Ints:
    """In how many slices each value is, by its number."""
    if not len(numbers):
        return np.zeros(0, dtype=np.int64)
    distinct = int(numbers.max()) + 1
    pairs = np.unique(slice_of * distinct + numbers)
    return np.bincount(pairs % distinct, minlength=distinct)


def _values(target: SecondaryTarget, rows: pa.Table) -> pa.Array:
    """What is looked up, row by row: the column as it is, or the values of several together."""
    if len(target.columns) == 1:
        return flat(values_at(target.columns[0], rows))
    return secondary_values([spelled(values_at(column, rows)) for column in target.columns])


def spread_slices(slices: tuple[FileSlice, ...], most: int) -> list[FileSlice]:
    """Some slices, evenly from first to last."""
    count = min(len(slices), most)
    return [slices[at * len(slices) // count] for at in range(count)]


def files_per_value(seen: Ints, slices: int, files: int) -> float:
    """How many of all files hold a value, in the mean over the values.

    The values that no sampled slice has are estimated from those that one or two of them have, by
    Chao's lower bound for sampling without replacement; so the mean is rather too high where
    some values are much rarer than others. Never more than there are files.

    Args:
        seen: In how many of the sampled slices each value is.
        slices: How many were sampled.
        files: How many there are.

    Example:
        >>> round(files_per_value(np.full(500, 1), slices=10, files=100), 1)
        1.0
        >>> round(files_per_value(np.full(50, 10), slices=10, files=100))
        100
    """
    if not len(seen):
        return 1.0
    share = slices / files
    unseen = 0.0
    once, twice = int((seen == 1).sum()), int((seen == 2).sum())
    if slices < files and once:
        again = 2 * twice * slices / max(1, slices - 1)
        unseen = once**2 / (again + once * share / (1 - share))
    mean = float(seen.sum()) / share / (len(seen) + unseen)
    return round(min(max(1.0, mean), float(files)), 6)


def files_with_any(values: float, per_value: float, files: float) -> float:
    """How many of some files hold at least one of so many values that are spread independently.

    Example:
        >>> files_with_any(1, 3.0, 12), round(files_with_any(2, 3.0, 12), 2)
        (3.0, 5.25)
        >>> files_with_any(1_000, 3.0, 12) <= 12
        True
    """
    if files <= 0:
        return 0.0
    share = min(1.0, per_value / files)
    return files * (1 - (1 - share) ** values)


def _used_groups(sample: _Sample, groups: int, values: float) -> float:
    """How many file groups have entries at all: the hash of a value chooses its group."""
    first = np.unique(sample.values, return_index=True)[1]
    pairs = sample.pairs["key"].combine_chunks().take(pa.array(first))
    own = len(np.unique(shards_of(placed_values_of_secondary(pairs, sample.columns), groups)))
    return own + files_with_any(max(0.0, values - len(first)), 1.0, groups) * (1 - own / groups)


def _entry_bytes(sample: _Sample, rows_a_value: float) -> tuple[float, float]:
    """What a file group takes by itself, and what each entry of it takes."""
    count = len(sample.keys)
    first = np.unique(sample.values, return_index=True)[1]
    # A part of the table has fewer rows of each value: rows of some values are given to others.
    kept = np.linspace(0, len(first) - 1, min(len(first), max(1, round(count / rows_a_value))))
    given = np.resize(kept.astype(np.int64), len(first))
    given[kept.astype(np.int64)] = kept.astype(np.int64)
    pairs = sample.pairs["key"].combine_chunks()
    values = placed_values_of_secondary(pairs, sample.columns)
    placed = values.take(pa.array(first[given[sample.values]]))
    keys = pc.binary_join_element_wise(placed, sample.keys, "").unique()
    keys = keys.take(pc.sort_indices(keys.cast(pa.large_binary())))
    return stored_bytes(keys, pair_records(len(keys)))


def stored_bytes(keys: pa.Array, values: pa.Array) -> tuple[float, float]:
    """What a file group with these records takes by itself, and what each record takes.

    Example:
        >>> alone, each = stored_bytes(pa.array(["a", "b"]), pair_records(2))
        >>> alone > each > 0
        True
    """
    one, whole = _size(keys[:1], values[:1]), _size(keys, values)
    return float(one), (whole - one) / max(1, len(keys) - 1)


def _log_bytes(sample: _Sample, column: str) -> tuple[float, float]:
    """What a log file takes by itself, and what each tombstone in it takes."""
    keys = sample.pairs["key"].combine_chunks()[:_TOMBSTONES]
    header = {HeaderKey.INSTANT_TIME: "0" * 17, HeaderKey.SCHEMA: METADATA_RECORD_SCHEMA}
    one, whole = (_delete_bytes(part, column) for part in (keys[:1], keys))
    each = (whole - one) / max(1, len(keys) - 1)
    entry = b"0" * _size(keys[:1], pair_records(1))
    heads = len(encode_block(BlockKind.HFILE_DATA, header, entry))
    heads += len(encode_block(BlockKind.DELETE, header, b"0" * one))
    return float(heads), each


def _delete_bytes(keys: pa.Array, column: str) -> int:
    partitions = pa.repeat(f"secondary_index_idx_{column}", len(keys))
    return len(encode_delete_content(keys, partitions, None))


def _size(keys: pa.Array, values: pa.Array) -> int:
    info = {"schema": METADATA_RECORD_SCHEMA.encode()}
    return len(write_hfile(keys, values, file_info=info, options=HFILE_OPTIONS))
