"""Puts single entries right: one commit without rows whose records replace the wrong ones."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakedex.engine import Engine
from lakedex.errors import CommitConflict
from lakedex.filegroup import FileSliceId, parse_data_file
from lakedex.format.spill import SpillWriter
from lakedex.index.metadata_table import Kind
from lakedex.index.metadata_table.deltacommit import commit_changes
from lakedex.index.written import CommitChanges, KeyNote, note_rows
from lakedex.services.verifying.report import Problem, ProblemKind
from lakedex.storage import Storage, split
from lakedex.storage.address import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import CommitMetadata
from lakedex.txn.begin import write_action
from lakedex.txn.transaction import CommitScope, Transaction, TransactionOptions

FILES = Kind.FILES.value
RECORD_INDEX = Kind.RECORD_INDEX.value
_OPERATION = "INDEX"
_COLUMNS = ("schema", "latest_schema")


def is_repairable(problem: Problem) -> bool:
    """Whether an entry can be put right by itself."""
    if problem.kind not in (ProblemKind.WRONG, ProblemKind.MISSING, ProblemKind.STALE):
        return False
    if problem.index == FILES:
        return parse_data_file(split(problem.key)[1], 0) is not None
    return problem.index == RECORD_INDEX and problem.place is not None


def repair_entries(
    address: StorageAddress,
    engine: Engine,
    problems: Sequence[Problem],
    patience: TransactionOptions,
    *,
    seen: str | None,
) -> None:
    """Write the entries that are missing or wrong, and delete those that are stale.

    Args:
        address: Where the table lies.
        engine: Runs the workers that write the record index.
        problems: What is to be put right, as `is_repairable` says.
        patience: How long to wait for other writers.
        seen: The newest completed instant when the problems were found.

    Raises:
        CommitConflict: the table has changed since; nothing was changed.
    """
    storage = address.open()
    with Transaction.begin(
        address, action=write_action(storage), operation=_OPERATION, options=patience
    ) as transaction:
        snapshot = transaction.snapshot
        newest = snapshot.timeline.last_completed
        if (None if newest is None else newest.requested_time) != seen:
            raise CommitConflict("the table was written while it was verified; repair it again")
        transaction.start_writing()
        changes = _changes(storage, transaction.scratch, problems)

        def prepare(scope: CommitScope) -> CommitMetadata:
            if scope.concurrent:
                raise CommitConflict("the table was written while it was repaired; try again")
            commit_changes(address, engine, transaction.instant, changes, next_time=scope.next_time)
            return CommitMetadata({}, _said_of_columns(snapshot), operation_type=_OPERATION)

        transaction.commit(prepare, touched=())


def _said_of_columns(snapshot: Snapshot) -> dict[str, str]:
    """What readers take from the newest commit: the schema, and the history of the columns."""
    writes = snapshot.timeline.write_instants()
    said = snapshot.timeline.commit_metadata(writes[-1]).extra if writes else {}
    return {name: said[name] for name in _COLUMNS if name in said}


def _changes(storage: Storage, scratch: str, problems: Sequence[Problem]) -> CommitChanges:
    added: dict[str, dict[str, int]] = defaultdict(dict)
    removed: dict[str, list[str]] = defaultdict(list)
    for problem in problems:
        if problem.index == FILES:
            partition, name = split(problem.key)
            if problem.kind is ProblemKind.STALE:
                removed[partition].append(name)
            else:
                added[partition][name] = storage.size(problem.key)
    return CommitChanges(
        added=added,
        removed=removed,
        key_notes=_notes(storage, scratch, [p for p in problems if p.index == RECORD_INDEX]),
    )


def _notes(storage: Storage, scratch: str, problems: Sequence[Problem]) -> tuple[KeyNote, ...]:
    if not problems:
        return ()
    places: Mapping[tuple[FileSliceId, bool], list[str]] = _by_place(problems)
    rows = [
        note_rows(pa.array(keys), place.partition, place.file_id, is_delete=is_delete)
        for (place, is_delete), keys in places.items()
    ]
    writer = SpillWriter(storage, f"{scratch}/repair-{uuid.uuid4().hex}")
    segment = writer.add(pa.concat_tables(rows).combine_chunks())
    writer.finish()
    return (KeyNote(0, segment),)


def _by_place(problems: Sequence[Problem]) -> dict[tuple[FileSliceId, bool], list[str]]:
    found: dict[tuple[FileSliceId, bool], list[str]] = defaultdict(list)
    for problem in problems:
        if problem.place is not None:
            found[problem.place, problem.kind is ProblemKind.STALE].append(problem.key)
    return found
