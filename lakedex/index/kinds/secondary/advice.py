"""What a secondary index that does not exist would take and bring: advice, size, what-if.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import TableConfig
from lakedex.errors import InvalidInput
from lakedex.expr.evaluate import evaluate
from lakedex.expr.normal_form import restrict_to_columns
from lakedex.filegroup import META_COLUMNS, RECORD_KEY, FileSlice, read_slice
from lakedex.format.avro import METADATA_RECORD_SCHEMA
from lakedex.format.logfile import BlockKind, HeaderKey, encode_block, encode_delete_content
from lakedex.index.advice import (
    MOST_COLUMNS,
    POINTS,
    Demand,
    HypotheticalIndex,
    Sampled,
    Suggestion,
    WhatIfQuery,
    Workload,
)
from lakedex.index.contract import NEWEST_ONLY
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.secondary.key_encoding import encoded, is_certain, is_indexable
from lakedex.index.kinds.secondary.key_predicate import KeyPredicate, key_predicate
from lakedex.index.kinds.secondary.records import PREFIX, SecondaryTarget, pair_records, pair_rows
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.keys import placed_values_of_secondary, secondary_values
from lakedex.index.size_estimate import (
    Ints,
    SampledTable,
    SizeEstimate,
    encoded_size,
    files_per_value,
    files_with_any,
    rows_of_slices,
    spread_slices,
    stored_bytes,
)
from lakedex.schema.field_paths import column_at, flat, type_at, values_at

_KIND = "secondary_index"
_RECORD_INDEX = "record_index"
_WITH_RECORD_INDEX = " OPTIONS ('hoodie.metadata.global.record.level.index.enable'='true')"
_MOST_SLICES = 24
_MOST_ROWS = 400_000
_TOMBSTONES = 2_000


def advise(workload: Workload) -> Iterator[Suggestion | str]:
    """Indexes of single columns, and why others are not suggested."""
    points = list(workload.demands(POINTS))
    candidates = [each for each in points if _is_candidate(workload, each.column)]
    workload.answered.update(each.column for each in points if _has_index(workload, each.column))
    for demand in candidates[:MOST_COLUMNS]:
        for each in workload.guarded(_suggestion, demand):
            if isinstance(each, Suggestion):
                workload.answered.add(demand.column)
            yield each


def _is_candidate(workload: Workload, column: str) -> bool:
    """Whether queries would use a secondary index on the column, and there is none."""
    if column in META_COLUMNS or workload.key_columns == (column,):
        return False
    return is_certain(workload.schema.field(column).type) and not _has_index(workload, column)


def _has_index(workload: Workload, column: str) -> bool:
    return any(
        name.startswith(PREFIX) and workload.is_live(name) and each.source_fields == (column,)
        for name, each in workload.definitions.items()
    )


def _suggestion(workload: Workload, demand: Demand) -> Suggestion | str:
    size = workload.size_of(_KIND, (demand.column,))
    left = demand.left(demand.values_a_scan, size.files_per_value, workload.files)
    if not demand.pays(left):
        return workload.too_little(demand, left, "a secondary index")
    suggestion = Suggestion(
        index=_free_name(workload, demand.column),
        kind=_KIND,
        columns=(demand.column,),
        queries=demand.scans,
        files_saved=demand.saved(left),
        size_bytes=size.size_bytes,
        bytes_per_change=size.bytes_per_change,
        build_seconds=size.seconds,
        reason=f"{demand}; a value is in about {size.files_per_value:,.1f} of "
        f"{workload.files:,} files",
    )
    if workload.is_live(_RECORD_INDEX):
        return suggestion
    needed = workload.size_of(_RECORD_INDEX)
    return replace(
        suggestion,
        size_bytes=suggestion.size_bytes + needed.size_bytes,
        bytes_per_change=suggestion.bytes_per_change + needed.bytes_per_change,
        build_seconds=suggestion.build_seconds + needed.seconds,
        options=_WITH_RECORD_INDEX,
        reason=f"{suggestion.reason}; the record index that it needs is built with it",
    )


def _free_name(workload: Workload, column: str) -> str:
    name, number = f"idx_{column}", 2
    while workload.is_taken(name):
        name, number = f"idx_{column}_{number}", number + 1
    return name


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
    return secondary_values([encoded(values_at(column, rows)) for column in target.columns])


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


def what_if(
    kind: MetadataIndexKind, columns: tuple[str, ...], schema: pa.Schema
) -> HypotheticalIndex:
    """An index on some columns.

    Raises:
        InvalidInput: one cannot be indexed.
    """
    for column in columns:
        value_type = type_at(column, schema)
        if not is_indexable(value_type):
            raise InvalidInput(f"column {column} ({value_type}) cannot have a secondary index")
    return HypotheticalSecondary(columns, kind.live_index_on)


@dataclass(frozen=True, slots=True)
class HypotheticalSecondary:
    """A secondary index on a column, or on several."""

    columns: tuple[str, ...]
    live_index_on: Callable[
        [TableConfig, Mapping[str, IndexDefinition], tuple[str, ...]], str | None
    ]
    """Which index of the table is on some columns already."""
    kind: str = "secondary_index"
    lookups: int = 2
    """Its own, and one of the record index."""

    @property
    def name(self) -> str:
        """The kind and the columns."""
        return f"secondary index on {', '.join(self.columns)}"

    def why_not(self, query: WhatIfQuery) -> str | None:
        """It answers what the real one would, on the newest snapshot."""
        there = self.live_index_on(query.read.config, query.definitions, self.columns)
        if there is not None:
            return f"the table has {there} already"
        key_predicate = self._key_predicate(query)
        if isinstance(key_predicate, str):
            return key_predicate
        return None if query.is_latest else NEWEST_ONLY

    def sample(self, query: WhatIfQuery, slices: Sequence[FileSlice], share: float) -> Sampled:
        """The slices that hold a row with one of the values."""
        own = restrict_to_columns(
            query.predicate, *(tuple(column.split(".")) for column in self.columns)
        )
        names = list(dict.fromkeys(map(column_at, self.columns)))
        keep = np.zeros(len(slices), dtype=np.bool_)
        seen: list[pa.Table] = []
        rows = 0
        for number, of_slice in enumerate(rows_of_slices(query.read, slices, names)):
            values = _distinct(pa.table({each: values_at(each, of_slice) for each in self.columns}))
            # Structs stay as they are: a predicate on a field has the path through them.
            keep[number] = any(
                pc.any(evaluate(own, batch, time_zone=query.time_zone)).as_py()
                for batch in (values if names == [*self.columns] else of_slice).to_batches()
            )
            rows += len(of_slice)
            if share < 1:
                seen.append(values)
        key_predicate = self._key_predicate(query)
        values_asked = None if isinstance(key_predicate, str) else key_predicate.starts
        typical = None
        if seen and values_asked is not None:
            files = round(len(slices) / share)
            per_value = files_per_value(_times_seen(seen), len(slices), files)
            typical = files_with_any(len(values_asked), per_value, files)
        what = "a range" if values_asked is None else f"{len(values_asked)} values"
        reason = f"{what} asked, {rows:,} rows of {len(slices)} file slices read"
        if not query.is_live(_RECORD_INDEX):
            reason += "; it needs the record index, which has to be built first"
        return Sampled(keep, typical, reason)

    def _key_predicate(self, query: WhatIfQuery) -> KeyPredicate | str:
        definition = IndexDefinition(self.name, self.kind, "identity", self.columns, {}, 2)
        return key_predicate(definition, query.predicate, query.read.schema)


def _times_seen(parts: Sequence[pa.Table]) -> Ints:
    """In how many of some tables each row is, none of which has a row twice."""
    rows = pa.concat_tables(parts)
    counted = rows.group_by(rows.column_names).aggregate([([], "count_all")])
    counts: Ints = counted["count_all"].to_numpy()
    return counts


def _distinct(rows: pa.Table) -> pa.Table:
    """Rows that are alike only once."""
    return rows.group_by(rows.column_names).aggregate([])
