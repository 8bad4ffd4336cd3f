"""Who may build: a build is started, taken up, put down or given up, always under the lock."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakedex.config import keys
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.index.builds import BuildPartition, IndexBuild, active_builds, pending_builds
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table.creation import PartitionPlan, create_metadata_table
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant, State, update_properties, write_instant
from lakedex.txn.begin import take_instant
from lakedex.txn.heartbeat import Heartbeat, SignsOfLife
from lakedex.txn.index_builds import discard_build, end_runs, is_run, name_run
from lakedex.txn.recovery import recover
from lakedex.txn.rollback import LockedTable, forget
from lakedex.write.metadata_build import index_definitions
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.verbs import TableWriter
from lakedex.write.write_schema import StoredSchema, check_writable
from lakedex.write.write_target import Target, locked

_OPERATION = "INDEX"


@dataclass(frozen=True)
class Claim:
    """A build that this process is at work on."""

    build: IndexBuild
    run: str
    heartbeat: Heartbeat
    target: Target
    """The table, with the options that the index was asked with."""


def start_build(
    writer: TableWriter,
    options: Mapping[str, str],
    new_indexes: Sequence[IndexDefinition] = (),
) -> Claim:
    """Put a build of the indexes that some options ask for on the timeline.

    From then on writers keep it up to date, and readers do not look at it.

    Args:
        writer: The table.
        options: The write options that ask for the indexes; the table keeps them.
        new_indexes: Secondary indexes to build.

    Raises:
        InvalidInput: the table has no metadata table yet, or the index is there already.
    """
    target = writer.with_options(options).target()
    with locked(target) as table:
        recover(table)
        snapshot = Snapshot.open(table.storage)
        check_writable(snapshot)
        parts = partitions_to_build(target, snapshot, new_indexes)
        _make_way(table, parts)
        newest = snapshot.timeline.last_completed
        planned = IndexBuild("", parts, dict(options))
        body = planned.encode(None if newest is None else newest.requested_time)
        instant, heartbeat = take_instant(table, Action.INDEXING, _OPERATION, body)
        build = IndexBuild(instant.requested_time, parts, planned.options)
        claim = Claim(build, uuid.uuid4().hex, heartbeat, target)
        try:
            open_build(table, snapshot, claim)
        except Exception:
            heartbeat.stop()
            discard_build(table, build)
            raise
    return claim


def take_up_build(writer: TableWriter, name: str) -> Claim:
    """Go on with a build that was put down, or whose process died.

    Raises:
        InvalidInput: no such index is in the making.
        CommitConflict: another process is at work on it.
    """
    target = writer.target()
    with locked(target) as table:
        found = [
            each for each in active_builds(table.timeline(), table.config) if name in each.names
        ]
        if not found:
            recover(table)
            raise InvalidInput(f"the index {name} of {table.config.name} is not in the making")
        build = found[0]
        if SignsOfLife.load(table.storage, table.heartbeat).is_alive(build.instant):
            raise CommitConflict(f"another process builds the index {name}; wait for it")
        heartbeat = Heartbeat(table.storage, build.instant, table.heartbeat)
        heartbeat.start()
        try:
            recover(table)
            end_runs(table.storage, build)
            asked = writer.with_options(build.options).target()
            claim = Claim(build, uuid.uuid4().hex, heartbeat, asked)
            name_run(table.storage, build, claim.run)
        except BaseException:
            heartbeat.stop()
            raise
    return claim


def check_claim(table: LockedTable, claim: Claim) -> None:
    """See to it that a build is still there, and this run's.

    Raises:
        CommitConflict: it was dropped, or another process took it up.
    """
    builds = active_builds(table.timeline(), table.config)
    if claim.build in builds and is_run(table.storage, claim.build, claim.run):
        return
    names = ", ".join(claim.build.names)
    raise CommitConflict(
        f"the build of {names} in table {table.config.name} was dropped, or another process has it"
    )


def put_down(claim: Claim) -> None:
    """Leave a build to whoever takes it up; one that others have dropped is cleared away."""
    claim.heartbeat.stop()
    with locked(claim.target) as table:
        if claim.build in active_builds(table.timeline(), table.config):
            if is_run(table.storage, claim.build, claim.run):
                end_runs(table.storage, claim.build)
                forget(table.storage, claim.build.instant)
        elif table.timeline().is_pending(claim.build.instant):
            discard_build(table, claim.build)
        else:
            # What this run said of itself after the build was dropped.
            forget(table.storage, claim.build.instant)


def give_up(claim: Claim) -> None:
    """Take a build back, unless another process has it."""
    claim.heartbeat.stop()
    with locked(claim.target) as table:
        is_ours = is_run(table.storage, claim.build, claim.run)
        if is_ours and table.timeline().is_pending(claim.build.instant):
            discard_build(table, claim.build)


def partitions_to_build(
    target: Target, snapshot: Snapshot, new_indexes: Sequence[IndexDefinition]
) -> tuple[BuildPartition, ...]:
    """What the options of a target ask for beyond what the table has.

    Raises:
        InvalidInput: the table has no metadata table yet, or all that is asked for.
    """
    config = snapshot.config
    if not config.metadata_enabled:
        raise InvalidInput(
            f"table {config.name} has no metadata table yet: write to it once, or build the index "
            "with wait=True"
        )
    columns = StoredSchema.of(snapshot).columns
    plan = plan_metadata(
        snapshot, target.options.metadata, columns, rows=0, new_indexes=new_indexes
    )
    asked = {*plan.missing, *(each.name for each in new_indexes)}
    there = asked.intersection((*config.metadata_partitions, *config.metadata_partitions_inflight))
    if there or not asked:
        names = f" ({', '.join(sorted(there))})" if there else ""
        raise InvalidInput(f"table {config.name} has all that is asked for already{names}")
    known = index_definitions(snapshot, plan, plan.missing)
    return tuple(
        BuildPartition(name, groups, known.get(name)) for name, groups in plan.missing.items()
    )


def _make_way(table: LockedTable, parts: Sequence[BuildPartition]) -> None:
    """Clear away what a drop was about to, whether its builder has noticed or not."""
    wanted = {each.name for each in parts}
    for build in pending_builds(table.timeline()):
        if not wanted.isdisjoint(build.names):
            discard_build(table, build)


def open_build(table: LockedTable, snapshot: Snapshot, claim: Claim) -> None:
    """Make the file groups before the properties name them: writers look for them at once."""
    build, config = claim.build, snapshot.config
    create_metadata_table(
        claim.target.address,
        claim.target.engine,
        config,
        {part.name: PartitionPlan(part.file_groups) for part in build.partitions},
        next_time=table.next_time,
    )
    name_run(table.storage, build, claim.run)
    write_instant(
        table.storage, table.config, Instant(build.instant, Action.INDEXING, State.INFLIGHT), b""
    )
    inflight = sorted({*config.metadata_partitions_inflight, *build.names})
    update_properties(table.storage, {keys.METADATA_PARTITIONS_INFLIGHT: ",".join(inflight)})
