"""Instants that a table had and whose files are gone from the timeline.

Every write of a table with a metadata table completes there first, under the same instant time. So
an instant that the metadata table has completed is on the timeline of the data table, pending or
completed, or in its archive, or was rolled back. One that is nowhere was lost with its files, and
what it wrote would silently not be read. Without any instant at all, data files or an archive show
a lost timeline from a new table.

These checks need nothing but the two timelines that readers and writers list anyway. More is read
only of what looks lost: another process may have written, archived or rolled back since the
listing, and a build of an index has an instant of its own in the metadata table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from lakedex.errors import CorruptFile, FileMissing, IndexUnusable, TimelineDamaged
from lakedex.filegroup import parse_data_file
from lakedex.index.metadata_table.instants import may_be_of_data
from lakedex.index.metadata_table.reader import FOLDER as METADATA_FOLDER
from lakedex.storage import Storage
from lakedex.timeline import (
    Action,
    Instant,
    PlanKind,
    QueryTime,
    State,
    Timeline,
    instant_key,
    parse_query_time,
    read_plan,
)
from lakedex.timeline.instant_time import is_instant_time
from lakedex.timeline.timeline import EARLIEST

_META_FOLDER = ".hoodie/"
"""The metadata table's own instants, which build its first partitions, start with this."""
_SUFFIX_DIGITS = 3
"""Tables of version 6 number operations of the metadata table behind the instant of the data."""
_FILES = "files"
_OLD_LAYOUT = 1
_MOST_NAMED = 5
_MOST_KEPT = 4096
_explained: set[tuple[str, str]] = set()
"""Root of a table and instant: of these is known that they are not lost."""
_archived_up_to: dict[str, tuple[str, str]] = {}
"""Root of a table: where its active timeline begins, and the newest instant of its archive."""


def check_instants(data: Timeline, metadata: Timeline | None) -> None:
    """Refuse a timeline that lacks instants.

    Args:
        data: The active timeline of the data table.
        metadata: That of its metadata table, if it has one.

    Raises:
        TimelineDamaged: it names the instants, or the folder when all are gone.
    """
    if is_timeline_lost(data, metadata):
        raise TimelineDamaged(
            data.config.timeline_folder,
            f"the table at {data.storage.root} has data, but no instant that wrote it",
        )
    lost = lost_instants(data, metadata)
    if lost:
        raise TimelineDamaged(
            data.config.timeline_folder,
            f"{_missing(lost)}, which the metadata table of {data.storage.root} has",
        )


def metadata_problem(data: Timeline, metadata: Timeline) -> str | None:
    """Why a metadata table does not know all of its data table: it lost instants of its own.

    It has to have every write that completed since it was made. Where one is missing, its list of
    files and its indexes are those of an earlier state.
    """
    folder = f"{METADATA_FOLDER}/{metadata.config.timeline_folder}"
    completed = metadata.completed()
    if not completed:
        return f"{folder} has no completed instant"
    times = {each.requested_time for each in completed}
    absent = [
        each.requested_time
        for each in _writes_since(data, metadata)
        if each.requested_time not in times
    ]
    if not absent:
        return None
    return f"{folder} lacks the completed {_listed(absent)}"


def check_metadata(data: Timeline, metadata: Timeline) -> None:
    """Refuse to go on writing a metadata table that lacks writes of its data table.

    Raises:
        IndexUnusable: it names the instants.
    """
    problem = metadata_problem(data, metadata)
    if problem is not None:
        raise IndexUnusable(
            f"the metadata table of {data.storage.root} cannot be written: {problem}; "
            "`lakedex repair` builds it again"
        )


def _writes_since(data: Timeline, metadata: Timeline) -> list[Instant]:
    """The completed writes of the data table that came after its metadata table was made.

    A table of an older version has no completion times, or times that an upgrade made up: there
    only what began after the first write that the metadata table has counts.
    """
    completed, writes = metadata.completed(), data.write_instants()
    if data.config.made_with_layout_2:
        made = min(instant_key(each.completion_time or each.requested_time) for each in completed)
        return [each for each in writes if instant_key(each.completion_time or "") > made]
    known = [instant_key(e.requested_time) for e in completed if may_be_of_data(e, metadata)]
    first = min(known, default=None)
    return [e for e in writes if first is not None and instant_key(e.requested_time) > first]


def check_archive(timeline: Timeline, written: Iterable[str], begin: QueryTime) -> None:
    """Refuse an archive that lacks instants whose files the table has.

    Args:
        timeline: The timeline with its archive.
        written: The instants that files were written by.
        begin: Older instants than this time do not matter.

    Raises:
        TimelineDamaged: it names the folder of the archive and the instants.
    """
    first = timeline.first_active
    if first is None:
        return
    config = timeline.config
    end = instant_key(first.requested_time)
    low = "" if begin in EARLIEST else parse_query_time(begin, config.timezone)
    if low >= end:
        return
    old = {time for time in written if is_instant_time(time) and low < instant_key(time) < end}
    # A commit with a savepoint stays in the active timeline when archiving goes past it.
    old = {time for time in old if timeline.find(time) is None}
    lost = sorted(time for time in old if timeline.archived.find(time) is None)
    if lost:
        folder = config.archive_folder
        if config.timeline_layout != _OLD_LAYOUT:
            folder = config.history_folder
        problem = f"{_missing(lost)}, which wrote files of the table"
        raise TimelineDamaged(folder, problem, can_be_rebuilt=False)


def check_still_there(seen: Timeline, now: Timeline) -> None:
    """Refuse a timeline that lacks writes which it had completed when it was seen before.

    Archived ones and those that were taken back are not missing. Where none of them is left, the
    table was made again.

    Raises:
        TimelineDamaged: it names the instants.
    """
    times = [each.requested_time for each in seen.write_instants()]
    gone = [time for time in times if now.find(time) is None]
    if not gone or len(gone) == len(times):
        return
    gone = [time for time in gone if now.archived.find(time) is None]
    undone = frozenset(_undone(now)) if gone else ()
    lost = [time for time in gone if time not in undone]
    if lost:
        raise TimelineDamaged(
            now.config.timeline_folder, f"{_missing(lost)}, which the timeline had before"
        )


def _missing(times: Sequence[str]) -> str:
    return f"{_listed(times)} {'is' if len(times) == 1 else 'are'} missing"


def _listed(times: Sequence[str]) -> str:
    return ", ".join(times[:_MOST_NAMED]) + (", ..." if len(times) > _MOST_NAMED else "")


def is_timeline_lost(data: Timeline, metadata: Timeline | None) -> bool:
    """Whether a table without completed instants had some: its data was written by some."""
    if any(each.is_completed for each in data.instants):
        return False
    if not _has_been_written(data, metadata):
        return False
    # The first write of a new table may have begun, and ended, since the timeline was listed.
    now = Timeline.load(data.storage, data.config)
    return not any(each.is_completed for each in now.instants) and _has_been_written(now, metadata)


def lost_instants(data: Timeline, metadata: Timeline | None) -> list[str]:
    """The instants that the metadata table has completed and the data table has in no state."""
    if metadata is None:
        return []
    root = data.storage.root
    suspects = [
        each
        for each in metadata.instants
        if may_be_of_data(each, metadata)
        and data.find(each.requested_time) is None
        and data.find(each.requested_time[:-_SUFFIX_DIGITS]) is None
        and (root, each.requested_time) not in _explained
    ]
    if not suspects:
        return []
    now = _Explanation(data, metadata)
    lost = []
    for each in suspects:
        if not now.explains(each):
            lost.append(each.requested_time)
        elif len(_explained) < _MOST_KEPT and now.is_lasting(each):
            _explained.add((root, each.requested_time))
    return lost


class _Explanation:
    """Why an instant of the metadata table may be absent from the timeline of the data table."""

    def __init__(self, data: Timeline, metadata: Timeline) -> None:
        self._metadata = metadata
        self._data = data
        self._is_fresh = False
        self._undone: frozenset[str] | None = None

    def explains(self, instant: Instant) -> bool:
        """Whether nothing is lost with an instant that is not there."""
        time, first = instant.requested_time, self._data.first_active
        if first is not None and instant_key(time) < instant_key(first.requested_time):
            if self._is_in_archive(time):
                return True
        elif self._now().find(time) is not None:
            return True
        return (
            self._is_own_instant(instant)
            or self._now().find(time) is not None
            or self._now().archived.find(time) is not None
            or time in self._rolled_back()
        )

    def is_lasting(self, instant: Instant) -> bool:
        """Whether the same is true for as long as the table lives."""
        return self._is_own_instant(instant)

    def _now(self) -> Timeline:
        """The timeline once more: it was listed before that of the metadata table."""
        if not self._is_fresh:
            self._data = Timeline.load(self._data.storage, self._data.config)
            self._is_fresh = True
        return self._data

    def _is_in_archive(self, time: str) -> bool:
        """Whether archiving went past an instant; the oldest instants go first, without a gap."""
        data, first = self._data, self._data.first_active
        if data.config.timeline_layout == _OLD_LAYOUT or first is None:
            return True
        root = data.storage.root
        known = _archived_up_to.get(root)
        if known is None or known[0] != first.requested_time:
            newest = data.archived.newest()
            known = first.requested_time, "" if newest is None else instant_key(newest)
            _archived_up_to[root] = known
        return instant_key(time) <= known[1]

    def _is_own_instant(self, instant: Instant) -> bool:
        """Whether it only built an index, or brought a metadata table in line after a restore."""
        try:
            written = self._metadata.commit_metadata(instant).partition_to_stats
        except FileMissing:
            return True  # taken back, or archived, since the metadata table was listed
        except CorruptFile:
            return False
        if written and _FILES not in written:
            return True
        restores = [e for e in self._metadata.completed() if e.action is Action.RESTORE]
        if not restores or instant < restores[-1]:
            return False
        since = [
            e
            for e in self._metadata.completed()
            if restores[-1] < e and may_be_of_data(e, self._metadata)
        ]
        return since[0] == instant

    def _rolled_back(self) -> frozenset[str]:
        """The instants that rollbacks and restores on the timeline name."""
        if self._undone is None:
            self._undone = frozenset(_undone(self._now()))
        return self._undone


def _has_been_written(data: Timeline, metadata: Timeline | None) -> bool:
    if metadata is not None and any(
        may_be_of_data(each, metadata) and data.find(each.requested_time) is None
        for each in metadata.instants
    ):
        return True
    with suppress(CorruptFile, FileMissing):
        if data.archived.newest() is not None:
            return True
    return any(data.find(time) is None for time in _written_times(data.storage))


def _written_times(storage: Storage) -> Iterator[str]:
    """The instants in the names of all data files."""
    for info in storage.list_recursive():
        if not info.path.startswith(_META_FOLDER):
            parsed = parse_data_file(info.path.rpartition("/")[2], 0)
            if parsed is not None:
                yield parsed.instant_time


def _undone(timeline: Timeline) -> Iterator[str]:
    for each in timeline.instants:
        requested = Instant(each.requested_time, each.action, State.REQUESTED)
        try:
            if each.action is Action.ROLLBACK and each.is_completed:
                record = read_plan(PlanKind.ROLLBACK_METADATA, timeline.read(each))
                yield from record["commitsRollback"] or ()
            elif each.action is Action.ROLLBACK:
                record = read_plan(PlanKind.ROLLBACK_PLAN, timeline.read(requested))
                yield (record["instantToRollback"] or {}).get("commitTime") or ""
            elif each.action is Action.RESTORE and each.is_completed:
                record = read_plan(PlanKind.RESTORE_METADATA, timeline.read(each))
                yield from record["instantsToRollback"] or ()
            elif each.action is Action.RESTORE:
                record = read_plan(PlanKind.RESTORE_PLAN, timeline.read(requested))
                yield from (info["commitTime"] for info in record["instantsToRollback"] or ())
        except (CorruptFile, FileMissing):
            continue
