"""Verifies the indexes of a table: starts a check for each, and reads the data for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from lakedex.engine import LocalEngine
from lakedex.errors import (
    CorruptFile,
    FileMissing,
    IndexUnusable,
    InvalidInput,
    LakedexError,
    TimelineDamaged,
)
from lakedex.index.contract import IndexedTable
from lakedex.index.file_index.check import file_index_check
from lakedex.index.file_index.definitions import file_index_definitions
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table.creation import built_at
from lakedex.index.metadata_table.reader import FOLDER as METADATA_FOLDER
from lakedex.index.registry import (
    file_index,
    indexes_behind,
    indexes_outside_metadata,
    metadata_kind,
)
from lakedex.index.verification.check import Check, Subject
from lakedex.index.verification.findings import Findings, ProblemKind
from lakedex.index.verification.keys import foreign_groups
from lakedex.services.verifying.data_pass import Listener, Progress, show_data
from lakedex.services.verifying.report import VerifyReport
from lakedex.services.verifying.timeline_files import (
    check_timeline,
    incomplete_savepoints,
    unreadable_files,
)
from lakedex.table import Snapshot

_METADATA = "metadata table"
TIMELINE: Final = "timeline"
"""What problems are of that lie neither in an index nor in the data."""


def verify(
    snapshot: Snapshot,
    indexes: Sequence[str] | None = None,
    *,
    time_zone: str = "UTC",
    listener: Listener | None = None,
    threads: int | None = None,
) -> VerifyReport:
    """Hold every entry of the live indexes against the data.

    Args:
        snapshot: The newest snapshot of a table, which is what indexes describe.
        indexes: Only these indexes, such as `record_index` or `secondary_index_idx_rider`.
        time_zone: The session zone in which expressions over time are computed.
        listener: Told how many steps are done, and how many there are: slices read and indexes
            compared.
        threads: How many slices are read at a time; as many as there are cores unless told.

    Raises:
        InvalidInput: The snapshot is an older one, or the table has no index of such a name.
    """
    if not snapshot.is_latest:
        raise InvalidInput("indexes describe the newest snapshot; only that can be verified")
    findings = Findings()
    try:
        snapshot.check_timeline()
        check_timeline(snapshot)
    except (CorruptFile, FileMissing, TimelineDamaged) as error:
        # Without it nobody knows what the data is.
        findings.add(TIMELINE, ProblemKind.UNREADABLE, TIMELINE, str(error))
        return VerifyReport.of(findings)
    for problem in unreadable_files(snapshot):
        findings.add(TIMELINE, ProblemKind.UNREADABLE, TIMELINE, problem)
    for note in incomplete_savepoints(snapshot.timeline):
        findings.note(TIMELINE, note)
    try:
        return _verify_indexes(snapshot, indexes, findings, time_zone, listener, threads)
    except (CorruptFile, FileMissing):
        if not findings.problems:
            raise
        return VerifyReport.of(findings)  # what was asked for is among what cannot be read


def _verify_indexes(
    snapshot: Snapshot,
    indexes: Sequence[str] | None,
    findings: Findings,
    time_zone: str,
    listener: Listener | None,
    threads: int | None,
) -> VerifyReport:
    listed = indexes_outside_metadata(snapshot.stored_table)
    outside = {info.name: kind for info, kind in listed}
    of_files = sorted(file_index_definitions(snapshot.config))
    names = _chosen(snapshot, indexes, [*of_files, *outside])
    table = _indexed_table(snapshot, findings, time_zone)
    if table is None:
        # What needs no metadata table is verified all the same.
        names = [name for name in names if name in outside and not outside[name].needs_metadata]
        if not names:
            return VerifyReport.of(findings)
        of_files = []
        table = snapshot.unindexed_table(time_zone=time_zone)
    subject = Subject(
        table,
        snapshot.listing.files,
        findings,
        snapshot.visibility.logs_name_own_instant,
        LocalEngine(threads),
    )
    behind = indexes_behind(snapshot.timeline, table.definitions)
    there = {*snapshot.config.metadata_partitions, *of_files} - behind
    live = [name for name in names if name in there]
    verified = [*live, *(name for name in outside if name in names)]
    started = (_started(name, outside.get(name), subject) for name in verified)
    checks = [check for check in started if check is not None]
    _note_unused(subject, sorted({*names} - {*verified}))
    progress = Progress(len(subject.slices) + len(checks), listener)
    try:
        show_data(subject, checks, progress)
        for check in checks:
            check.guarded(check.finish)
            progress.step()
    finally:
        for check in checks:
            check.close()
    return VerifyReport.of(findings)


def _indexed_table(snapshot: Snapshot, findings: Findings, time_zone: str) -> IndexedTable | None:
    """The table with its metadata table; None where that cannot be read, with the reason."""
    metadata = snapshot.metadata
    if metadata is None:
        if snapshot.metadata_problem:
            findings.add(_METADATA, ProblemKind.UNREADABLE, _METADATA, snapshot.metadata_problem)
        else:
            findings.note(_METADATA, "the table has none, so there is no index to verify in it")
        return None
    metadata.read_anew()
    try:
        _ = snapshot.definitions
    except LakedexError as error:
        path = str(snapshot.config.index_defs_path)
        findings.add(_METADATA, ProblemKind.UNREADABLE, path, str(error))
        return None
    return snapshot.indexed_table(time_zone=time_zone)


def _note_unused(subject: Subject, names: Sequence[str]) -> None:
    """Note why indexes are not used by queries."""
    config = subject.read.config
    for name in names:
        state = "is defined, but not live"
        if name in config.metadata_partitions_inflight:
            state = "is still being built"
        elif name in config.metadata_partitions:
            state = "was not kept up by another engine (REFRESH INDEX)"
        elif name not in subject.definitions:
            continue
        subject.findings.note(name, f"it {state}: no query uses it, and it was not verified")


def _chosen(snapshot: Snapshot, indexes: Sequence[str] | None, beside: Sequence[str]) -> list[str]:
    """The names to verify; `beside` are those of indexes outside of the metadata table."""
    config = snapshot.config
    known = {*config.metadata_partitions, *config.metadata_partitions_inflight, *beside}
    with suppress(LakedexError):
        known |= {*snapshot.definitions}
    if indexes is None:
        return sorted(known)
    if isinstance(indexes, str):
        raise InvalidInput(f"indexes must be a list of names, not the text {indexes!r}")
    for name in indexes:
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise InvalidInput(f"the table has no index {name!r}; it has {names}")
    return list(dict.fromkeys(indexes))


def _started(name: str, kind: MetadataIndexKind | None, subject: Subject) -> Check | None:
    """The check of an index; `kind` is that of an index outside of the metadata table."""
    findings = subject.findings
    findings.checked[name] += 0
    try:
        if name in file_index_definitions(subject.read.config):
            return file_index_check(file_index(name, subject.read.config), subject)
        if kind is None:
            kind = metadata_kind(name)
            _check_file_groups(name, subject)
        return kind.check(name, subject)
    except LakedexError as error:
        findings.add(name, ProblemKind.UNREADABLE, name, str(error))
        return None


def _check_file_groups(name: str, subject: Subject) -> None:
    definition = subject.definitions.get(name)
    # One that has file groups for each partition has none where there is no partition.
    may_be_empty = definition is not None and definition.is_partitioned and not subject.slices
    metadata = subject.metadata
    if not metadata.groups(name) and not may_be_empty:
        raise InvalidInput("it is live, but has no file groups")
    times = built_at(metadata.storage, name)
    if lost := [each for each in times if not metadata.timeline.is_committed_write(each)]:
        folder = f"{METADATA_FOLDER}/{metadata.timeline.config.timeline_folder}"
        raise IndexUnusable(f"{min(lost)}, which built it, is missing from {folder}")
    foreign = foreign_groups(metadata, name)
    if foreign:
        listed = ", ".join(foreign)
        subject.findings.note(name, f"file groups of another index are in its folder: {listed}")
