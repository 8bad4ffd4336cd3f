"""Timeline files that cannot be read, put right by what the rest of the table tells.

A plan that nobody has run changes nothing, so it goes; another one is made when it is due. What a
clean did stands in its plan too, and what a commit did, or a savepoint keeps, in the files of that
time (`commit_files.py`). A savepoint that lost its completed file is completed again. Instants
whose files are all gone are put back by what the metadata table has of them (`lost_commits.py`).
The manifest of the archived timeline names files that are there, and is written again. What an
archive said, and which rows an overwrite took away, is recorded nowhere else: that is named, and
stays.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakedex.errors import CorruptFile, FileMissing, LakedexError, UnsafePath
from lakedex.services.repairing.commit_files import rebuilt_commit
from lakedex.services.repairing.lost_commits import rebuild_lost_instants
from lakedex.services.verifying.timeline_files import read_completed
from lakedex.storage import Storage
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.own_properties import (
    own_properties_problem,
    read_own_properties,
    write_own_properties,
)
from lakedex.timeline import (
    Action,
    Instant,
    State,
    Timeline,
    encode_commit_metadata,
    file_name,
    load_table_config,
)
from lakedex.timeline.clean_plan import CleanOutcome, clean_metadata, read_clean_plan
from lakedex.timeline.history_writer import restore_manifest
from lakedex.timeline.lsm_history import history_problem
from lakedex.timeline.properties_file import PROPERTIES_PATH, restore_properties
from lakedex.txn.begin import locked_table
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import is_being_run
from lakedex.txn.rollback import LockedTable, forget, roll_back
from lakedex.txn.rollback_files import remove_instant
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.savepoints import complete_savepoint, rebuilt_savepoint

_LAYOUT_WITH_MANIFESTS = 2
_log = logging.getLogger("lakedex")


@dataclass(frozen=True, slots=True)
class MendedTimeline:
    """What was put right."""

    is_mended: bool
    """Whether there was anything."""
    put_back: tuple[str, ...]
    """The instants that were lost and are there again."""
    savepoints: tuple[str, ...] = ()
    """The savepoints that are complete again."""
    lost_savepoints: Mapping[str, str] = field(default_factory=dict)
    """Why others cannot be completed, by their instants."""


def mend_timeline(address: StorageAddress) -> MendedTimeline:
    """Put right what can be."""
    storage, patience = address.open(), TransactionOptions()
    with open_lock(storage, patience.lock) as lock:
        is_mended = _mend_properties(storage)
        config = load_table_config(storage)
        if config.timeline_layout == _LAYOUT_WITH_MANIFESTS:
            problem = history_problem(storage, config.history_folder)
            if problem is not None:
                _log.warning("the archived timeline is listed again: %s", problem)
                restore_manifest(storage, config.history_folder)
                is_mended = True
        table = locked_table(storage, lock, patience.heartbeat, may_lack_instants=True)
        put_back = rebuild_lost_instants(table)
        is_mended = bool(put_back) or is_mended
        timeline = table.timeline()
        for instant in timeline.completed():
            mend = _mend_clean if instant.action is Action.CLEAN else _mend_by_files
            is_mended = mend(table, timeline, instant) or is_mended
        for instant in timeline.pending_of(*_PLANS):
            if _is_readable(timeline, instant) or is_being_run(table, instant):
                continue
            _log.warning("the plan %s cannot be read, it goes", instant.requested_time)
            if instant.state is State.REQUESTED:
                remove_instant(storage, config, instant.requested_time, instant.action)
                forget(storage, instant.requested_time)
            else:
                roll_back(table, instant, drops_plan=True)
            is_mended = True
        savepoints, lost = _complete_savepoints(table, put_back)
        is_mended = bool(savepoints) or is_mended
    return MendedTimeline(is_mended, put_back, savepoints, lost)


def _complete_savepoints(
    table: LockedTable, put_back: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Complete the savepoints that lost a file, and tell why where that is not possible.

    A savepoint that was lost together with its commit is named by the cleans that kept its files.
    """
    timeline = table.timeline()
    known = _savepoints_of_newest_clean(timeline).intersection(put_back)
    pending = {each.requested_time for each in timeline.pending_of(Action.SAVEPOINT)}
    completed, lost = [], {}
    for time in sorted(pending | known.difference(timeline.savepoints())):
        try:
            complete_savepoint(table, time)
        except LakedexError as error:
            _log.warning("the savepoint %s cannot be completed: %s", time, error)
            lost[time] = str(error)
        else:
            _log.warning("the savepoint %s is complete again", time)
            completed.append(time)
    return tuple(completed), lost


def _savepoints_of_newest_clean(timeline: Timeline) -> frozenset[str]:
    cleans = [each for each in timeline.completed() if each.action is Action.CLEAN]
    if not cleans:
        return frozenset()
    try:
        outcome = CleanOutcome.decode(timeline.read(cleans[-1]), path=cleans[-1].requested_time)
    except CorruptFile:
        return frozenset()
    return outcome.savepoints


def _mend_properties(storage: Storage) -> bool:
    """Write the properties files again that are damaged, by their copies; whether one was."""
    is_mended = restore_properties(storage)
    if is_mended:
        _log.warning("%s is written again by its backup", PROPERTIES_PATH)
    if own_properties_problem(storage) is not None:
        write_own_properties(storage, read_own_properties(storage))
        is_mended = True
    return is_mended


def _mend_by_files(table: LockedTable, timeline: Timeline, instant: Instant) -> bool:
    """Write a commit or savepoint again, by its files; whether that was needed and possible."""
    if not (instant.action.is_write or instant.action is Action.SAVEPOINT):
        return False
    try:
        read_completed(timeline, instant)
    except CorruptFile as error:
        try:
            data = _told_by_files(Snapshot(table.storage, table.config, timeline), instant)
        except LakedexError as reason:
            _log.warning("%s stays as it is: %s", error.path, reason)
            return False
        _log.warning("%s is written again by the files of the commit: %s", error.path, error)
        _rewrite(table, instant, data)
        return True
    except FileMissing:
        pass  # archived meanwhile
    return False


def _told_by_files(snapshot: Snapshot, instant: Instant) -> bytes:
    if instant.action is Action.SAVEPOINT:
        return rebuilt_savepoint(snapshot, instant.requested_time)
    return encode_commit_metadata(rebuilt_commit(snapshot, instant), action=instant.action)


def _rewrite(table: LockedTable, instant: Instant, data: bytes) -> None:
    name = file_name(instant, table.config.timeline_layout)
    table.check()
    table.storage.replace(f"{table.config.timeline_folder}/{name}", data)


def _mend_clean(table: LockedTable, timeline: Timeline, instant: Instant) -> bool:
    """Write what a completed clean did again, by its plan; whether that was needed and possible."""
    time = instant.requested_time
    try:
        read_completed(timeline, instant)
    except CorruptFile as error:
        try:
            plan = read_clean_plan(timeline, time)
        except (CorruptFile, FileMissing, UnsafePath):
            return False
        _log.warning("the clean %s is written again by its plan: %s", time, error)
        data = clean_metadata(plan, time, plan.files, 0, plan.partitions)
        _rewrite(table, instant, data)
        return True
    return False


_PLANS = {
    Action.COMPACTION: Timeline.compaction_plan,
    Action.LOGCOMPACTION: Timeline.compaction_plan,
    Action.CLUSTERING: Timeline.requested_replace,
}


def _is_readable(timeline: Timeline, instant: Instant) -> bool:
    try:
        _PLANS[instant.action](timeline, instant.requested_time)
    except (CorruptFile, FileMissing):
        return False
    return True
