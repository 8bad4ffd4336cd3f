"""The last stage, under the table's lock: index records, then the commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from lakedex.config.metadata_options import zone_setting
from lakedex.engine import Engine
from lakedex.errors import CommitConflict
from lakedex.filegroup import FileSlice, FileSliceId, LogFile, parse_data_file
from lakedex.index.builds import IndexBuild, kept_note
from lakedex.index.deltacommit import ExactRule, LoadedTable, commit_changes
from lakedex.index.maintenance import joined_notes
from lakedex.index.metadata_table.instants import MetadataStore
from lakedex.index.metadata_table.resharding import forget_resharding
from lakedex.index.registry import commit_notes, reshardable_indexes
from lakedex.index.written import CommitChanges, KeyNote
from lakedex.schema import parse_avro_record
from lakedex.storage import Storage
from lakedex.table import Snapshot
from lakedex.table.own_properties import change_own_properties
from lakedex.timeline import CommitMetadata, Instant, State, Timeline, WriteStat
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.conflicts import CopiedGroups
from lakedex.txn.transaction import CommitScope, Transaction
from lakedex.write.context import WriteContext
from lakedex.write.file_indexes import merge_file_indexes
from lakedex.write.handles.work import TaskResult, WrittenFile
from lakedex.write.metadata_build import ensure_metadata
from lakedex.write.metadata_plan import RECORD_INDEX, MetadataPlan
from lakedex.write.operation import COMPACT, Operation
from lakedex.write.shared_keys import check_inserted_keys
from lakedex.write.stat_widening import Widening, check_stat_columns, name_columns, read_widening
from lakedex.write.stream_batches import StreamBatch
from lakedex.write.unique_keys import AddedKeys
from lakedex.write.windowed_index import WindowChange, WindowPlan, commit_window
from lakedex.write.write_schema import (
    StoredSchema,
    WriteSchema,
    history_after,
    history_metadata,
    keep_history,
)


class CommittedBuckets(Protocol):
    """What a commit does about the buckets of a bucket index."""

    @property
    def copies(self) -> CopiedGroups | None:
        """The file groups that a resize and writes beside it may both change."""

    def prepare_commit(self, scope: CommitScope, touched: Iterable[FileSliceId]) -> None:
        """See that the buckets are what they were, and store the rings that the write makes.

        Raises:
            CommitConflict: a bucket is another one now.
        """

    def mark_rings(self, storage: Storage) -> None:
        """Mark the rings that the write has made, once it is complete."""


@dataclass(frozen=True, slots=True)
class CommittedTable:
    """The timelines of a table and of its metadata table just after a commit."""

    data: Timeline
    metadata: Timeline


@dataclass(frozen=True)
class Outcome:
    """What the write stage came to."""

    facts: WriteContext
    stored: pa.Schema
    schema: WriteSchema
    plan: MetadataPlan
    answers: tuple[TaskResult, ...]
    notes: tuple[KeyNote, ...]
    replaced: tuple[FileSlice, ...]
    kept: Mapping[str, str]
    """Settings that the table keeps for its next writer."""
    kept_before: Mapping[str, str]
    """Those that it kept when the write began."""
    parts: tuple[Mapping[str, Any], ...] = ()
    """What was noted for indexes beside the notes of the tasks, by name."""
    refreshed: Mapping[str, Any] = field(default_factory=dict)
    """What indexes with `maintenance=async` get of older writes, by name."""
    added_keys: AddedKeys | None = None
    """None where writers do not go by the record index, which knows one place of a key."""
    window: WindowPlan | None = None
    """The windowed record index, where there is one."""
    batch: StreamBatch | None = None
    """The batch of a stream that is written."""
    notes_of_user: Mapping[str, str] = field(default_factory=dict)
    """Options of the write that the commit's metadata repeats."""
    changed: pa.Schema | None = None
    """The columns with their ids, where the write is about them and not about rows."""
    buckets: CommittedBuckets | None = None
    """Those of a bucket index, where rows went to them."""

    def touched(self) -> set[FileSliceId]:
        """The file groups that the write changes or takes away."""
        written = {
            FileSliceId(file.partition, file.file_id)
            for answer in self.answers
            for file in answer.files
            if not file.is_copy
        }
        return written | {current.id for current in self.replaced}

    def rewritten(self) -> set[FileSliceId]:
        """Those of them whose base file is a new one, or that are gone."""
        based = {
            FileSliceId(file.partition, file.file_id)
            for answer in self.answers
            for file in answer.files
            if not file.is_log
        }
        return based | {current.id for current in self.replaced}


def commit_outcome(
    engine: Engine,
    operation: Operation,
    transaction: Transaction,
    outcome: Outcome,
    *,
    unique_keys: bool,
    is_global: bool,
    moves_only: bool = False,
) -> CommittedTable | None:
    """Complete a write: conflicts, metadata table, commit; `moves_only` adds and removes no row.

    Returns:
        The timelines after the commit; None where more than this write's instant was added.

    Raises:
        CommitConflict: another writer was first; the write is rolled back.
    """
    facts = outcome.facts
    timelines: list[CommittedTable | None] = []

    def prepare(scope: CommitScope) -> CommitMetadata:
        building = _still_building(scope, outcome)
        check_stat_columns(
            scope.snapshot, outcome.plan, outcome.kept, is_alone=not scope.concurrent
        )
        if scope.concurrent:
            _check_concurrent(engine, scope, outcome, unique_keys=unique_keys, is_global=is_global)
        history = history_after(scope.snapshot, outcome.schema, facts.instant, outcome.changed)
        metadata = commit_metadata(
            (file for answer in outcome.answers for file in answer.files),
            operation=operation.name,
            # Beside a history Hudi's commits name the meta columns too.
            schema_text=outcome.schema.text if history is None else outcome.schema.full_text,
            replaced=_replaced_ids(outcome.replaced),
            extra={
                **outcome.notes_of_user,
                **_said_of_keys(scope, outcome),
                **_said_of_batch(scope, outcome),
                **commit_notes(
                    outcome.plan.maintained,
                    outcome.plan.new,
                    scope.timeline,
                    scope.snapshot.definitions,
                ),
                **_said_of_builds(outcome, building),
                **({} if history is None else history_metadata(history)),
            },
        )
        _prepare_buckets(scope, outcome)
        # Whoever finds a new index must find the time zone that it is computed in. All other
        # settings wait for the index: by them the next write would build what is not there.
        zones = {zone_setting(each.name) for each in outcome.plan.new_definitions}
        early = {name: value for name, value in outcome.kept.items() if name in zones}
        if early:
            change_own_properties(
                scope.storage, outcome.kept_before, {**outcome.kept_before, **early}
            )
        if outcome.plan.wanted:
            added = _added_rows(scope, outcome, unique_keys=unique_keys)
            timelines.append(
                _commit_indexes(engine, scope, outcome, building, added, moves_only=moves_only)
            )
        if outcome.window is not None:
            commit_window(engine, facts, scope, outcome.window, _window_change(outcome))
        merge_file_indexes(engine, facts, scope)
        if history is not None:
            keep_history(scope.storage, facts.instant, scope.next_time(), history)
        change_own_properties(scope.storage, outcome.kept_before, outcome.kept)
        return metadata

    completion = transaction.commit(
        prepare,
        touched=outcome.touched(),
        rewritten=outcome.rewritten(),
        then=partial(_after_commit, outcome),
        may_have_orphans=engine.repeats_tasks,
        copies=None if outcome.buckets is None else outcome.buckets.copies,
    )
    before = timelines[-1] if timelines else None
    if before is None:
        return None
    done = Instant(facts.instant, transaction.action, State.COMPLETED, completion)
    return replace(before, data=before.data.with_instants(done))


def _prepare_buckets(scope: CommitScope, outcome: Outcome) -> None:
    if outcome.buckets is not None:
        outcome.buckets.prepare_commit(scope, outcome.touched())


def _after_commit(outcome: Outcome) -> None:
    """What the next writer can do without, with the lock still held."""
    storage = outcome.facts.address.open()
    if outcome.plan.new_stat_columns:
        name_columns(storage, outcome.plan)
    if outcome.buckets is not None:
        outcome.buckets.mark_rings(storage)


def _commit_indexes(
    engine: Engine,
    scope: CommitScope,
    outcome: Outcome,
    building: Sequence[IndexBuild],
    added: AddedRows | None,
    *,
    moves_only: bool,
) -> CommittedTable | None:
    """Bring the metadata table up to date with a write.

    Returns:
        Both timelines with the deltacommit, and the data table's instant still pending; None where
        the metadata table got other instants too.
    """
    facts, plan = outcome.facts, outcome.plan
    if scope.snapshot.metadata is not None:
        scope.snapshot.metadata.list_all()
    ensured = ensure_metadata(engine, facts, scope.snapshot, plan, next_time=scope.next_time)
    for name in reshardable_indexes().intersection(plan.missing):
        # Had it been in the middle of a resharding, it is now built from the data.
        forget_resharding(facts.address, name)
    widening = read_widening(engine, facts, scope.snapshot, plan)
    completed = commit_changes(
        facts.address,
        engine,
        facts.instant,
        _changes(outcome, scope.snapshot, widening),
        next_time=scope.next_time,
        new_partition_groups=max(1, plan.record_shards),
        building={
            name: known for each in building for name, known in each.definitions_or_none.items()
        },
        exact=exact_rule(
            scope.timeline, plan, built=ensured.exact, added=added, moves_only=moves_only
        ),
        loaded=None if ensured.is_table_changed else _loaded(scope),
    )
    if scope.metadata is None or ensured.is_table_changed:
        return None
    return CommittedTable(scope.timeline, scope.metadata.with_instants(completed))


def _loaded(scope: CommitScope) -> LoadedTable | None:
    """The table as it was read under the lock; None where its metadata table cannot be read."""
    snapshot, timeline = scope.snapshot, scope.metadata
    if snapshot.metadata is None or timeline is None:
        return None
    store = MetadataStore(
        timeline.storage, timeline.config, timeline, listed=snapshot.metadata.listed
    )
    return LoadedTable(snapshot.config, snapshot.definitions, store)


def _check_concurrent(
    engine: Engine,
    scope: CommitScope,
    outcome: Outcome,
    *,
    unique_keys: bool,
    is_global: bool,
) -> None:
    """What file groups do not tell: changed columns, changed indexes, keys that both inserted."""
    if StoredSchema.of(scope.snapshot).columns != outcome.stored:
        raise CommitConflict("another writer changed the table's columns meanwhile; write again")
    if scope.snapshot.history != outcome.facts.history:
        raise CommitConflict("another writer changed the table's columns meanwhile; write again")
    live, known = scope.snapshot.config.metadata_partitions, scope.snapshot.definitions
    for each in (*outcome.plan.maintained, *outcome.plan.refreshed):
        if each.name in live and not each.is_defined_by(known.get(each.name)):
            raise CommitConflict(f"another writer made the index {each.name} anew; write again")
    check = partial(
        check_inserted_keys,
        engine,
        replace(outcome.facts, committed=CommittedInstants.of(scope.timeline)),
        outcome.notes,
        [metadata for _, metadata in scope.concurrent],
        scope.snapshot.slices,
    )
    if unique_keys:
        check(forgotten=False, is_global=is_global)
    if outcome.plan.has_record_index:
        check(forgotten=True, is_global=not outcome.plan.has_partitioned_record_index)


def _still_building(scope: CommitScope, outcome: Outcome) -> list[IndexBuild]:
    """The builds that the write kept up to date and that are not whole yet.

    Raises:
        CommitConflict: an index became whole that the write knows nothing of.
    """
    live = {*scope.snapshot.config.metadata_partitions}
    building = outcome.plan.building
    known = {*outcome.facts.config.metadata_partitions}
    known.update(*(b.names for b in building if scope.timeline.has_completed(b.instant)))
    if not live <= known:
        names = ", ".join(sorted(live - known))
        raise CommitConflict(f"another writer made the index {names} meanwhile; write again")
    now = {each.instant for each in scope.snapshot.builds}
    return [each for each in building if each.instant in now]


def _said_of_builds(outcome: Outcome, building: list[IndexBuild]) -> Mapping[str, str]:
    """The note by which a builder knows that it need not look at this commit.

    Which keys are left when file groups go only a whole index can tell, as a key may stand in
    others too. So builders of such indexes look at these commits themselves.
    """
    return kept_note(each for each in building if not (outcome.replaced and each.has_keys))


def _said_of_keys(scope: CommitScope, outcome: Outcome) -> Mapping[str, str]:
    if outcome.added_keys is None:
        return {}
    return outcome.added_keys.note(
        scope.timeline, is_alone=_is_alone(scope, outcome), was_first=not scope.concurrent
    )


def _added_rows(scope: CommitScope, outcome: Outcome, *, unique_keys: bool) -> AddedRows | None:
    if outcome.added_keys is None:
        return None
    return AddedRows(
        outcome.added_keys,
        sum(
            file.num_inserts
            for answer in outcome.answers
            for file in answer.files
            if not file.is_copy
        ),
        is_alone=_is_alone(scope, outcome),
        was_first=not scope.concurrent,
        were_compared=unique_keys,
    )


def _is_alone(scope: CommitScope, outcome: Outcome) -> bool:
    """Whether no rows but those of the write are in the table."""
    gone = {current.id for current in outcome.replaced}
    return all(current.id in gone for current in scope.snapshot.slices)


def _said_of_batch(scope: CommitScope, outcome: Outcome) -> Mapping[str, str]:
    if outcome.batch is None:
        return {}
    outcome.batch.check_unwritten(scope.timeline)
    return outcome.batch.note()


def _copied(outcome: Outcome, snapshot: Snapshot) -> set[str]:
    """The partitions in which writers gave log files to file groups that this write makes.

    Their ranges must stay within those of the partition.
    """
    files, instant = snapshot.listing.files, outcome.facts.instant
    return {
        partition
        for partition in {current.partition for current in outcome.replaced}
        for name, size in files.get(partition, ())
        if isinstance(parsed := parse_data_file(name, size), LogFile)
        and parsed.instant_time == instant
    }


def _changes(outcome: Outcome, snapshot: Snapshot, widening: Widening) -> CommitChanges:
    added: dict[str, dict[str, int]] = defaultdict(dict)
    for answer in outcome.answers:
        for file in answer.files:
            added[file.partition][file.name] = file.size
    replaced = {current.partition for current in outcome.replaced} - _copied(outcome, snapshot)
    # What others added to a partition meanwhile stays, and so must its ranges.
    gone = {current.id for current in outcome.replaced}
    replaced -= {current.partition for current in snapshot.slices if current.id not in gone}
    before = {field.name: field.type for field in outcome.stored}
    retyped = {
        field.name: field.type
        for field in outcome.schema.columns
        if before.get(field.name, field.type) != field.type
    }
    partitions = {each.partition for each in snapshot.slices} if retyped or widening.columns else {}
    notes = joined_notes(
        outcome.facts.indexes,
        [*(answer.index_notes for answer in outcome.answers), *outcome.parts, widening.notes],
    )
    return CommitChanges(
        added=added,
        whole_columns=widening.columns,
        # A refresh reads all files of a slice, also those that the index knows already.
        replaces_ranges=any(each.sources for each in outcome.plan.refreshed),
        overwritten_partitions=tuple(sorted(replaced)),
        young_columns=_young_columns(outcome.schema.columns, snapshot),
        retyped_columns=retyped,
        known_partitions=sorted(partitions),
        key_notes=outcome.notes,
        note_buckets=outcome.facts.note_buckets,
        note_shards=outcome.facts.note_shards if outcome.plan.has_record_index else 0,
        notes={**notes, **outcome.refreshed},
    )


def _window_change(outcome: Outcome) -> WindowChange:
    return WindowChange(
        [file for answer in outcome.answers for file in answer.files],
        frozenset(current.id for current in outcome.replaced),
        outcome.notes,
    )


def _young_columns(columns: pa.Schema, snapshot: Snapshot) -> frozenset[str]:
    """Columns that the table did not have from the start."""
    text = snapshot.config.create_schema
    if text is None and snapshot.timeline.write_instants():
        if snapshot.timeline.archived.instants():
            return frozenset(columns.names)  # what the first commit said is not known any more
        first = snapshot.timeline.write_instants()[0]
        text = snapshot.timeline.commit_summary(first).extra.get("schema")
    if not text:
        return frozenset()
    known = {field.name for field in parse_avro_record(text, path=snapshot.config.name).fields}
    return frozenset(columns.names) - known


def _replaced_ids(replaced: tuple[FileSlice, ...]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for current in replaced:
        found[current.partition].append(current.file_id)
    return {partition: tuple(ids) for partition, ids in found.items()}


_COMMIT_VERSION = 1


def commit_metadata(
    files: Iterable[WrittenFile],
    *,
    operation: str,
    schema_text: str,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
    extra: Mapping[str, str] | None = None,
) -> CommitMetadata:
    """What a commit says of itself; the schema is that without meta columns."""
    stats: dict[str, list[WriteStat]] = defaultdict(list)
    for file in files:
        stats[file.partition].append(_write_stat(file))
    return CommitMetadata(
        {partition: tuple(entries) for partition, entries in stats.items()},
        {**(extra or {}), "schema": schema_text},
        operation_type=operation,
        replaced_file_ids=dict(replaced or {}),
        compacted=operation == COMPACT.name,
        version=_COMMIT_VERSION,
    )


def _write_stat(file: WrittenFile) -> WriteStat:
    log = {"log_version": 1, "log_offset": 0, "log_files": (file.name,)}
    log |= {"base_file": file.previous_base or ""}
    base = {"prev_base_file": file.previous_base}
    return WriteStat(
        file_id=file.file_id,
        path=f"{file.partition}/{file.name}" if file.partition else file.name,
        partition_path=file.partition,
        prev_commit=file.prev_commit,
        num_writes=file.num_writes,
        num_inserts=file.num_inserts,
        num_updates=file.num_updates,
        num_deletes=file.num_deletes,
        total_write_bytes=file.size,
        total_write_errors=0,
        file_size_bytes=file.size,
        other=dict(file.counters),
        **(log if file.is_log else base),
    )


@dataclass(frozen=True, slots=True)
class AddedRows:
    """What a write that uses the record index knows of its rows when it commits."""

    keys: AddedKeys
    inserted: int
    """How many rows it adds."""
    is_alone: bool
    """Whether no other rows are in the table."""
    was_first: bool
    """Whether no other writer has committed since the write began."""
    were_compared: bool
    """Whether its keys were held against those that others inserted meanwhile."""

    def leave_exact(self, entries: int, *, was_exact: bool) -> bool:
        """Whether the record index has the entry of every row afterwards.

        Args:
            entries: How many entries the write adds or changes; each is of another key.
            was_exact: Whether the index had every row before.
        """
        if self.is_alone:
            return entries == self.inserted
        if not self.keys.looked_up:
            return False
        if self.keys.counted_unique and self.was_first:
            return True
        return was_exact and (self.was_first or self.were_compared or not self.inserted)


def exact_rule(
    timeline: Timeline,
    plan: MetadataPlan,
    *,
    built: frozenset[str],
    added: AddedRows | None,
    moves_only: bool,
) -> ExactRule:
    """By what the commit of a write knows which indexes have every row.

    Args:
        timeline: The table's timeline just before the commit.
        plan: The indexes that the write keeps up to date.
        built: Those that it has made, and that had every row then.
        added: The rows that it adds; None where it does not go by the record index.
        moves_only: Whether it adds and removes no row.
    """
    of_rows = {each.name for each in (*plan.maintained, *plan.new) if each.row_columns}

    def after(before: frozenset[str], written: Mapping[str, int]) -> frozenset[str]:
        if not plan.has_record_index:
            return frozenset()
        known = before | built
        was_exact = RECORD_INDEX in known
        if moves_only:
            return known if was_exact else frozenset()
        if added is None or not added.leave_exact(
            written.get(RECORD_INDEX, 0), was_exact=was_exact
        ):
            return frozenset()
        kept = of_rows if added.is_alone else known & of_rows
        return frozenset({RECORD_INDEX, *kept})

    return ExactRule(timeline, after)
