"""Secondary indexes as writers keep them up to date: the pairs that came and those that went."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from lakedex.errors import IndexUnusable
from lakedex.filegroup import FileSlice, FileSliceId, ReadContext
from lakedex.format.spill import SpillWriter
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.secondary.coverage import coverage_pairs
from lakedex.index.kinds.secondary.records import SecondaryTarget, pair_changes, pair_rows
from lakedex.index.maintenance import (
    ChangedRows,
    Collector,
    CollectTask,
    MaintainedIndex,
    MaintainRequest,
)
from lakedex.index.metadata_table.hashing import shard_numbers
from lakedex.index.written import KeyNote, PairNotes

_ROWS_AT_ONCE = 1_000_000
_MOST_BUCKETS = 8
_MOST_BUILD_BUCKETS = 256
"""A build has all pairs of a bucket in memory, so that each gets few shards."""


@dataclass(frozen=True)
class MaintainedSecondary(MaintainedIndex):
    """A secondary index that writers keep up to date."""

    target: SecondaryTarget

    @property
    def name(self) -> str:
        """The full name of the index."""
        return self.target.name

    @property
    def row_columns(self) -> tuple[str, ...]:
        """Its columns."""
        return self.target.columns

    @property
    def names_places(self) -> bool:
        """Whether entries name the file group of their rows."""
        return self.target.covers

    @property
    def reads_slices(self) -> bool:
        """Whether the index says which file slices it covers."""
        return self.target.is_async

    def is_defined_by(self, definition: IndexDefinition | None) -> bool:
        """Whether it is the index of a definition."""
        return definition is not None and definition.source_fields == self.target.columns

    def for_build(self) -> Self:
        """The same with as many buckets as a build needs."""
        buckets = min(self.target.shards, _MOST_BUILD_BUCKETS)
        return replace(self, target=replace(self.target, buckets=buckets))

    def collector(self, task: CollectTask) -> PairCollector:
        """The collector of one task."""
        return PairCollector(self.target, task)

    def joined(self, parts: Sequence[Sequence[KeyNote]]) -> PairNotes:
        """The pairs of all tasks."""
        return PairNotes(self.target.buckets, tuple(note for part in parts for note in part))


def maintained(name: str, request: MaintainRequest) -> MaintainedIndex:
    """A secondary index as writers keep it up to date.

    Raises:
        IndexUnusable: it cannot be kept up to date.
    """
    definition = request.definition
    if definition is None or not definition.names_columns:
        raise IndexUnusable(
            f"the index {name} of table {request.table} has no definition that names its "
            "column, so that it cannot be kept up to date; drop it first"
        )
    if definition.is_composite and not request.file_groups:
        raise IndexUnusable(
            f"the index {name} of table {request.table} is gone: another engine took the "
            "metadata table away and made a new one; REFRESH INDEX or DROP INDEX first"
        )
    shards = max(1, request.file_groups)
    return MaintainedSecondary(SecondaryTarget.of(definition, shards, _MOST_BUCKETS))


class PairCollector(Collector):
    """The pairs of one task, which are spilled by bucket whenever they are many."""

    def __init__(self, target: SecondaryTarget, task: CollectTask) -> None:
        """Start without pairs."""
        self._target = target
        self._writer = SpillWriter(
            task.storage, f"{task.scratch}/pairs-{uuid.uuid4().hex}", holds_small=True
        )
        self._changed: list[ChangedRows] = []
        self._rows = 0
        self._slices: list[FileSlice] = []
        self._context: ReadContext | None = None
        self._notes: list[KeyNote] = []

    def add_rows(self, changed: ChangedRows) -> None:
        """Add rows as they were and as they are, with record key and indexed columns."""
        self._changed.append(changed)
        self._rows += changed.before.num_rows + changed.after.num_rows
        if self._rows >= _ROWS_AT_ONCE:
            self._spill_changed()

    def keep(self, rows: pa.Table, place: FileSliceId) -> None:
        """Add rows of a group that stay while other groups may lose their pairs."""
        self._spill(pair_rows(self._target, rows, is_delete=False, place=place))

    def add_slice(self, context: ReadContext, file_slice: FileSlice) -> None:
        """Add the entry that says that a file slice is covered."""
        self._context = context
        self._slices.append(file_slice)

    def finish(self) -> object:
        """Where the pairs are."""
        self._spill_changed()
        if self._context is not None:
            self._spill(coverage_pairs(self._target, self._context, self._slices))
        self._writer.finish()
        return tuple(self._notes) or None

    def _spill_changed(self) -> None:
        parts, self._changed, self._rows = self._changed, [], 0
        if not parts:
            return
        # Entries that name a file group are made group by group: a row that moved is new.
        groups = parts if self._target.covers else [_joined(parts)]
        self._spill(pa.concat_tables([_changes(self._target, each) for each in groups]))

    def _spill(self, changes: pa.Table) -> None:
        if not changes.num_rows:
            return
        pairs = changes.combine_chunks()
        hashes = pairs["hash"].combine_chunks().to_numpy()
        buckets = shard_numbers(hashes, self._target.shards) % self._target.buckets
        spilled = self._writer.add_by_number(pairs, buckets)
        self._notes += [KeyNote(bucket, segment) for bucket, segment in spilled]


def _joined(parts: Sequence[ChangedRows]) -> ChangedRows:
    """All rows at once, so that a pair which one group lost to another stays."""
    before, after = (
        pa.concat_tables([getattr(part, when) for part in parts]) for when in ("before", "after")
    )
    others = [part.others for part in parts if part.others is not None]
    return ChangedRows(before, after, pa.concat_tables(others) if others else None)


def _changes(target: SecondaryTarget, changed: ChangedRows) -> pa.Table:
    return pair_changes(target, changed.before, changed.after, changed.others, changed.place)
