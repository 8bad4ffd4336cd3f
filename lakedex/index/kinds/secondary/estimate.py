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
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.filegroup import RECORD_KEY, read_slice
from lakedex.format.avro import METADATA_RECORD_SCHEMA
from lakedex.format.logfile import BlockKind, HeaderKey, encode_block, encode_delete_content
from lakedex.index.kinds.secondary.key_encoding import is_indexable, spelled
from lakedex.index.kinds.secondary.pairs import SecondaryTarget, pair_rows
from lakedex.index.kinds.secondary.records import pair_records
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.keys import placed_values_of_secondary, secondary_values
from lakedex.index.sampling import Ints, files_per_value, files_with_any, spread_slices
from lakedex.index.size_estimate import SampledTable, SizeEstimate, encoded_size, stored_bytes
from lakedex.schema.field_paths import column_at, flat, type_at, values_at

_MOST_SLICES = 24
_MOST_ROWS = 400_000
_TOMBSTONES = 2_000


def estimate(table: SampledTable, columns: tuple[str, ...]) -> SizeEstimate | None:
    """What an index on some columns would take; None for a table without rows.

    Raises:
        InvalidInput: a column cannot be indexed.
    """
    _check_columns(table, columns)
    target = SecondaryTarget("sample", columns, 1, 1)
    files = len(table.slices)
    sample = _read(table, target)
    if not len(sample.keys):
        return None
    share = sample.slices / files
    rows = max(len(sample.keys), table.stored_rows()) if share < 1 else len(sample.keys)
    per_value = files_per_value(sample.seen, sample.slices, files)
    values = min(float(rows), max(1.0, sample.seen.sum() / share / per_value))
    grown = round(rows * table.growth)
    groups = table.groups_for(grown)
    started = time.perf_counter()
    fixed, per_entry = _entry_bytes(sample, rows / values)
    encoding = time.perf_counter() - started
    empty_write, tombstone = _log_bytes(sample, target.columns[0])
    used = _used_groups(sample, groups, values * table.growth)
    return SizeEstimate(
        rows=grown,
        size_bytes=round(used * fixed + grown * per_entry),
        bytes_per_change=per_entry + tombstone,
        seconds=(sample.seconds + encoding) * grown / len(sample.keys),
        files_per_value=per_value,
        values=round(values * table.growth),
        file_groups=groups,
        bytes_per_write=round(groups * empty_write),
        sampled_rows=len(sample.keys),
    )


def _check_columns(table: SampledTable, columns: tuple[str, ...]) -> None:
    for column in columns:
        kind = type_at(column, table.read.schema)
        if kind is None or not is_indexable(kind):
            raise InvalidInput(
                f"column {column!r} of table {table.read.config.name} cannot have a secondary index"
            )


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


def _read(table: SampledTable, target: SecondaryTarget) -> _Sample:
    """Slices from all over the table, while they are few rows."""
    started = time.perf_counter()
    names = list(dict.fromkeys([RECORD_KEY, *map(column_at, target.columns)]))
    parts: list[pa.Table] = []
    counts: list[int] = []
    for current in spread_slices(table.slices, _MOST_SLICES):
        own = list(read_slice(table.read, current, names))
        parts += own
        counts.append(sum(part.num_rows for part in own))
        if sum(counts) >= _MOST_ROWS:
            break
    sampled = pa.concat_tables([table.read.target(names).empty_table(), *parts])
    pairs = pair_rows(target, sampled, is_delete=False)
    encoded = _values(target, sampled).dictionary_encode(null_encoding="encode")
    numbers = encoded.indices.to_numpy().astype(np.int64)
    keys = sampled[RECORD_KEY].combine_chunks()
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


def _log_bytes(sample: _Sample, column: str) -> tuple[float, float]:
    """What a log file takes by itself, and what each tombstone in it takes."""
    keys = sample.pairs["key"].combine_chunks()[:_TOMBSTONES]
    header = {HeaderKey.INSTANT_TIME: "0" * 17, HeaderKey.SCHEMA: METADATA_RECORD_SCHEMA}
    one, whole = (_delete_bytes(part, column) for part in (keys[:1], keys))
    each = (whole - one) / max(1, len(keys) - 1)
    entry = b"0" * encoded_size(keys[:1], pair_records(1))
    heads = len(encode_block(BlockKind.HFILE_DATA, header, entry))
    heads += len(encode_block(BlockKind.DELETE, header, b"0" * one))
    return float(heads), each


def _delete_bytes(keys: pa.Array, column: str) -> int:
    partitions = pa.repeat(f"secondary_index_idx_{column}", len(keys))
    return len(encode_delete_content(keys, partitions, None))
