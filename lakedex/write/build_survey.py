"""Workers that look at data which is there already, for indexes that are built later.

One pass over the file slices serves all new indexes. Keys are put aside in files by bucket, since
they grow with the records; ranges and filters are answered.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakedex.engine import Engine
from lakedex.filegroup import RECORD_KEY, BaseFile, FileSlice, ReadContext, read_slice
from lakedex.format.bloom import BloomFilter
from lakedex.format.parquet import read_footer
from lakedex.format.spill import SpillWriter
from lakedex.index.kinds.expression.target import ExpressionTarget
from lakedex.index.kinds.secondary.coverage import coverage_pairs
from lakedex.index.kinds.secondary.pairs import SecondaryTarget
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.written import (
    BloomText,
    ExpressionNotes,
    FileStatistics,
    KeyNote,
    joined_expressions,
    note_rows,
)
from lakedex.schema import SchemaHistory
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.build_ranges import StoredRanges
from lakedex.write.context import WriteContext
from lakedex.write.handles.notes import PairTaker
from lakedex.write.handles.outcome import ChangedRows

_TASKS_A_CORE = 4
_NOTES_AT_ONCE = 1_000_000
_LEAST_BLOOM_ENTRIES = 10


@dataclass(frozen=True)
class SurveyWants:
    """What the new indexes need to know."""

    stat_columns: tuple[str, ...] = ()
    blooms: bool = False
    shards: int = 0
    """File groups of the record index, of one partition if it is partitioned; 0 for none."""
    buckets: int = 1
    secondary: tuple[SecondaryTarget, ...] = ()
    """Secondary indexes that are to be built."""
    expressions: tuple[ExpressionTarget, ...] = ()
    """Expression indexes that are to be built."""

    @property
    def is_empty(self) -> bool:
        """Whether no data has to be read."""
        by_file = self.stat_columns or self.blooms or self.expressions
        return not (by_file or self.shards or self.secondary)


@dataclass(frozen=True)
class Survey:
    """What was found in some slices."""

    statistics: FileStatistics = field(default_factory=dict)
    blooms: tuple[BloomText, ...] = ()
    notes: tuple[KeyNote, ...] = ()
    pairs: Mapping[str, tuple[KeyNote, ...]] = field(default_factory=dict)
    """The pairs of secondary indexes, by name."""
    expressions: Mapping[str, ExpressionNotes] = field(default_factory=dict)
    """The ranges or filters of expression indexes, by name."""

    @classmethod
    def joined(cls, parts: Sequence[Survey]) -> Survey:
        """All parts in one."""
        columns = dict.fromkeys(name for part in parts for name in part.statistics)
        return cls(
            {
                name: pa.concat_tables(
                    [part.statistics[name] for part in parts if name in part.statistics]
                )
                for name in columns
            },
            tuple(bloom for part in parts for bloom in part.blooms),
            tuple(note for part in parts for note in part.notes),
            {
                name: tuple(note for part in parts for note in part.pairs.get(name, ()))
                for name in dict.fromkeys(name for part in parts for name in part.pairs)
            },
            joined_expressions([part.expressions for part in parts]),
        )


@dataclass(frozen=True)
class _Task:
    facts: WriteContext
    history: SchemaHistory | None
    wants: SurveyWants
    slices: tuple[FileSlice, ...]


def survey(
    engine: Engine,
    facts: WriteContext,
    history: SchemaHistory | None,
    slices: Sequence[FileSlice],
    wants: SurveyWants,
) -> Survey:
    """Read the slices in workers.

    Args:
        engine: Where the workers run.
        facts: The table; `committed` says which log blocks count.
        history: How columns were renamed and retyped.
        slices: What to look at.
        wants: What to look for.
    """
    if wants.is_empty or not slices:
        return Survey()
    shares = shares_of_slices(slices, engine.parallelism * _TASKS_A_CORE)
    return Survey.joined(survey_shares(engine, facts, history, shares, wants))


def shares_of_slices(slices: Sequence[FileSlice], most: int) -> list[tuple[FileSlice, ...]]:
    """The slices in so many shares at most, large ones in different shares."""
    count = max(1, min(len(slices), most))
    by_size = sorted(slices, key=lambda each: each.size_bytes, reverse=True)
    return [tuple(by_size[at::count]) for at in range(count)]


def survey_shares(
    engine: Engine,
    facts: WriteContext,
    history: SchemaHistory | None,
    shares: Sequence[tuple[FileSlice, ...]],
    wants: SurveyWants,
) -> list[Survey]:
    """What was found in each share of the slices."""
    tasks = [_Task(facts, history, wants, share) for share in shares]
    return engine.map("read the data for new indexes", survey_slices, tasks)


def survey_slices(task: _Task) -> Survey:
    """The worker: looks at the slices of one task."""
    facts, wants = task.facts, task.wants
    context = ReadContext(
        storage=facts.address.open(),
        config=facts.config,
        schema=facts.schema,
        history=task.history,
        is_committed=facts.committed,
    )
    ranges = StoredRanges(context, wants.stat_columns, wants.expressions)
    notes = _KeyNotes(context.storage, facts.scratch, wants)
    # Only what the new indexes need is read of the rows, and that once.
    told = replace(facts, secondary=wants.secondary)
    pairs = PairTaker(told, context.storage)
    columns = list(dict.fromkeys([RECORD_KEY, *told.indexed_columns]))
    blooms = []
    for current in task.slices:
        if wants.stat_columns or wants.expressions:
            ranges.add(current)
        if wants.blooms and current.base is not None:
            blooms.append(_bloom(facts, context, current, current.base))
        if wants.shards or wants.secondary:
            for rows in read_slice(context, current, columns):
                if wants.shards:
                    notes.add(current, context.record_keys(rows))
                if wants.secondary:
                    nothing = rows.slice(0, 0)
                    pairs.add(ChangedRows(nothing, rows, place=current.id))
    for target in wants.secondary:
        if target.is_async:
            pairs.add_pairs(target, coverage_pairs(target, context, task.slices))
    return Survey(
        ranges.tables(), tuple(blooms), notes.finish(), pairs.finish(), ranges.expressions()
    )


def _bloom(
    facts: WriteContext, context: ReadContext, current: FileSlice, base: BaseFile
) -> BloomText:
    """The filter in a base file's footer; where there is none, one is made of its keys."""
    footer = read_footer(context.storage.source(current.path_of(base.name), base.size_bytes))
    if footer.bloom_text is not None:
        text = footer.bloom_text.decode("ascii", "replace")
        return BloomText(current.partition, base.name, footer.bloom_type_code, text)
    alone = FileSlice(current.partition, current.file_id, base.instant_time, base)
    parts = [
        context.record_keys(rows).cast(pa.string())
        for rows in read_slice(context, alone, [RECORD_KEY])
    ]
    keys = pa.chunked_array(parts, pa.string())
    entries = max(facts.bloom_entries or 0, len(keys), _LEAST_BLOOM_ENTRIES)
    bloom = BloomFilter.create_simple(entries, facts.bloom_error_rate)
    bloom.add(keys)
    return BloomText(current.partition, base.name, bloom.type_code, bloom.encode())


class _KeyNotes:
    """Puts keys with their places aside, by bucket."""

    def __init__(self, storage: Storage, scratch: str, wants: SurveyWants) -> None:
        self._wants = wants
        self._writer = SpillWriter(storage, f"{scratch}/build-{uuid.uuid4().hex}")
        self._parts: list[pa.Table] = []
        self._rows = 0
        self._notes: list[KeyNote] = []

    def add(self, place: FileSlice, keys: pa.Array) -> None:
        """Keys that are in a file group."""
        self._parts.append(note_rows(keys, place.partition, place.file_id, is_delete=False))
        self._rows += len(keys)
        if self._rows >= _NOTES_AT_ONCE:
            self._spill()

    def finish(self) -> tuple[KeyNote, ...]:
        """Write what is left, and answer where everything is."""
        self._spill()
        self._writer.finish()
        return tuple(self._notes)

    def _spill(self) -> None:
        if not self._rows:
            return
        notes = pa.concat_tables(self._parts).combine_chunks()
        buckets = shards_of(flat(notes["key"]), self._wants.shards) % self._wants.buckets
        for bucket, segment in self._writer.add_by_number(notes, buckets):
            self._notes.append(KeyNote(bucket, segment))
        self._parts, self._rows = [], 0
