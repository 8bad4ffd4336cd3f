"""The pipeline of a write: rows in; files, index records and a commit out.

    intake -> begin -> tag -> assign -> write -> commit -> services

Intake comes before the write is on the timeline: rows that are wrong leave no trace. A write
that loses a conflict may be tried again from `begin` on, without reading its input again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lakedex.config import keys
from lakedex.config.new_layout import LAYOUT_PROPERTIES
from lakedex.config.write_options import InsertDuplicates
from lakedex.engine import Engine
from lakedex.errors import (
    CommitConflict,
    FileMissing,
    IndexUnusable,
    InvalidInput,
    LakedexError,
    ServicePends,
)
from lakedex.filegroup import FileSlice
from lakedex.index.metadata_table.creation import built_at
from lakedex.keys.generator import KeyGenerator
from lakedex.table import Snapshot
from lakedex.table.index_coverage import newer_slices
from lakedex.timeline import Action, Timeline, load_table_config
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.begin import write_action
from lakedex.txn.transaction import Transaction
from lakedex.txn.working_folders import Scratch
from lakedex.write.assign import share_out
from lakedex.write.assign_stage import Attempt, assigned_groups
from lakedex.write.bucketing import (
    WriteBuckets,
    copied_parts,
    merges_by_key,
    plan_buckets,
    plan_tagging_by_bucket,
)
from lakedex.write.build_survey import SurveyWants, survey
from lakedex.write.commit import Outcome, commit_outcome
from lakedex.write.context import WriteContext
from lakedex.write.handles.task import write_groups
from lakedex.write.handles.work import TaskResult, WriteTask
from lakedex.write.index_notes import gather_notes
from lakedex.write.intake import IngestedRows, take_change, take_rows
from lakedex.write.metadata_plan import RECORD_INDEX, MetadataPlan, plan_metadata
from lakedex.write.operation import Operation, Replaces
from lakedex.write.post_commit import run_due_services
from lakedex.write.resizing.pending import ResizeWatch
from lakedex.write.result import StepClock, WriteResult
from lakedex.write.row_source import RowSource
from lakedex.write.tag.plan import all_index_groups, plan_tagging
from lakedex.write.tag.tag_rows import TagPlan
from lakedex.write.tag_stage import TagAnswer, TagTask, split_buckets, tag_stage
from lakedex.write.unique_keys import AddedKeys, counted_unique, noted_unique
from lakedex.write.windowed_index import WindowPlan
from lakedex.write.write_schema import Change, StoredSchema, newest_write, shown_bucket_index
from lakedex.write.write_target import Target, write_context

log = logging.getLogger("lakedex")

_ROWS_A_TAG_TASK = 25_000
_SMALL_BYTES = 16 << 20
"""Rows and index entries that the driver looks through sooner than it starts a job."""


def run_write(
    target: Target,
    operation: Operation,
    source: RowSource | None,
    *,
    partitions: Sequence[str] = (),
    seen: CommittedInstants | None = None,
    change: Change | None = None,
    finish: Callable[[], bool] | None = None,
) -> WriteResult:
    """Write rows, and answer what it came to.

    Args:
        target: The table.
        operation: What to do with the rows.
        source: The rows; None where the operation needs none.
        partitions: The partitions to replace, where no rows say which.
        seen: What was committed when the rows were chosen from the table itself; they are not
            written when that has changed since.
        change: What to do with the columns instead of writing rows.
        finish: Finishes services that are in the way, as a process that died may have left them,
            and says whether it tried to.

    Raises:
        CommitConflict: another writer was first; the table is as it was.
    """
    clock = StepClock()
    with Scratch(target.address, is_local=not target.engine.repeats_tasks) as scratch:
        with clock.step("intake"):
            if change is not None:
                taken = take_change(target, change)
            else:
                taken = take_rows(target, operation, source, scratch.path, partitions)
        is_idle = operation.replaces is not Replaces.TABLE and not operation.without_rows
        if not taken.rows and is_idle and not partitions:
            return WriteResult(operation.name, None, seconds=clock.seconds)
        retries, resizes = target.conflict_retries, ResizeWatch(target.snapshot.timeline)
        while True:
            try:
                return _write(target, operation, taken, scratch.path, clock, partitions, seen)
            except CommitConflict as conflict:
                if isinstance(conflict, ServicePends) and finish is not None and finish():
                    finish = None
                elif target.options.buckets is not None and resizes.has_new():
                    log.info("the buckets were resized while %s went on", operation.name)
                elif retries:
                    retries -= 1
                else:
                    raise
                log.warning("%s lost a conflict and is tried again", operation.name)


def _write(
    target: Target,
    operation: Operation,
    taken: IngestedRows,
    scratch: str,
    clock: StepClock,
    partitions: Sequence[str],
    seen: CommittedInstants | None,
) -> WriteResult:
    with clock.step("begin"):
        transaction = Transaction.begin(
            target.address,
            action=_action(target, operation),
            operation=operation.name,
            options=target.patience,
            before=target.snapshot,
        )
    with transaction:
        if seen is not None and seen != CommittedInstants.of(transaction.snapshot.timeline):
            raise CommitConflict("another writer was first since the rows were chosen; try again")
        return _write_in(Attempt(target, operation, taken, transaction, scratch, clock), partitions)


def _action(target: Target, operation: Operation) -> Action:
    if operation.replaces is not Replaces.NOTHING:
        return Action.REPLACECOMMIT
    return write_action(target.snapshot.config)


def _write_in(write: Attempt, partitions: Sequence[str]) -> WriteResult:
    target, taken, clock = write.target, write.taken, write.clock
    snapshot = write.transaction.snapshot
    _check_snapshot(write, snapshot)
    plan = plan_metadata(
        snapshot,
        target.options.metadata,
        taken.schema.columns,
        rows=taken.rows,
        new_indexes=target.new_indexes,
        refreshed=target.refreshed,
    )
    facts = write_context(
        target,
        snapshot,
        taken.schema,
        plan,
        instant=write.transaction.instant,
        scratch=write.scratch,
        rows=taken.rows,
    )
    replaced = _replaced(write, snapshot, partitions)
    with clock.step("tag"):
        buckets = plan_buckets(write, facts, plan, replaced)
        if buckets is not None:
            facts = replace(facts, takes_for_live=not buckets.reads_keys)
        unique, answers = _find_records(write, facts, plan, buckets)
        if buckets is not None:
            answers += copied_parts(target.engine, facts, buckets, answers)
    with clock.step("assign"):
        copies = None if buckets is None else buckets.copies
        new_buckets = None if buckets is None else buckets.new_buckets
        groups = assigned_groups(write, facts, answers, replaced, copies, new_buckets)
        shares = share_out(groups, facts.instant, target.engine.parallelism)
    result = _counted(write, answers, buckets)
    replaces = write.operation.replaces is not Replaces.NOTHING or write.operation.without_rows
    if not groups and not replaces:
        return result
    with clock.step("write"):
        write.transaction.start_writing()
        tasks = [
            WriteTask(facts, number, tuple(share)) for number, share in enumerate(shares) if share
        ]
        done: list[TaskResult] = target.engine.map("write the files", write_groups, tasks)
        gathered = gather_notes(
            target.engine, facts, snapshot, done, replaced, has_record_index=plan.has_record_index
        )
        refreshed = read_newer_slices(target.engine, facts, snapshot, plan)
    outcome = Outcome(
        facts=facts,
        stored=taken.stored,
        schema=taken.schema,
        plan=plan,
        answers=tuple(done),
        notes=gathered.keys,
        parts=gathered.parts,
        refreshed=refreshed,
        replaced=tuple(replaced),
        kept=target.kept_then,
        kept_before=target.kept,
        added_keys=_added_keys(write, answers, found_unique=unique),
        window=_window(target),
        batch=target.batch,
        notes_of_user={} if write.operation.without_rows else target.options.commit_notes,
        changed=taken.changed,
        buckets=buckets,
    )
    if not any(answer.files for answer in done) and not replaces:
        return result
    with clock.step("commit"):
        committed = commit_outcome(
            target.engine,
            write.operation,
            write.transaction,
            outcome,
            # In one bucket two writers exclude each other by its file group.
            unique_keys=write.operation.looks_up and buckets is None,
            is_global=target.options.index_type.is_global,
        )
    with clock.step("services"):
        run_due_services(target, committed)
    result = _told(result, outcome, facts.instant)
    log.info("%s", result)
    return result


def _counted(
    write: Attempt, answers: Sequence[TagAnswer], buckets: WriteBuckets | None
) -> WriteResult:
    looks_up, hits = write.operation.looks_up, sum(answer.found for answer in answers)
    if buckets is not None and not buckets.reads_keys:
        looks_up, hits = False, 0  # a hash is no lookup
    return WriteResult(
        write.operation.name,
        None,
        rows_in=write.taken.rows,
        index_lookups=sum(answer.looked_up for answer in answers) if looks_up else 0,
        index_hits=hits,
        seconds=write.clock.seconds,
    )


def _find_records(
    write: Attempt, facts: WriteContext, plan: MetadataPlan, buckets: WriteBuckets | None
) -> tuple[bool, list[TagAnswer]]:
    """Where the rows go, and whether the record index knows all places of their keys."""
    snapshot = write.transaction.snapshot
    try:
        unique = _are_keys_unique(write, facts)
        if buckets is not None:
            answers = _tag_by_bucket(write, facts, buckets)
        else:
            answers = _tag(write, facts, every_copy=not unique)
    except (FileMissing, IndexUnusable) as error:
        _check_same_index(snapshot, error)
        raise
    metadata = snapshot.metadata if write.operation.looks_up else None
    if plan.has_record_index and metadata and metadata.has_hidden_build(RECORD_INDEX):
        _check_same_index(snapshot)
    return unique, answers


def _check_snapshot(write: Attempt, snapshot: Snapshot) -> None:
    """Refuse rows that do not suit the table as it is when the write begins."""
    # Another engine may have made it a table with a bucket index since, or plans to resize one.
    has_buckets = write.target.options.buckets is not None
    if has_buckets or newest_write(snapshot.timeline) != newest_write(
        write.target.snapshot.timeline
    ):
        shown_bucket_index(snapshot, write.target.kept_then)
    if StoredSchema.of(snapshot).columns != write.taken.stored:
        raise CommitConflict("another writer changed the table's columns meanwhile; write again")
    _check_nesting(write, snapshot)


def _check_nesting(write: Attempt, snapshot: Snapshot) -> None:
    """Refuse a partition inside the folder of another one, which Hudi would not list.

    Values with slashes make such folders: `dt=a` and `dt=a/b`. Folders that are named otherwise
    since some commit may be nested, as their other name says what they are.

    Raises:
        InvalidInput: Naming both partitions.
    """
    new, config = set(write.taken.partitions), snapshot.config
    if write.operation.is_delete or not new:
        return
    if any(name in config.raw for name in LAYOUT_PROPERTIES):
        return
    if not KeyGenerator.of(config, write.taken.schema.columns).takes_slashes:
        return
    paths = new.union(snapshot.slices.partitions)
    for path in paths if len({path.count("/") for path in paths}) > 1 else ():
        parts = path.split("/")
        for at in range(1, len(parts)):
            parent = "/".join(parts[:at])
            # A folder with a name of its own is that of another column, not a part of a value.
            is_column = config.hive_style_partitioning and "=" in parts[at]
            if parent in paths and not is_column and not new.isdisjoint((path, parent)):
                raise InvalidInput(
                    f"the partition {path!r} would be a folder of the partition {parent!r}, where "
                    "Hudi does not find it; do not mix values with and without slashes that begin "
                    f"alike, or create the table with {keys.URL_ENCODE_PARTITIONING}=true"
                )


def _check_same_index(snapshot: Snapshot, error: LakedexError | None = None) -> None:
    """Refuse a record index whose build is lost, and explain why a file of it was missing.

    Its file groups were listed under the lock, so that all of them are of one index. As long as
    their files are there, they hold the keys as of the beginning of the write; but of an index
    whose build is not on the timeline some groups may be hidden.

    Raises:
        CommitConflict: it was resharded, or built again, after the snapshot.
        IndexUnusable: the instant that built it is lost.
    """
    metadata, storage = snapshot.metadata, snapshot.storage
    if metadata is None or RECORD_INDEX not in snapshot.config.metadata_partitions:
        return
    folder = storage.sub(keys.METADATA_TABLE_FOLDER)
    built = built_at(folder, RECORD_INDEX)
    if built and all(map(metadata.is_visible, built)):
        return
    if RECORD_INDEX in load_table_config(storage).metadata_partitions:
        # The properties name an index only while it is whole, so it was not being built.
        built = built_at(folder, RECORD_INDEX)
        if not built:
            return  # its metafile was lost, or never written, as by Hudi for one without entries
        now = Timeline.load(folder, load_table_config(folder))
        lost = [
            each for each in built if not (metadata.is_visible(each) or now.has_completed(each))
        ]
        if lost:
            raise IndexUnusable(
                f"the metadata table of {snapshot.config.name} cannot be read: {min(lost)}, which "
                f"built its {RECORD_INDEX}, is missing from its timeline; `lakedex repair` builds "
                "it again"
            ) from error
    raise CommitConflict(
        "the record index was resharded while records were looked up in it; write again"
    ) from error


def _window(target: Target) -> WindowPlan | None:
    options = target.options
    if options.window is None:
        return None
    return WindowPlan(options.window, options.metadata.compact_after)


def _told(result: WriteResult, outcome: Outcome, instant: str) -> WriteResult:
    files = [file for answer in outcome.answers for file in answer.files]
    counted = [file for file in files if not file.is_copy]
    return replace(
        result,
        instant=instant,
        inserted=sum(file.num_inserts for file in counted),
        updated=sum(file.num_updates for file in counted),
        deleted=sum(file.num_deletes for file in counted),
        files=len(files),
        bytes_written=sum(file.size for file in files),
        file_groups_replaced=len(outcome.replaced),
        indexes=tuple(outcome.plan.missing),
    )


def _are_keys_unique(write: Attempt, facts: WriteContext) -> bool:
    """Whether the index knows all places of the keys; only deletes want to know that."""
    snapshot = write.transaction.snapshot
    if not (_takes_away(write) and write.target.options.index_type.uses_record_index):
        return True
    if noted_unique(snapshot.timeline):
        return True
    index = all_index_groups(snapshot)
    if index is None:
        return False
    return counted_unique(write.target.engine, facts, index, snapshot.slices)


def _added_keys(
    write: Attempt, answers: Sequence[TagAnswer], *, found_unique: bool
) -> AddedKeys | None:
    options = write.target.options
    if not options.index_type.uses_record_index:
        return None
    looked_up = _looks_up(write) or not write.taken.rows
    looked_up = looked_up and not any(answer.has_repeats for answer in answers)
    return AddedKeys(
        looked_up=looked_up,
        reduced=looked_up or options.combine_before_insert,
        counted_unique=found_unique and _takes_away(write),
    )


def _takes_away(write: Attempt) -> bool:
    """Whether records go, of which no copy may be left."""
    if write.operation.is_delete:
        return True
    # Entries of a window cannot be counted; it is there to leave the other files alone.
    in_window = write.target.options.window is not None
    return write.operation.looks_up and write.taken.has_deletes and not in_window


def _looks_up(write: Attempt) -> bool:
    """Whether the rows' keys are looked for."""
    # What is there already does not matter to a write that takes it away.
    adds = write.operation.replaces is Replaces.NOTHING
    drops = write.target.options.insert_duplicates is not InsertDuplicates.NONE
    return write.operation.looks_up or (adds and drops)


def _tag(write: Attempt, facts: WriteContext, *, every_copy: bool) -> list[TagAnswer]:
    target, taken, options = write.target, write.taken, write.target.options
    if not taken.rows:
        return []
    if taken.parts:
        return [TagAnswer(taken.parts, looked_up=0, found=0)]
    index, looks_up = options.lookup_index, write.operation.looks_up
    tag_plan = None
    if every_copy:
        index = index.without_record_index
    if _looks_up(write):
        tag_plan = plan_tagging(
            target.engine,
            facts,
            write.transaction.snapshot,
            index,
            update_partition_path=options.update_partition_path,
            buckets=taken.buckets,
            partitions=taken.partitions,
            use_metadata=options.bloom.use_metadata,
            window=None if every_copy else options.window,
        )
    task = TagTask(
        facts=facts,
        plan=tag_plan,
        buckets=(),
        # A record has one place, so rows that change records must be of different keys.
        reduce=looks_up or options.combine_before_insert,
        per_partition=not index.is_global,
        existing="update" if looks_up else options.insert_duplicates.value,
    )
    return _run_tagging(write, task, is_small=_is_small(taken, tag_plan))


def _tag_by_bucket(write: Attempt, facts: WriteContext, buckets: WriteBuckets) -> list[TagAnswer]:
    taken, options = write.taken, write.target.options
    if not taken.rows:
        return []
    merges, policy = merges_by_key(write), options.insert_duplicates
    # What replaces records does not look at them.
    drops = policy is not InsertDuplicates.NONE and write.operation.replaces is Replaces.NOTHING
    existing = policy.value if drops and not write.operation.looks_up else "none"
    task = TagTask(
        facts=facts,
        plan=None,
        buckets=(),
        reduce=merges or options.combine_before_insert,
        per_partition=True,
        existing="update" if existing == "none" and merges else existing,
        by_bucket=plan_tagging_by_bucket(write, facts, buckets),
    )
    return _run_tagging(write, task, is_small=_is_small(taken, None))


def _run_tagging(write: Attempt, task: TagTask, *, is_small: bool) -> list[TagAnswer]:
    taken, engine = write.taken, write.target.engine
    count = min(len(taken.buckets), max(1, taken.rows // _ROWS_A_TAG_TASK))
    tasks = [replace(task, buckets=share) for share in split_buckets(taken.buckets, count)]
    return (engine.map_small if is_small else engine.map)("find the records", tag_stage, tasks)


def _is_small(taken: IngestedRows, plan: TagPlan | None) -> bool:
    if taken.rows > _ROWS_A_TAG_TASK or taken.spilled_bytes > _SMALL_BYTES:
        return False
    access = None if plan is None else plan.record_index
    return access is None or access.size_bytes <= _SMALL_BYTES


def _replaced(
    write: Attempt, snapshot: Snapshot, partitions: Sequence[str]
) -> tuple[FileSlice, ...]:
    """The file slices that this write takes away."""
    replaces = write.operation.replaces
    if replaces is Replaces.NOTHING:
        return ()
    if replaces is Replaces.TABLE:
        return snapshot.slices
    named = {*partitions, *write.taken.partitions}
    return tuple(current for current in snapshot.slices if current.partition in named)


def read_newer_slices(
    engine: Engine, facts: WriteContext, snapshot: Snapshot, plan: MetadataPlan
) -> dict[str, Any]:
    """What the refreshed indexes of a plan get of the slices that they do not cover, by name."""
    notes: dict[str, Any] = {}
    seen = replace(facts, committed=CommittedInstants.of(snapshot.timeline))
    for each in plan.refreshed:
        slices = newer_slices(snapshot, snapshot.definitions[each.name])
        wants = SurveyWants((each,))
        notes |= survey(engine, seen, snapshot.history, slices, wants).index_notes
    return notes
