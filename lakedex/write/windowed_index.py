"""The windowed record index in a write: planning of lookups, and maintenance at the commit.

At the commit, under the lock, the keys that the write noted become a run of entries, and the state
of the index after the commit is written beside it. Slices of the window that the index does not
cover, because another writer changed them or because the window is new, are read and added. After
a number of runs all are merged into one, without the partitions that have left the window.

Before keys are looked up, `plan_windowed_lookup` divides the file slices between the index and
a search of the files. The window (`DayWindow`) is the newest day of the table's partitions, and a
number of days before it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.config.write_index import Outside, RecordIndexWindow
from lakedex.config.write_option_names import RECORD_INDEX_WINDOW_FORMAT
from lakedex.engine import Engine
from lakedex.errors import InvalidInput
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.filegroup.stored_keys import stored_keys
from lakedex.format.spill import Segment, SpillWriter
from lakedex.index.kinds.windowed.lookup import GROUPS, WindowAccess
from lakedex.index.kinds.windowed.run_writer import (
    NoteSource,
    RunJob,
    note_rows,
    shards_for,
    write_shard,
)
from lakedex.index.kinds.windowed.state import (
    FOLDER,
    STATE_FILE,
    CoveredGroup,
    Run,
    WindowState,
    digest_of,
    open_window,
    remove_unused,
)
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.written import NOTE_SCHEMA, KeyNote
from lakedex.keys.partition_path import DEFAULT_PARTITION, PartitionDays
from lakedex.storage.protocol import Storage
from lakedex.table import Snapshot
from lakedex.timeline import Action, Timeline
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.transaction import CommitScope
from lakedex.write.assign import stored_rows
from lakedex.write.context import WriteContext
from lakedex.write.handles.work import WrittenFile


@dataclass(frozen=True)
class DayWindow:
    """The partitions of a table that a windowed record index is for.

    A partition without a day, as that of null, never leaves the window.
    """

    outside: frozenset[str]

    @classmethod
    def of(
        cls, config: TableConfig, window: RecordIndexWindow, partitions: Iterable[str]
    ) -> DayWindow:
        """The window over all partitions of a table; the newest of them says where it ends."""
        days = partition_days(config, window).of_paths(partitions)
        first = max(days.values(), default=0) - window.days + 1
        return cls(frozenset(path for path, day in days.items() if day < first))

    def holds(self, partition: str) -> bool:
        """Whether a partition lies in the window."""
        return partition not in self.outside


def partition_days(config: TableConfig, window: RecordIndexWindow) -> PartitionDays:
    """How days are read out of the paths of a table."""
    return PartitionDays.of(config, window.date_format, option=RECORD_INDEX_WINDOW_FORMAT.name)


def check_partitions(
    config: TableConfig, window: RecordIndexWindow, partitions: Iterable[str]
) -> None:
    """Refuse rows of which no partition is a day: their window would never move.

    Raises:
        InvalidInput: naming the option, a partition and the pattern.
    """
    days = partition_days(config, window)
    named = [path for path in partitions if DEFAULT_PARTITION not in path]
    if named and not days.of_paths(named):
        raise InvalidInput(
            f"the partition {named[0][:200]!r} is no day in the form {days.pattern.text!r}; "
            f"{RECORD_INDEX_WINDOW_FORMAT.name} says how days are written"
        )


@dataclass(frozen=True)
class WindowedLookup:
    """Where keys are looked for: in the index, and in slices that it does not know."""

    access: WindowAccess | None
    searched: tuple[FileSlice, ...]


def plan_windowed_lookup(
    facts: WriteContext,
    snapshot: Snapshot,
    window: RecordIndexWindow,
    slices: Sequence[FileSlice],
) -> WindowedLookup:
    """Share some slices of a snapshot out between the index and a search of the files.

    What the index does not cover is searched, be it outside of the window or changed by a writer
    that does not know the index: so the places found are always all there are. Only where keys
    outside of the window are to be taken for new ones, slices there are left out.
    """
    if window.outside is Outside.INSERT:
        partitions = {each.partition for each in snapshot.slices}
        days = DayWindow.of(snapshot.config, window, partitions)
        slices = [each for each in slices if days.holds(each.partition)]
    storage = facts.address.open()
    state = open_window(storage, CommittedInstants.of(snapshot.timeline)).state
    covered: dict[FileSliceId, CoveredGroup] = {}
    searched = []
    for each in slices:
        known = None if state is None else state.groups.get(each.id)
        if known is not None and known.digest == digest_of(each.file_names):
            covered[each.id] = known
        else:
            searched.append(each)
    access = None
    if state is not None and covered and state.runs:
        access = WindowAccess(state.runs, spill_groups(storage, facts.scratch, covered))
    return WindowedLookup(access, tuple(searched))


def spill_groups(
    storage: Storage, scratch: str, groups: Mapping[FileSliceId, CoveredGroup]
) -> Segment:
    """Put covered groups where workers find them."""
    columns: list[Iterable[object]] = [
        [group.number for group in groups.values()],
        [group.based for group in groups.values()],
        [place.partition for place in groups],
        [place.file_id for place in groups],
    ]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, GROUPS, strict=True)]
    writer = SpillWriter(storage, f"{scratch}/covered-{uuid.uuid4().hex}")
    segment = writer.add(pa.table(arrays, schema=GROUPS))
    writer.finish()
    return segment


_WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)


@dataclass(frozen=True)
class WindowPlan:
    """The window of a table, and when its index is compacted."""

    window: RecordIndexWindow
    most_runs: int


@dataclass(frozen=True)
class WindowChange:
    """What a write did."""

    files: Sequence[WrittenFile]
    replaced: frozenset[FileSliceId]
    notes: tuple[KeyNote, ...]


@dataclass
class _Cover:
    """What is covered after the commit, as it is found out."""

    groups: dict[FileSliceId, CoveredGroup] = field(default_factory=dict)
    unknown: list[FileSlice] = field(default_factory=list)
    """Slices before the commit whose keys must be read."""
    next_number: int = 1


def commit_window(
    engine: Engine,
    facts: WriteContext,
    scope: CommitScope,
    plan: WindowPlan,
    change: WindowChange,
) -> None:
    """Bring the index to what the table will be when the running commit completes."""
    committed = CommittedInstants.of(scope.timeline)
    stored = open_window(scope.storage, committed)
    if not _others_write(scope.timeline, facts.instant):
        remove_unused(scope.storage, stored)
    old = stored.state or WindowState(0, "", 1)
    new = WindowState(old.sequence + 1, facts.instant, old.next_number, old.runs)
    is_due = len(old.runs) >= plan.most_runs
    cover = _covered(scope, plan, change, old, new.sequence, drop_outside=is_due)
    new = replace(new, next_number=cover.next_number, groups=cover.groups)
    job = _job(engine, replace(facts, committed=committed), scope, change, cover, old, is_due)
    files = engine.map("write the index", partial(write_shard, job), list(range(job.shards)))
    runs = () if is_due else old.runs
    if any(files):
        runs = (*runs, Run(new.sequence, tuple(files)))
    new = replace(new, runs=runs)
    scope.storage.replace(f"{FOLDER}/{new.folder}/{STATE_FILE}", new.encode())


def _job(
    engine: Engine,
    facts: WriteContext,
    scope: CommitScope,
    change: WindowChange,
    cover: _Cover,
    old: WindowState,
    is_due: bool,  # noqa: FBT001 (a fact, not a mode)
) -> RunJob:
    noted = NoteSource(change.notes, facts.note_shards, facts.note_buckets)
    entries = note_rows([noted])
    entries += sum(run.entries for run in old.runs) if is_due else 0
    entries += stored_rows(scope.snapshot) if cover.unknown else 0
    shards = shards_for(entries)
    read = NoteSource(note_slices(engine, facts, cover.unknown, shards), shards, shards)
    sequence = old.sequence + 1
    return RunJob(
        address=facts.address,
        folder=WindowState(sequence, facts.instant, 1).folder,
        sequence=sequence,
        shards=shards,
        groups=spill_groups(scope.storage, facts.scratch, cover.groups),
        older=old.runs if is_due else (),
        sources=(read, noted),
        forget_from=0 if is_due else old.next_number,
    )


def _covered(
    scope: CommitScope,
    plan: WindowPlan,
    change: WindowChange,
    old: WindowState,
    sequence: int,
    *,
    drop_outside: bool,
) -> _Cover:
    """Which groups are covered after the commit, with numbers for those that are new to it."""
    before = {each.id: each for each in scope.snapshot.slices if each.id not in change.replaced}
    written: dict[FileSliceId, list[WrittenFile]] = {}
    for file in change.files:
        written.setdefault(FileSliceId(file.partition, file.file_id), []).append(file)
    places = before.keys() | written.keys()
    days = DayWindow.of(scope.snapshot.config, plan.window, {place.partition for place in places})
    cover = _Cover(next_number=old.next_number)
    for place in sorted(places):
        current, files = before.get(place), written.get(place, [])
        known = _known(old.groups, current)
        if not days.holds(place.partition) and (known is None or drop_outside):
            continue
        if known is None:
            known = CoveredGroup(cover.next_number, 0, "")
            cover.next_number += 1
            if current is not None:
                cover.unknown.append(current)
        is_based = any(not file.is_log for file in files)
        names = {file.name for file in files}
        if current is not None and not is_based:
            names.update(current.file_names)
        based = sequence if is_based else known.based
        cover.groups[place] = CoveredGroup(known.number, based, digest_of(names))
    return cover


def _known(
    groups: Mapping[FileSliceId, CoveredGroup], current: FileSlice | None
) -> CoveredGroup | None:
    """The group as the index knows it, if it has not changed since."""
    if current is None:
        return None
    known = groups.get(current.id)
    return known if known is not None and known.digest == digest_of(current.file_names) else None


def _others_write(timeline: Timeline, instant: str) -> bool:
    """Whether another write goes on, which may read files of an older state."""
    return any(each.requested_time != instant for each in timeline.pending_of(*_WRITES))


_TASKS_A_CORE = 4


@dataclass(frozen=True)
class _Task:
    facts: WriteContext
    shards: int
    slices: tuple[FileSlice, ...]


def note_slices(
    engine: Engine, facts: WriteContext, slices: Sequence[FileSlice], shards: int
) -> tuple[KeyNote, ...]:
    """Notes of all keys of the slices, by shard; keys that logs deleted are noted as deletes."""
    count = max(1, min(len(slices), engine.parallelism * _TASKS_A_CORE))
    by_size = sorted(slices, key=lambda each: each.size_bytes, reverse=True)
    tasks = [_Task(facts, shards, tuple(by_size[at::count])) for at in range(count)]
    answers = engine.map("read keys for the index", _note_keys, [t for t in tasks if t.slices])
    return tuple(note for answer in answers for note in answer)


def _note_keys(task: _Task) -> list[KeyNote]:
    context = task.facts.read_context()
    writer = SpillWriter(context.storage, f"{task.facts.scratch}/window-{uuid.uuid4().hex}")
    notes: list[KeyNote] = []
    for current in task.slices:
        stored = stored_keys(context, current)
        keys = stored.keys.cast(pa.string())
        shards = shards_of(keys, task.shards)
        for shard in np.unique(shards).tolist():
            chosen = np.flatnonzero(shards == shard)
            columns = [
                keys.take(pa.array(chosen)),
                pa.repeat(pa.scalar(current.partition, pa.string()), len(chosen)),
                pa.repeat(pa.scalar(current.file_id, pa.string()), len(chosen)),
                pa.array(~stored.live[chosen]),
            ]
            table = pa.Table.from_arrays(columns, schema=NOTE_SCHEMA)
            notes.append(KeyNote(shard, writer.add(table)))
    writer.finish()
    return notes
