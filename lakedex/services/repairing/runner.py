"""Verifies every index, repairs wrong entries, and builds again what cannot be read.

Entries are put right one by one, as long as verifying told all of them. An index with more problems
than that, and one that cannot be read, is built again from the data; a metadata table without a
readable file listing goes as a whole. The data itself is never changed. Files of the timeline are
put right first, as far as the rest of the table tells what they said.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from lakedex.config import keys
from lakedex.errors import CorruptFile, FileMissing, LakedexError, UnsupportedFeature
from lakedex.index.file_index.definitions import file_index_definitions
from lakedex.index.metadata_table import Kind
from lakedex.index.metadata_table.creation import remove_partition
from lakedex.index.registry import (
    built_together,
    find_metadata_kind,
    indexes_behind,
    is_named_index,
    metadata_kind,
)
from lakedex.index.verification.findings import Problem, ProblemKind
from lakedex.services.file_index_creating import rebuild_file_index, repair_file_index
from lakedex.services.index_creating import build_index, rebuilt_index, refresh_index
from lakedex.services.repairing.definitions import (
    forget_unreadable_metadata,
    is_metadata_whole,
    restore_definitions,
)
from lakedex.services.repairing.entries import (
    is_repairable,
    plain_indexes,
    repair_entries,
)
from lakedex.services.repairing.report import RepairReport
from lakedex.services.repairing.timeline_files import mend_timeline
from lakedex.services.verifying import VerifyReport, verify
from lakedex.services.verifying.data_pass import DATA
from lakedex.services.verifying.runner import TIMELINE
from lakedex.services.verifying.timeline_files import check_timeline
from lakedex.storage import split
from lakedex.table import Snapshot
from lakedex.timeline import Action, update_properties
from lakedex.txn.begin import WRITTEN_VERSION
from lakedex.txn.metadata_rollback import drop_metadata
from lakedex.txn.recovery import recover
from lakedex.write import operation as kinds
from lakedex.write.verbs import TableWriter
from lakedex.write.write_target import locked

FILES = Kind.FILES.value
_KNOWN_TO_NOBODY = (
    "what it did cannot be told from the rest of the table: roll the commit back, or restore the "
    "table to an earlier one"
)
log = logging.getLogger("lakedex")


def repair_table(
    writer: TableWriter,
    indexes: Sequence[str] | None = None,
    *,
    accepts_data_loss: bool = False,
) -> RepairReport:
    """Make every index of a table agree with its data.

    Args:
        writer: The table.
        indexes: Only these, by the names of their metadata partitions.
        accepts_data_loss: Whether to go on without data files of the newest snapshot that are gone:
            readers then see what is left, which may be older versions of rows.

    Raises:
        InvalidInput: The table has no index of such a name.
        CommitConflict: Another writer was at work; try again.
    """
    snapshot = writer.snapshot()
    before = verify(snapshot, indexes)
    lost = [p for p in before.problems if p.kind is ProblemKind.LOST]
    if lost and accepts_data_loss:
        gone = _give_up(writer, snapshot)
        return replace(repair_table(writer, indexes), before=before, given_up=gone)
    is_damaged = any(problem.index == TIMELINE for problem in before.problems)
    is_written = snapshot.config.version == WRITTEN_VERSION
    if not is_damaged and not (is_written and snapshot.timeline.pending_of(Action.SAVEPOINT)):
        return _repair_indexes(writer, indexes, snapshot, before)
    mended = mend_timeline(writer.address)
    if mended.is_mended:
        report = repair_table(writer, indexes)
        return replace(
            report,
            before=before,
            put_back=mended.put_back + report.put_back,
            savepoints=mended.savepoints + report.savepoints,
            lost_savepoints={**mended.lost_savepoints, **report.lost_savepoints},
        )
    if is_damaged:
        _check_needed(writer.snapshot())
    report = _repair_indexes(writer, indexes, snapshot, before)
    return replace(report, lost_savepoints=mended.lost_savepoints)


def _repair_indexes(
    writer: TableWriter,
    indexes: Sequence[str] | None,
    snapshot: Snapshot,
    before: VerifyReport,
) -> RepairReport:
    """Put indexes right on a timeline that is as whole as it can be made."""
    if snapshot.readable_definitions is None:
        lost = restore_definitions(writer.address)
        left = None if indexes is None else [name for name in indexes if name not in lost]
        return replace(repair_table(writer, left), before=before, dropped=lost)
    behind = _behind(snapshot, indexes)
    is_whole = is_metadata_whole(snapshot.storage)
    if not _of_indexes(before) and is_whole and not behind:
        return RepairReport(before, before)
    if snapshot.metadata is None or not is_whole or not _is_listing_repairable(before):
        _check_nothing_lost(before)
        return _without_metadata(writer, snapshot, before)
    repaired: Counter[str] = Counter()
    found = before
    if any(problem.index == FILES for problem in _of_indexes(before)):
        # What the listing lacks no other index can be held against.
        repaired.update(_put_right(writer, snapshot, before, {FILES}))
        snapshot = writer.snapshot()
        found = verify(snapshot, indexes)
    pairs = plain_indexes(snapshot)
    wrong = sorted({*_to_rebuild(found, pairs), *behind})
    others = {problem.index for problem in _of_indexes(found)}.difference(wrong, {FILES})
    repaired.update(_put_right(writer, snapshot, found, others))
    beside = _repair_file_indexes(writer, snapshot, found)
    repaired.update(beside)
    wrong = [name for name in wrong if name not in beside]
    for name in wrong:
        _rebuild(writer, name)
    after = verify(writer.snapshot(), indexes)
    # An entry in a file group that is not its own is not reached by its key.
    file_indexes = file_index_definitions(snapshot.config)
    again = {p.index for p in _of_indexes(after) if p.entries or p.index in file_indexes}
    astray = sorted({*_to_rebuild(after)} & pairs | again.intersection(repaired))
    for name in astray:
        _rebuild(writer, name)
    if astray:
        wrong = sorted({*wrong, *astray})
        after = verify(writer.snapshot(), indexes)
    log.info("repaired %s: %s, built again: %s", snapshot.config.name, dict(repaired), wrong)
    return RepairReport(before, after, repaired, tuple(wrong))


def _of_indexes(report: VerifyReport) -> list[Problem]:
    """The problems that can be repaired: neither what only a commit said, nor lost data files."""
    return [
        problem
        for problem in report.problems
        if problem.index != TIMELINE and problem.kind is not ProblemKind.LOST
    ]


def _give_up(writer: TableWriter, snapshot: Snapshot) -> tuple[str, ...]:
    """Take data files of the newest snapshot that are gone out of the listing; their paths."""
    needed = [each.path_of(name) for each in snapshot.slices for name in each.file_names]
    folders = {split(path)[0] for path in needed}
    there = {info.path for folder in folders for info in snapshot.storage.list(folder)}
    gone = tuple(sorted(path for path in needed if path not in there))
    newest = snapshot.timeline.last_completed
    stale = [Problem(FILES, ProblemKind.STALE, path, "it is given up") for path in gone]
    log.warning("%s is read without %s from now on", snapshot.config.name, ", ".join(gone))
    repair_entries(writer.target(), stale, seen=None if newest is None else newest.requested_time)
    return gone


def _check_nothing_lost(report: VerifyReport) -> None:
    """Refuse to list the folders anew while data files are gone: nothing else knows of them."""
    for problem in report.problems:
        if problem.kind is ProblemKind.LOST:
            raise FileMissing(f"the listing cannot be built again: {problem.detail}")


def _check_needed(snapshot: Snapshot) -> None:
    """Raise where something cannot be read that decides on the rows or their columns."""
    timeline = snapshot.timeline
    for instant in timeline.write_instants():
        if instant.action is Action.REPLACECOMMIT or instant == timeline.last_completed:
            try:
                timeline.commit_metadata(instant)
            except CorruptFile as error:
                hint = f"{error.expected} ({_KNOWN_TO_NOBODY})"
                raise CorruptFile(
                    error.path, error.offset, expected=hint, actual=error.actual
                ) from error
    check_timeline(snapshot)


def _behind(snapshot: Snapshot, indexes: Sequence[str] | None) -> set[str]:
    """Indexes that no query asks since another engine wrote, of those that are to be repaired."""
    try:
        found = indexes_behind(snapshot.timeline, snapshot.definitions)
    except LakedexError:
        return set()
    live = found.intersection(snapshot.config.metadata_partitions)
    return set(live if indexes is None else live.intersection(indexes))


def _put_right(
    writer: TableWriter, snapshot: Snapshot, report: VerifyReport, names: set[str]
) -> Counter[str]:
    """Repair entries of these indexes, and answer how many."""
    pairs = plain_indexes(snapshot)
    single = [p for p in report.problems if p.index in names and is_repairable(p, pairs)]
    if single:
        target, newest = writer.target(), snapshot.timeline.last_completed
        seen = None if newest is None else newest.requested_time
        repair_entries(target, single, seen=seen)
    return Counter(problem.index for problem in single)


def _repair_file_indexes(
    writer: TableWriter, snapshot: Snapshot, report: VerifyReport
) -> Counter[str]:
    """Read the files again that file indexes are wrong about; how many problems that repairs."""
    definitions = file_index_definitions(snapshot.config)
    found: dict[str, list[Problem]] = {}
    for problem in report.problems:
        if problem.index in definitions and problem.index not in report.untold:
            found.setdefault(problem.index, []).append(problem)
    for name, problems in found.items():
        repair_file_index(writer, name, {path for each in problems for path in each.entries})
    return Counter({name: len(problems) for name, problems in found.items()})


def _to_rebuild(report: VerifyReport, pairs: Collection[str] = ()) -> list[str]:
    """The indexes that are too wrong, or of a kind that is not put right entry by entry."""
    found = {*report.untold} - {DATA, TIMELINE}
    for problem in _of_indexes(report):
        is_of_data = problem.kind is ProblemKind.DUPLICATE or problem.index == DATA
        if not is_of_data and not is_repairable(problem, pairs):
            found.add(problem.index)
    return sorted(found)


def _is_listing_repairable(report: VerifyReport) -> bool:
    own = [problem for problem in _of_indexes(report) if problem.index == FILES]
    return FILES not in report.untold and all(map(is_repairable, own))


def _rebuild(writer: TableWriter, name: str) -> None:
    """Take one index away and build it from the data."""
    if is_named_index(name):
        refresh_index(writer, name, rebuild=True)
        return
    if name in file_index_definitions(writer.snapshot().config):
        rebuild_file_index(writer, name)
        return
    kind = find_metadata_kind(name)
    if kind is None or not kind.switches:
        raise UnsupportedFeature(f"building the index {name} again (drop it, and create it again)")
    gone = built_together(name)
    target = writer.target()
    with locked(target) as table:
        recover(table)
        left = [each for each in table.config.metadata_partitions if each not in gone]
        update_properties(table.storage, {keys.METADATA_PARTITIONS: ",".join(left)})
        for each in set(gone) & {*table.config.metadata_partitions}:
            remove_partition(target.address, each)
    writer.with_options(_wanting(table.config.metadata_partitions, gone)).run(kinds.INDEX, None)


def _wanting(present: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The options by which a write builds these indexes, also in a table that others wrote.

    Where one of several options asks for an index, the properties of the table say which.
    """
    switches = [metadata_kind(name).switches for name in names if name in present]
    return {of_kind[0].name: "true" for of_kind in switches if len(of_kind) == 1}


def _without_metadata(
    writer: TableWriter, snapshot: Snapshot, before: VerifyReport
) -> RepairReport:
    """Give the whole metadata table up and build it again."""
    names = tuple(sorted(snapshot.config.metadata_partitions))
    named = [name for name in names if is_named_index(name)]
    lost = {name for name in names if find_metadata_kind(name) is None}
    if lost:
        raise UnsupportedFeature(f"building the index {min(lost)} again (drop it first)")
    again = [rebuilt_index(writer, snapshot, name) for name in named]
    forget_unreadable_metadata(writer.address)
    with locked(writer.target()) as table:
        recover(table)
        drop_metadata(table.storage)
    writer.run(kinds.INDEX, None)
    for new in again:
        if new is not None:
            build_index(writer, new)
    return RepairReport(before, verify(writer.snapshot()), rebuilt=names)
