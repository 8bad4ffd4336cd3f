"""Takes a table back to an earlier commit: every later instant is undone, the newest first.

    R.restore.requested   HoodieRestorePlan: the instants to undo, and the commit to go back to
    R.restore.inflight    empty
    R_C.restore           HoodieRestoreMetadata: what was removed for each of them

After each of them the table is as it was before that commit, so readers see a completed state all
the time. A restore that was cut short pends, and the next writer ends it before it begins.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakedex.errors import CorruptFile, FileMissing
from lakedex.table.bucket_index import is_resize
from lakedex.timeline import (
    Action,
    Instant,
    PlanKind,
    State,
    instant_key,
    read_plan,
    write_plan,
)
from lakedex.timeline.instant_time import is_instant_time
from lakedex.txn.markers import marked_files
from lakedex.txn.metadata_rollback import forget_in_metadata
from lakedex.txn.rollback import (
    REPLACING,
    LockedTable,
    RollbackPlan,
    files_of,
    files_written,
    outcome_record,
    remove_instant,
    take_back,
    write_once,
)
from lakedex.txn.working_folders import heartbeat_path, writer_path

_PLAN_VERSION = 2
_ACTIONS = {action.value: action for action in Action}
_log = logging.getLogger("lakedex")


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The commit to go back to, and the instants to undo, in the order in which that is done."""

    target: str
    instants: tuple[tuple[str, Action], ...]

    def encode(self) -> bytes:
        """The content of the requested file."""
        record = {
            "instantsToRollback": _infos(self.instants),
            "version": _PLAN_VERSION,
            "savepointToRestoreTimestamp": self.target,
        }
        return write_plan(PlanKind.RESTORE_PLAN, record)

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> RestorePlan:
        """The plan in a requested file, of any engine.

        Raises:
            CorruptFile: the bytes are no such plan.
        """
        record = read_plan(PlanKind.RESTORE_PLAN, data, path=path)
        found = []
        for info in record["instantsToRollback"]:
            action = _ACTIONS.get(info["action"])
            if action is None or not is_instant_time(info["commitTime"]):
                raise CorruptFile(path, 0, expected="an instant to undo", actual=info)
            found.append((info["commitTime"], action))
        return cls(record["savepointToRestoreTimestamp"] or "", tuple(found))


def restore(table: LockedTable, target: str, instants: Sequence[Instant]) -> str:
    """Undo instants in the given order, and answer the time of the restore.

    The caller has made sure that nobody writes, and that the files of the target are there.
    """
    plan = RestorePlan(target, tuple((each.requested_time, each.action) for each in instants))
    time_of = table.next_time()
    with table.claim(time_of):
        requested = Instant(time_of, Action.RESTORE, State.REQUESTED)
        write_once(table.storage, table.config, requested, plan.encode())
        _finish(table, time_of, plan)
    return time_of


def resume_restore(table: LockedTable, pending: Instant) -> None:
    """End a restore that was cut short, or drop it where its plan cannot be read."""
    table.check()
    time_of = pending.requested_time
    requested = Instant(time_of, Action.RESTORE, State.REQUESTED)
    try:
        data = table.timeline().read(requested)
        plan = RestorePlan.decode(data, path=f"restore {time_of}")
    except (CorruptFile, FileMissing) as error:
        _log.warning("dropping the pending restore %s: %s", time_of, error)
        remove_instant(table.storage, table.config, time_of, Action.RESTORE)
        return
    _log.warning("finishing the restore %s to %s", time_of, plan.target)
    _finish(table, time_of, plan)
    table.storage.delete(heartbeat_path(time_of))
    table.storage.delete(writer_path(time_of))


def _finish(table: LockedTable, time_of: str, plan: RestorePlan) -> None:
    begun = time.monotonic()
    storage, config = table.storage, table.config
    write_once(storage, config, Instant(time_of, Action.RESTORE, State.INFLIGHT), b"")
    # Others may have committed since, if this process stood still: theirs would be given up too.
    table.check()
    forget_in_metadata(storage, table.timeline(), [instant for instant, _ in plan.instants])
    done: dict[str, list[dict[str, Any]]] = {}
    for instant, action in plan.instants:
        started = time.monotonic()
        whole = take_back(
            table,
            table.next_time(),
            _rollback_plan(table, plan, instant, action),
            keeps_plan=_was_planned(table, instant, action, plan.target),
        )
        taken_ms = int((time.monotonic() - started) * 1000)
        done[instant] = [outcome_record(storage, time_of, whole, taken_ms)]
    record = {
        "startRestoreTime": time_of,
        "timeTakenInMillis": int((time.monotonic() - begun) * 1000),
        "instantsToRollback": [instant for instant, _ in plan.instants],
        "hoodieRestoreMetadata": done,
        "version": 1,
        "restoreInstantInfo": _infos(plan.instants),
    }
    completed = Instant(time_of, Action.RESTORE, State.COMPLETED, table.next_time())
    data = write_plan(PlanKind.RESTORE_METADATA, record)
    write_once(storage, config, completed, data)
    _log.info("restored %s to %s: %d instants undone", storage.root, plan.target, len(done))


def _was_planned(table: LockedTable, instant: str, action: Action, target: str) -> bool:
    """Whether a resize was planned before the commit that is restored, and completed after it.

    Then it is a plan again: writes that stay may have given rows to its new buckets.
    """
    timeline = table.timeline()
    found, kept = timeline.find(instant), timeline.find(target)
    if found is None or kept is None or action not in (Action.CLUSTERING, Action.REPLACECOMMIT):
        return False
    is_older = instant_key(instant) < instant_key(timeline.change_time(kept))
    return is_older and is_resize(timeline, found)


def _rollback_plan(
    table: LockedTable, plan: RestorePlan, instant: str, action: Action
) -> RollbackPlan:
    """An instant with its files, however far its undoing has come."""
    timeline = table.timeline()
    found = timeline.find(instant)
    files = set(marked_files(table.storage, instant))
    if found is not None and found.is_completed:
        files.update(files_written(timeline, found))
    elif action is action.completed:
        # It was complete when this was planned, and what it wrote is no longer said anywhere.
        # The log files that it gave to new buckets have the time of the resize in their names.
        resizes = {time_of for time_of, undone in plan.instants if undone in REPLACING}
        resizes.update(each.requested_time for each in timeline.pending_of(*REPLACING))
        files.update(files_of(table.storage, instant, action, resizes))
    return RollbackPlan(instant, action, tuple(sorted(files)))


def _infos(instants: Sequence[tuple[str, Action]]) -> list[dict[str, str]]:
    return [{"commitTime": instant, "action": action.value} for instant, action in instants]
