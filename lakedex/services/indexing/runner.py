"""Runs a build to its end: takes snapshots, reads them, writes, and switches to the index.

The results of reading are kept by file slices (`Reading`), so that another snapshot reads only the
slices whose files changed. Slices are read in shares; a share with a changed slice is read again as
a whole. `BackgroundBuild` is a build in a thread of this process.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from lakedex.config import keys
from lakedex.config.metadata_options import zone_setting
from lakedex.engine import Engine
from lakedex.errors import CommitConflict, FileMissing, InvalidInput, StorageError
from lakedex.filegroup import FileSlice
from lakedex.filegroup.names import base_file_name
from lakedex.index.builds import BuildProgress, IndexBuild, has_kept, read_progress, write_progress
from lakedex.index.metadata_table.creation import (
    BasePlace,
    PartitionPlan,
    write_bases,
    write_one_base,
)
from lakedex.index.metadata_table.group_files import EXTENSION, TOKEN, GroupChange, GroupFile
from lakedex.index.metadata_table.instants import MetadataStore, base_stat
from lakedex.services.indexing.claims import Claim, check_claim, give_up, put_down
from lakedex.table import Snapshot
from lakedex.table.own_properties import write_own_properties
from lakedex.timeline import Action, Instant, State, Timeline, WriteStat, write_instant
from lakedex.timeline.plans import PlanKind, write_plan
from lakedex.txn.conflicts import commits_since, restore_conflict
from lakedex.txn.index_builds import add_definitions, name_run, publish_build, run_path
from lakedex.txn.recovery import is_being_run, recover
from lakedex.txn.rollback import LockedTable
from lakedex.txn.working_folders import spill_folder
from lakedex.write.build_survey import Survey, SurveyWants, shares_of_slices, survey_shares
from lakedex.write.context import WriteContext
from lakedex.write.metadata_build import partition_plans, survey_wants
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.verbs import TableWriter
from lakedex.write.write_schema import StoredSchema, WriteSchema
from lakedex.write.write_target import locked, write_context

_OPERATION = "UPSERT_PREPPED"
_WRITES = (
    Action.COMMIT,
    Action.DELTACOMMIT,
    Action.REPLACECOMMIT,
    Action.CLUSTERING,
    Action.COMPACTION,
)


@dataclass(frozen=True)
class BuildSnapshot:
    """A snapshot, and the instant of the metadata table that its base files have.

    Every commit of the snapshot completed before that instant, and every later one after it. So
    the base files take the place of all that commits wrote to the index before the view.
    """

    number: int
    snapshot: Snapshot
    base: str


def take_build_snapshot(table: LockedTable, claim: Claim, number: int) -> BuildSnapshot:
    """BuildSnapshot at the table, with its lock held."""
    snapshot = Snapshot(table.storage, table.config, table.timeline())
    base = table.next_time()
    # The run tells of the instant, should this be cut short.
    name_run(table.storage, claim.build, claim.run, base)
    store = MetadataStore.at(table.storage)
    store.begin(base, Action.DELTACOMMIT)
    done = Instant(base, Action.DELTACOMMIT, State.COMPLETED, table.next_time())
    # It is complete before its files are there: other engines roll back what pends.
    store.complete(done, _planned(store, claim.build, base), _OPERATION)
    return BuildSnapshot(number, snapshot, base)


def _planned(store: MetadataStore, build: IndexBuild, base: str) -> list[WriteStat]:
    """The base files that will be there, whose sizes are not known yet."""
    return [
        base_stat(GroupFile(name, file_id, base_file_name(file_id, TOKEN, base, EXTENSION), 0, 0))
        for name in build.names
        for file_id in store.group_ids(name)
    ]


def earlier_writers(table: LockedTable, build: IndexBuild) -> list[str]:
    """The writes that began before a build and may still complete: they do not know of it."""
    return [
        each.requested_time
        for each in table.timeline().pending_of(*_WRITES)
        if each.requested_time < build.begun and is_being_run(table, each)
    ]


def is_current(table: LockedTable, build: IndexBuild, view: BuildSnapshot) -> bool:
    """Whether everything since a view was written to the index too, and nothing was taken back."""
    before, now = view.snapshot.timeline, table.timeline()
    if _is_taken_back(before, now):
        return False
    if not all(has_kept(metadata.extra, build) for _, metadata in commits_since(before, now)):
        return False
    snapshot = Snapshot(table.storage, table.config, now)
    is_same = StoredSchema.of(snapshot).columns == StoredSchema.of(view.snapshot).columns
    if not is_same or snapshot.history != view.snapshot.history:
        return False
    return all(_is_based_on(table, now, name, view) for name in build.names)


def _is_taken_back(before: Timeline, now: Timeline) -> bool:
    if restore_conflict(before, now) is not None:
        return True
    known = {each.requested_time for each in now.write_instants()}
    gone = (i.requested_time for i in before.write_instants() if i.requested_time not in known)
    return not all(now.has_completed(time) for time in gone)


def _is_based_on(table: LockedTable, now: Timeline, name: str, view: BuildSnapshot) -> bool:
    """Whether every file group begins with a base file of the view: others may have compacted."""
    store = MetadataStore.at(table.storage)
    groups = store.slices(name, now)
    based = [each for each in groups if each.base is not None and each.base_instant == view.base]
    return bool(groups) and len(based) == len(groups)


_SHARES_A_CORE = 16
Tell = Callable[[int, int], None]


class Reading:
    """The survey of a table for one build, brought up to date look after look."""

    def __init__(self, engine: Engine) -> None:
        """Nothing is read yet."""
        self._engine = engine
        self._shares: list[tuple[tuple[FileSlice, ...], Survey]] = []
        self._read_as: object = None

    def survey(
        self, facts: WriteContext, snapshot: Snapshot, wants: SurveyWants, tell: Tell
    ) -> Survey:
        """What the data of a snapshot holds for the new indexes.

        Args:
            facts: The table as of the snapshot.
            snapshot: The snapshot.
            wants: What to look for.
            tell: Called with the number of slices that are read and with that of all, time and
                again; what it raises ends the reading.
        """
        read_as = (facts.schema, snapshot.history, wants)
        if read_as != self._read_as:
            self._shares, self._read_as = [], read_as
        current = {*snapshot.slices}
        self._shares = [each for each in self._shares if current.issuperset(each[0])]
        done = {part for share, _ in self._shares for part in share}
        todo = [part for part in snapshot.slices if part not in done]
        cores = self._engine.parallelism
        shares = shares_of_slices(todo, cores * _SHARES_A_CORE) if todo else []
        read = len(done)
        tell(read, len(current))
        for at in range(0, len(shares), cores):
            some = shares[at : at + cores]
            found = survey_shares(self._engine, facts, snapshot.history, some, wants)
            self._shares += zip(some, found, strict=True)
            read += sum(map(len, some))
            tell(read, len(current))
        return Survey.joined(wants, [found for _, found in self._shares])


_MOST_SNAPSHOTS = 5
"""After so many the writers wait for the builder, once."""
_PAUSE_S = 0.2
_PATIENCE_S = 900.0


class Stopped(Exception):
    """The build was told to stop; it can be taken up again."""


class _Next(Enum):
    """What a builder does after it held the lock."""

    DONE = "done"
    SNAPSHOT_AGAIN = "another snapshot"
    WAIT = "wait for writers that began before the build"


def run_build(
    writer: TableWriter,
    claim: Claim,
    stop: threading.Event,
    on_step: Callable[[str], None] | None = None,
) -> None:
    """Build what a claim is about, until the table's readers may use it.

    Args:
        writer: The table.
        claim: The build, started or taken up by this process.
        stop: Ends the run early, in a state that `take_up_build` goes on from.
        on_step: Called before each step, with its name: `read`, `write`, `switch`.

    Raises:
        Stopped: it was told to.
        CommitConflict: the index was dropped meanwhile, or other writers did not end; the build is
            left to be taken up, if it is still there.
    """
    try:
        _Runner(writer, claim, stop, on_step or (lambda _: None)).run()
    except (Stopped, CommitConflict, KeyboardInterrupt):
        put_down(claim)
        raise
    except Exception:
        give_up(claim)
        raise
    claim.heartbeat.stop()


class _Runner:
    def __init__(
        self,
        writer: TableWriter,
        claim: Claim,
        stop: threading.Event,
        on_step: Callable[[str], None],
    ) -> None:
        self._claim = claim
        self._build = claim.build
        self._writer = writer.with_options(claim.build.options)
        self._target = claim.target
        self._storage = self._target.address.open()
        self._stop = stop
        self._on_step = on_step
        self._reading = Reading(self._target.engine)
        self._read = (0, 0)

    def run(self) -> None:
        with locked(self._target) as table:
            check_claim(table, self._claim)
            view = take_build_snapshot(table, self._claim, 1)
        deadline = time.monotonic() + _PATIENCE_S
        is_there = self._make(view)
        while True:
            with locked(self._target) as table:
                recover(table)
                check_claim(table, self._claim)
                found = self._switch(table, view, is_there=is_there)
                if found is _Next.SNAPSHOT_AGAIN:
                    view = take_build_snapshot(table, self._claim, view.number + 1)
                    if view.number > _MOST_SNAPSHOTS:
                        # No writer commits now, so that this view is the last one.
                        self._make_bases(view)
                        found = self._switch(table, view, is_there=True)
            if found is _Next.DONE:
                return
            if found is _Next.WAIT:
                self._wait(view, deadline)
            elif view.number > _MOST_SNAPSHOTS:
                names = ", ".join(self._build.names)
                raise CommitConflict(f"others go on changing the index {names} without the lock")
            else:
                is_there = self._make(view)

    def _make(self, view: BuildSnapshot) -> bool:
        """Read the data of a view, and write its base files; False when a file went meanwhile."""
        is_there = True
        try:
            self._make_bases(view)
        except FileMissing:
            is_there = False  # a clean was faster; the next view has other files
        except StorageError:
            with locked(self._target) as table:
                check_claim(table, self._claim)  # tells better what happened
            raise
        self._on_step("switch")
        self._say("switching", view)
        return is_there

    def _make_bases(self, view: BuildSnapshot) -> None:
        snapshot = view.snapshot
        stored = StoredSchema.of(snapshot)
        schema = WriteSchema.of(stored.columns, stored)
        known = plan_metadata(snapshot, self._target.options.metadata, schema.columns, rows=0)
        plan = known.for_build(self._build)
        instant = self._build.instant
        facts = write_context(
            self._target,
            snapshot,
            schema,
            plan,
            instant=instant,
            scratch=spill_folder(instant),
            rows=0,
        )

        def tell(read: int, total: int) -> None:
            self._read = read, total
            self._say("reading", view)

        self._on_step("read")
        wants = survey_wants(plan, plan.missing)
        found = self._reading.survey(facts, snapshot, wants, tell)
        self._on_step("write")
        self._say("writing", view)
        plans = partition_plans(snapshot, plan, plan.missing, found)
        for name, wanted in plans.items():
            self._write(view, name, wanted)

    def _write(self, view: BuildSnapshot, name: str, plan: PartitionPlan) -> None:
        path = run_path(self._build, self._claim.run)
        place = BasePlace(self._target.address, name, view.base, path, is_late=True)
        made = write_bases(self._target.engine, view.snapshot.config, place, plan)
        inner = self._storage.sub(keys.METADATA_TABLE_FOLDER)
        # A group without a base file would go on with what was written to it before the view.
        ids = {*MetadataStore.at(self._storage).group_ids(name)}
        ids.update(*plan.groups(name).values())
        nothing, no_values = pa.array([], pa.string()), pa.array([], pa.large_binary())
        for file_id in sorted(ids.difference(each.file_id for each in made)):
            write_one_base(inner, place, GroupChange(file_id, nothing, no_values, nothing))

    def _switch(self, table: LockedTable, view: BuildSnapshot, *, is_there: bool) -> _Next:
        """Let the index count, if nothing stands against it."""
        if earlier_writers(table, self._build):
            return _Next.WAIT
        if not is_there or not is_current(table, self._build, view):
            return _Next.SNAPSHOT_AGAIN
        target = self._writer.target()
        zones = {zone_setting(n): zone for n, zone in self._build.expression_zones.items()}
        kept = {**target.kept, **target.options.kept(), **zones}
        if zones:
            # Whoever finds an expression index must find the time zone that it is computed in.
            write_own_properties(table.storage, {**target.kept, **zones})
        newest = view.snapshot.timeline.last_completed
        infos = self._build.infos(None if newest is None else newest.requested_time)
        body = write_plan(PlanKind.INDEX_COMMIT_METADATA, {"indexPartitionInfos": infos})
        add_definitions(table, self._build)
        done = Instant(self._build.instant, Action.INDEXING, State.COMPLETED, table.next_time())
        write_instant(table.storage, table.config, done, body)
        publish_build(table, self._build)
        write_own_properties(table.storage, kept)
        return _Next.DONE

    def _wait(self, view: BuildSnapshot, deadline: float) -> None:
        if time.monotonic() > deadline:
            names = ", ".join(self._build.names)
            raise CommitConflict(
                f"writers that began before the build of {names} do not end; take the build up "
                "again later"
            )
        self._say("waiting", view)
        self._stop.wait(_PAUSE_S)

    def _say(self, step: str, view: BuildSnapshot) -> None:
        if self._stop.is_set():
            raise Stopped
        progress = BuildProgress(step, *self._read, view.number)
        write_progress(self._storage, self._build.instant, progress)


class BackgroundBuild:
    """An index in the making; readers use it from the moment that `wait` returns.

    When the process ends before, another one goes on by `lakedex index build`, or the next write
    clears away what is there.
    """

    def __init__(self, writer: TableWriter, claim: Claim) -> None:
        """Start at once."""
        self._writer = writer
        self._claim = claim
        self._stop = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="lakedex-index-build", daemon=True)
        # What the end of the process would cut short can then be taken up.
        atexit.register(self.stop)
        self._thread.start()

    @property
    def indexes(self) -> tuple[str, ...]:
        """The indexes that are built, by their metadata partitions."""
        return self._claim.build.names

    @property
    def instant(self) -> str:
        """The `indexing` instant on the timeline."""
        return self._claim.build.instant

    @property
    def is_done(self) -> bool:
        """Whether the build ended, well or not; `wait` tells which."""
        return not self._thread.is_alive()

    def progress(self) -> BuildProgress | None:
        """How far it is; None before it began and after it ended."""
        return read_progress(self._writer.address.open(), self.instant)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; False when so many seconds were not enough.

        Raises:
            LakedexError: why the index was not built.
            InvalidInput: the build was stopped.
        """
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if isinstance(self._problem, Stopped):
            names = ", ".join(self.indexes)
            raise InvalidInput(f"the build of {names} was stopped; take it up to finish it")
        if self._problem is not None:
            raise self._problem
        return True

    def stop(self) -> None:
        """End the build early; any process can take it up again, with `lakedex index build`."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            run_build(self._writer, self._claim, self._stop)
        except BaseException as problem:  # noqa: BLE001 - it is told by `wait`
            self._problem = problem
        finally:
            atexit.unregister(self.stop)


def build_in_background(writer: TableWriter, claim: Claim) -> BackgroundBuild:
    """Build what was started or taken up, in a thread."""
    return BackgroundBuild(writer, claim)
