"""Runs a compaction that is on the timeline: the slices of its plan as base files, in one commit.

    take up -> merge -> commit

Readers see the old base files with their logs until the commit, and after it the new ones with the
logs that completed since the plan was made. The rows are the same, and so are the file groups, so
no key changes its place. A run that fails leaves the plan as it was.

A plan names files. The slice of a group is determined again as it was just before the plan's
instant: a log file that completed before and that the plan left out would be hidden by the new
base file (case B59).
"""

from __future__ import annotations

import logging
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence

from lakedex.errors import CommitConflict, FileMissing, InvalidInput
from lakedex.filegroup import BaseFile, FileSlice, FileSliceId, Visibility, latest_slices
from lakedex.filegroup.names import parse_data_file
from lakedex.services.compaction.scheduling import (
    pending_compactions,
    require_merge_on_read,
    schedule_compaction,
)
from lakedex.services.compaction.worker import compact_slices
from lakedex.services.rewrite_commit import commit_rewrite
from lakedex.table import Snapshot
from lakedex.timeline import Action, CompactionOperation, CompactionPlan, instant_key
from lakedex.txn.begin import locked_table
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import is_being_run
from lakedex.txn.transaction import Transaction
from lakedex.txn.working_folders import Scratch
from lakedex.write.assign import Group, share_out
from lakedex.write.commit import Outcome
from lakedex.write.handles.work import TaskResult, WriteTask
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.operation import COMPACT
from lakedex.write.result import StepClock, WriteResult
from lakedex.write.verbs import TableWriter
from lakedex.write.write_schema import StoredSchema, WriteSchema
from lakedex.write.write_target import Target, write_context

log = logging.getLogger("lakedex")
_LEAST_ATTEMPTS = 3
_RUNS = 1 << 30


def compact_table(writer: TableWriter) -> WriteResult:
    """Run the compactions that pend, then plan and run one for what is left.

    Plans that another process is running are left to it.

    Raises:
        InvalidInput: the table has no log files, as it is copy-on-write.
        CommitConflict: other writers were first all the time; the plan stays on the timeline.
    """
    require_merge_on_read(Snapshot.open(writer.target(keeps_file_groups=True).address.open()))
    results = run_pending_compactions(writer)
    instant = schedule_compaction(writer)
    if instant is not None:
        results += _run_unless_others_do(writer, [instant])
    return _sum(results)


def run_pending_compactions(writer: TableWriter) -> list[WriteResult]:
    """Run every compaction that pends; those that another process runs are left to it."""
    return _run_unless_others_do(writer, _unattended(writer.target(keeps_file_groups=True)))


def _run_unless_others_do(writer: TableWriter, instants: Sequence[str]) -> list[WriteResult]:
    """Run compactions that pend; one that another process takes first is left to it."""
    results = []
    for instant in instants:
        try:
            results.append(run_compaction(writer, instant))
        except (CommitConflict, InvalidInput):
            target = writer.target(keeps_file_groups=True)
            timeline = Snapshot.open(target.address.open()).timeline
            if timeline.is_pending(instant) and instant in _unattended(target):
                raise
            log.info("another process runs the compaction %s, or has run it", instant)
    return results


def run_compaction(writer: TableWriter, instant: str) -> WriteResult:
    """Run one compaction that pends, whoever planned it.

    Raises:
        InvalidInput: no such compaction pends.
        CommitConflict: another process runs it, or other writers were first all the time; the plan
            stays on the timeline.
        FileMissing: a file that it is to read is gone.
    """
    target = writer.target(keeps_file_groups=True)
    attempts = max(_LEAST_ATTEMPTS, target.conflict_retries + 1)
    clock = StepClock()
    for attempt in range(attempts):
        with clock.step("begin"):
            transaction = Transaction.resume(
                target.address, instant, action=Action.COMPACTION, options=target.patience
            )
        with transaction, Scratch(target.address) as scratch:
            try:
                return _run(target, transaction, scratch.path, clock)
            except CommitConflict:
                if attempt == attempts - 1:
                    raise
                log.warning("the compaction %s lost a conflict and is run again", instant)
    raise AssertionError("unreachable")


def _unattended(target: Target) -> list[str]:
    """The compactions that pend and that no process runs."""
    storage, patience = target.address.open(), target.patience
    if not pending_compactions(Snapshot.open(storage).timeline):
        return []
    with open_lock(storage, patience.lock) as lock:
        table = locked_table(storage, lock, patience.heartbeat)
        timeline = table.timeline()
        pending = [timeline.find(time) for time in pending_compactions(timeline)]
        return [
            each.requested_time
            for each in pending
            if each is not None and not is_being_run(table, each)
        ]


def _run(target: Target, transaction: Transaction, scratch: str, clock: StepClock) -> WriteResult:
    snapshot, instant = transaction.snapshot, transaction.instant
    slices = planned_slices(snapshot, snapshot.timeline.compaction_plan(instant), instant)
    stored = StoredSchema.of(snapshot)
    schema = WriteSchema.of(stored.columns, stored)
    plan = plan_metadata(snapshot, target.options.metadata, schema.columns, rows=0)
    facts = write_context(target, snapshot, schema, plan, instant=instant, scratch=scratch, rows=0)
    groups = [Group(each.partition, each.file_id, each, is_log=False) for each in slices]
    # A task of a run that died may still be at work: its files must not be taken for ours.
    shares = share_out(groups, instant, target.engine.parallelism, run=secrets.randbelow(_RUNS))
    with clock.step("write"):
        transaction.start_writing()
        tasks = [
            WriteTask(facts, number, tuple(share)) for number, share in enumerate(shares) if share
        ]
        done: list[TaskResult] = target.engine.map("merge the log files", compact_slices, tasks)
    outcome = Outcome(
        facts=facts,
        stored=stored.columns,
        schema=schema,
        plan=plan,
        answers=tuple(done),
        notes=(),
        replaced=(),
        kept=target.kept_then,
        kept_before=target.kept,
    )
    return commit_rewrite(target, COMPACT, transaction, outcome, clock)


def _sum(results: list[WriteResult]) -> WriteResult:
    """What several compactions came to, under the instant of the last one."""
    seconds: dict[str, float] = {}
    for result in results:
        for step, taken in result.seconds.items():
            seconds[step] = seconds.get(step, 0.0) + taken
    return WriteResult(
        COMPACT.name,
        results[-1].instant if results else None,
        rows_in=sum(result.rows_in for result in results),
        files=sum(result.files for result in results),
        bytes_written=sum(result.bytes_written for result in results),
        seconds=seconds,
    )


def planned_slices(snapshot: Snapshot, plan: CompactionPlan, instant: str) -> list[FileSlice]:
    """The slices of a plan, in its order.

    Groups that were replaced, or got a base file, since the plan was made are left out.

    Raises:
        FileMissing: a file that the plan names is not in the table.
    """
    seen = snapshot.visibility
    limit = instant_key(instant)

    def completed_before(time: str) -> bool:
        return instant_key(seen.completion_time(time)) < limit

    before = Visibility(
        is_visible=lambda time: seen.is_visible(time) and completed_before(time),
        completion_time=seen.completion_time,
        logs_name_own_instant=True,
    )
    files = _files_of(snapshot, plan)
    slices = []
    for operation in plan.operations:
        place = FileSliceId(operation.partition_path, operation.file_id)
        if place in seen.replaced:
            log.info("%s was replaced since %s was planned: left out", place, instant)
            continue
        own = files[place]
        if any(
            seen.is_visible(base.instant_time) and not completed_before(base.instant_time)
            for base in _bases(own)
        ):
            log.info("%s was written again since %s was planned: left out", place, instant)
            continue
        found = latest_slices(place.partition, own, before)
        _check(operation, {name for name, _ in own}, found, instant)
        slices += found
    return slices


def _files_of(snapshot: Snapshot, plan: CompactionPlan) -> dict[FileSliceId, list[tuple[str, int]]]:
    """The names and sizes of the files of a plan's groups."""
    wanted = {FileSliceId(each.partition_path, each.file_id) for each in plan.operations}
    found: dict[FileSliceId, list[tuple[str, int]]] = defaultdict(list)
    for partition in {place.partition for place in wanted}:
        for name, size in snapshot.listing.files.get(partition, ()):
            parsed = parse_data_file(name, size)
            if parsed is not None and (place := FileSliceId(partition, parsed.file_id)) in wanted:
                found[place].append((name, size))
    return found


def _bases(files: list[tuple[str, int]]) -> Iterator[BaseFile]:
    for name, size in files:
        parsed = parse_data_file(name, size)
        if isinstance(parsed, BaseFile):
            yield parsed


def _check(
    operation: CompactionOperation, listed: set[str], found: list[FileSlice], instant: str
) -> None:
    present = {name for current in found for name in current.file_names}
    named = [*([operation.data_file] if operation.data_file else []), *operation.log_files]
    for name in named:
        if name not in listed:
            place = f"{operation.partition_path}/{name}".lstrip("/")
            raise FileMissing(f"{place}, which the compaction {instant} is to read, is gone")
    more = present - set(named)
    if more:
        log.warning("the compaction %s was planned without %s", instant, ", ".join(sorted(more)))
