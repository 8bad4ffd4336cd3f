"""Runs a build to its end: takes snapshots, reads them, writes, and switches to the index."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum

import pyarrow as pa

from lakedex.config import keys
from lakedex.config.metadata_options import zone_setting
from lakedex.errors import CommitConflict, FileMissing, StorageError
from lakedex.index.builds import BuildProgress, write_progress
from lakedex.index.metadata_table.creation import (
    BasePlace,
    PartitionPlan,
    write_bases,
    write_one_base,
)
from lakedex.index.metadata_table.group_files import GroupChange
from lakedex.index.metadata_table.instants import MetadataStore
from lakedex.services.indexing.build_snapshot import (
    BuildSnapshot,
    earlier_writers,
    is_current,
    take_build_snapshot,
)
from lakedex.services.indexing.claims import Claim, check_claim, give_up, put_down
from lakedex.services.indexing.reading import Reading
from lakedex.table.own_properties import write_own_properties
from lakedex.timeline import Action, Instant, State, write_instant
from lakedex.timeline.plans import PlanKind, write_plan
from lakedex.txn.index_builds import add_definitions, publish_build, run_path
from lakedex.txn.recovery import recover
from lakedex.txn.rollback import LockedTable
from lakedex.txn.working_folders import spill_folder
from lakedex.write.metadata_build import partition_plans, survey_wants
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.verbs import TableWriter
from lakedex.write.write_schema import StoredSchema, WriteSchema
from lakedex.write.write_target import locked, write_context

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
