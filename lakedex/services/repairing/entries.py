"""Puts single entries right: one commit without rows whose records replace the wrong ones."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakedex.errors import CommitConflict
from lakedex.filegroup import FileSliceId, parse_data_file
from lakedex.format.spill import SpillWriter
from lakedex.index.kinds.secondary.composite import kept_note
from lakedex.index.kinds.secondary.key_encoding import is_sure
from lakedex.index.kinds.secondary.pairs import PREFIX
from lakedex.index.metadata_table import Kind
from lakedex.index.metadata_table.deltacommit import commit_changes
from lakedex.index.metadata_table.hashing import java_hashes
from lakedex.index.metadata_table.keys import placed_values_of_secondary
from lakedex.index.metadata_table.pair_writer import PAIR_SCHEMA
from lakedex.index.written import CommitChanges, KeyNote, PairNotes, note_rows
from lakedex.schema.field_paths import type_at
from lakedex.services.repairing.file_records import is_by_file, right_records
from lakedex.services.verifying.report import Problem, ProblemKind
from lakedex.storage import Storage, split
from lakedex.table import Snapshot
from lakedex.timeline import CommitMetadata, load_table_config
from lakedex.txn.begin import write_action
from lakedex.txn.transaction import CommitScope, Transaction
from lakedex.write.context import Target

FILES = Kind.FILES.value
RECORD_INDEX = Kind.RECORD_INDEX.value
_OPERATION = "INDEX"
_COLUMNS = ("schema", "latest_schema")


def is_repairable(problem: Problem, pairs: Collection[str] = ()) -> bool:
    """Whether an entry can be put right by itself; `pairs` are indexes by `plain_secondary`."""
    if problem.entries:
        return is_by_file(problem.index)
    if problem.kind not in (ProblemKind.WRONG, ProblemKind.MISSING, ProblemKind.STALE):
        return False
    if problem.index == FILES:
        return parse_data_file(split(problem.key)[1], 0) is not None
    if problem.index in pairs:
        return problem.kind is not ProblemKind.WRONG
    return problem.index == RECORD_INDEX and problem.place is not None


def plain_secondary(snapshot: Snapshot) -> frozenset[str]:
    """The secondary indexes whose entries are nothing but their keys, which verifying names."""
    schema = snapshot.schema
    return frozenset(
        name
        for name in snapshot.config.metadata_partitions
        if name.startswith(PREFIX)
        and (known := snapshot.definitions.get(name)) is not None
        and known.names_columns
        and not known.is_covering
        and all(
            (kind := type_at(each, schema)) is not None and is_sure(kind)
            for each in known.source_fields
        )
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
            said = _said_of_columns(snapshot) | kept_note(snapshot.timeline, snapshot.definitions)
            return CommitMetadata({}, said, operation_type=_OPERATION)

        transaction.commit(prepare, touched=())


def _said_of_columns(snapshot: Snapshot) -> dict[str, str]:
    """What readers take from the newest commit: the schema, and the history of the columns."""
    writes = snapshot.timeline.write_instants()
    said = snapshot.timeline.commit_metadata(writes[-1]).extra if writes else {}
    return {name: said[name] for name in _COLUMNS if name in said}


def _changes(snapshot: Snapshot, scratch: str, problems: Sequence[Problem]) -> CommitChanges:
    storage = snapshot.storage
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
        pairs={
            name: _pairs(snapshot, scratch, name, [p for p in problems if p.index == name])
            for name in {p.index for p in problems if p.index.startswith(PREFIX)}
        },
    )


def _pairs(snapshot: Snapshot, scratch: str, name: str, problems: Sequence[Problem]) -> PairNotes:
    """The pairs that a secondary index lacks, and those that it should not have."""
    definition = snapshot.definitions[name]
    keys = pa.array([problem.key for problem in problems], pa.string())
    columns = len(definition.source_fields)
    placed = placed_values_of_secondary(keys, columns) if definition.is_placed_by_value else keys
    stale = [problem.kind is ProblemKind.STALE for problem in problems]
    # What is no key of such an index at all lies in any group: it is not found, and left.
    hashes = java_hashes(placed.fill_null(""))
    rows = pa.table([keys, pa.array(hashes), pa.array(stale)], PAIR_SCHEMA)
    return PairNotes(1, (_noted(snapshot.storage, scratch, rows),))


def _notes(storage: Storage, scratch: str, problems: Sequence[Problem]) -> tuple[KeyNote, ...]:
    if not problems:
        return ()
    places: Mapping[tuple[FileSliceId, bool], list[str]] = _by_place(problems)
    rows = [
        note_rows(pa.array(keys), place.partition, place.file_id, is_delete=is_delete)
        for (place, is_delete), keys in places.items()
    ]
    return (_noted(storage, scratch, pa.concat_tables(rows)),)


def _noted(storage: Storage, scratch: str, rows: pa.Table) -> KeyNote:
    writer = SpillWriter(storage, f"{scratch}/repair-{uuid.uuid4().hex}")
    segment = writer.add(rows.combine_chunks())
    writer.finish()
    return KeyNote(0, segment)


def _by_place(problems: Sequence[Problem]) -> dict[tuple[FileSliceId, bool], list[str]]:
    found: dict[tuple[FileSliceId, bool], list[str]] = defaultdict(list)
    for problem in problems:
        if problem.place is not None:
            found[problem.place, problem.kind is ProblemKind.STALE].append(problem.key)
    return found
