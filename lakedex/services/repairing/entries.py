"""Repairs single entries: one commit without rows whose records replace the wrong ones.

Entries of files and partitions are made again from the data: only the file slices are read that a
problem is about, or those of its partition. What has an entry and should have none is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CommitConflict
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.index.deltacommit import commit_changes
from lakedex.index.metadata_table.partitions import Change
from lakedex.index.registry import find_metadata_kind, kept_notes, metadata_kind
from lakedex.index.verification.check import RepairedTable
from lakedex.index.verification.findings import Problem, ProblemKind
from lakedex.index.written import CommitChanges
from lakedex.table import Snapshot
from lakedex.timeline import CommitMetadata, load_table_config
from lakedex.txn.begin import write_action
from lakedex.txn.transaction import CommitScope, Transaction
from lakedex.write.build_survey import SurveyWants, survey
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.write_schema import StoredSchema, WriteSchema
from lakedex.write.write_target import Target, write_context

_OPERATION = "INDEX"
_OF_ENTRIES = (ProblemKind.WRONG, ProblemKind.MISSING, ProblemKind.STALE)
_COLUMNS = ("schema", "latest_schema")


def is_repairable(problem: Problem, plain: Collection[str] = ()) -> bool:
    """Whether an entry can be repaired by itself; `plain` are the indexes by `plain_indexes`."""
    kind = find_metadata_kind(problem.index)
    if kind is None:
        return False
    if problem.entries:
        return kind.describes_files
    if problem.kind not in _OF_ENTRIES:
        return False
    return kind.can_repair(problem, is_plain=problem.index in plain)


def plain_indexes(snapshot: Snapshot) -> frozenset[str]:
    """The indexes whose entries are nothing but their keys, which verifying reports."""
    definitions = snapshot.definitions
    return frozenset(
        name
        for name in snapshot.config.metadata_partitions
        if name in definitions
        and (kind := find_metadata_kind(name)) is not None
        and kind.has_plain_entries(definitions[name], snapshot.schema)
    )


def repair_entries(target: Target, problems: Sequence[Problem], *, seen: str | None) -> None:
    """Write the entries that are missing or wrong, and delete those that are stale.

    Args:
        target: The table.
        problems: What is to be put right, as `is_repairable` says.
        seen: The newest completed instant when the problems were found.

    Raises:
        CommitConflict: the table has changed since; nothing was changed.
    """
    address = target.address
    action = write_action(load_table_config(address.open()))
    with Transaction.begin(
        address, action=action, operation=_OPERATION, options=target.patience
    ) as transaction:
        snapshot = transaction.snapshot
        newest = snapshot.timeline.last_completed
        if (None if newest is None else newest.requested_time) != seen:
            raise CommitConflict("the table was written while it was verified; repair it again")
        transaction.start_writing()
        by_file = [problem for problem in problems if problem.entries]
        single = [problem for problem in problems if not problem.entries]
        made = right_records(target, snapshot, transaction.scratch, by_file)
        changes = replace(_changes(snapshot, transaction.scratch, single), made=made)

        def prepare(scope: CommitScope) -> CommitMetadata:
            if scope.concurrent:
                raise CommitConflict("the table was written while it was repaired; try again")
            commit_changes(
                address, target.engine, transaction.instant, changes, next_time=scope.next_time
            )
            extra = _column_metadata(snapshot) | kept_notes(snapshot.timeline, snapshot.definitions)
            return CommitMetadata({}, extra, operation_type=_OPERATION)

        transaction.commit(prepare, touched=())


def _column_metadata(snapshot: Snapshot) -> dict[str, str]:
    """What readers take from the newest commit: the schema, and the history of the columns."""
    writes = snapshot.timeline.write_instants()
    extra = snapshot.timeline.commit_metadata(writes[-1]).extra if writes else {}
    return {name: extra[name] for name in _COLUMNS if name in extra}


def _changes(snapshot: Snapshot, scratch: str, problems: Sequence[Problem]) -> CommitChanges:
    """What repairs single entries of all indexes."""
    table = RepairedTable(snapshot.storage, scratch, snapshot.definitions)
    changes = CommitChanges()
    for name in sorted({problem.index for problem in problems}):
        own = [problem for problem in problems if problem.index == name]
        more = metadata_kind(name).repair(name, own, table)
        changes = replace(
            changes,
            added={**changes.added, **more.added},
            removed={**changes.removed, **more.removed},
            key_notes=(*changes.key_notes, *more.key_notes),
            notes={**changes.notes, **more.notes},
        )
    return changes


def right_records(
    target: Target, snapshot: Snapshot, scratch: str, problems: Sequence[Problem]
) -> dict[str, Change]:
    """What makes the named entries right and changes no other, by index.

    Args:
        target: The table.
        snapshot: Its newest state.
        scratch: A folder for spill files.
        problems: What is wrong, each with the keys of its entries.

    Raises:
        IndexUnusable: an index cannot be computed here.
    """
    names = sorted({problem.index for problem in problems})
    if not names:
        return {}
    stored = StoredSchema.of(snapshot)
    schema = WriteSchema.of(stored.columns, stored)
    plan = plan_metadata(snapshot, target.options.metadata, schema.columns, rows=0)
    facts = write_context(target, snapshot, schema, plan, instant="", scratch=scratch, rows=0)
    slices = _named(snapshot, problems)
    wants = SurveyWants(plan.serving(names))
    found = survey(target.engine, facts, snapshot.history, slices, wants)
    changes = CommitChanges(
        overwritten_partitions=tuple({each.partition: None for each in slices}),
        replaces_ranges=True,
        notes=found.index_notes,
    )
    newest = snapshot.timeline.last_completed
    instant = "" if newest is None else newest.requested_time
    found_records = {
        name: metadata_kind(name).records(name, changes, instant, snapshot.definitions)
        for name in names
    }
    return {
        name: _only(
            records,
            dict.fromkeys(key for each in problems if each.index == name for key in each.entries),
        )
        for name, records in found_records.items()
        if isinstance(records, Change)
    }


def _named(snapshot: Snapshot, problems: Sequence[Problem]) -> list[FileSlice]:
    """The slices that problems are about, all of a partition where one is about that."""
    places = {problem.place for problem in problems}
    return [
        each
        for each in snapshot.slices
        if each.id in places or FileSliceId(each.partition, "") in places
    ]


def _only(change: Change, wanted: dict[str, None]) -> Change:
    """The records of some keys, and marks of deletion for those that have none."""
    keys = pa.array(list(wanted), pa.string())
    kept = pc.is_in(change.keys, value_set=keys)
    records = change.keys.filter(kept)
    gone = keys.filter(pc.invert(pc.is_in(keys, value_set=records)))
    return replace(change, keys=records, values=change.values.filter(kept), deletes=gone)
