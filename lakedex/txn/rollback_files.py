"""The files of a rollback, in Hudi's form, for the data table and for the metadata table.

    R.rollback.requested   HoodieRollbackPlan: the instant, and the files to delete
    R.rollback.inflight    empty
    R_C.rollback           HoodieRollbackMetadata: the files that were deleted

Addresses in them are absolute, as the JVM writes them; of what others wrote only the partition
and the last part are used.

Files that a marker names and no write stat does are orphans of attempts that were not needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from lakedex.config import TableConfig
from lakedex.errors import AlreadyExists, CorruptFile, UnsafePath
from lakedex.storage import Storage, join, split
from lakedex.timeline import (
    Action,
    CommitMetadata,
    Instant,
    PlanKind,
    State,
    WriteStat,
    parse_instant_file,
    read_plan,
    write_instant,
    write_plan,
)
from lakedex.timeline.instant_time import is_instant_time
from lakedex.timeline.plans import bare_name
from lakedex.txn.markers import is_file_of, is_log_file, marked_files

_DELETERS = 8


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """What a rollback takes back: an instant, the action it was begun as, and its files."""

    instant: str
    action: Action
    files: tuple[str, ...]

    def encode(self, storage: Storage) -> bytes:
        """The content of the requested file."""
        requests = [
            {
                "partitionPath": partition,
                "fileId": "",
                "latestBaseInstant": "",
                "filesToBeDeleted": [f"{storage.root}/{path}" for path in paths],
                "logBlocksToBeDeleted": {},
            }
            for partition, paths in _by_partition(self.files).items()
        ]
        info = {"commitTime": self.instant, "action": self.action.value}
        record = {"instantToRollback": info, "RollbackRequests": requests, "version": 1}
        return write_plan(PlanKind.ROLLBACK_PLAN, record)

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> RollbackPlan:
        """The plan of a requested file, of any engine.

        A log file of another name may be the instant's by what is in it, which is for the caller to
        see.

        Raises:
            CorruptFile: there is no plan in it, or none that names an instant.
        """
        record = read_plan(PlanKind.ROLLBACK_PLAN, data, path=path)
        info = record["instantToRollback"]
        actions = {action.value: action for action in Action}
        known = info is not None and info["action"] in actions
        if not known or not is_instant_time(info["commitTime"]):
            raise CorruptFile(path, 0, expected="an instant to roll back", actual=info)
        instant = info["commitTime"]
        files = []
        for request in record["RollbackRequests"] or ():
            addresses = [*request["filesToBeDeleted"], *(request["logBlocksToBeDeleted"] or {})]
            for address in addresses:
                try:
                    named = join(request["partitionPath"], bare_name(address))
                except UnsafePath:
                    continue
                if is_file_of(named, instant) or is_log_file(named):
                    files.append(named)
        return cls(instant, actions[info["action"]], tuple(files))


def outcome(storage: Storage, rollback: str, plan: RollbackPlan, taken_ms: int) -> bytes:
    """The content of the completed file."""
    record = outcome_record(storage, rollback, plan, taken_ms)
    return write_plan(PlanKind.ROLLBACK_METADATA, record)


def outcome_record(
    storage: Storage, rollback: str, plan: RollbackPlan, taken_ms: int
) -> dict[str, Any]:
    """The same as a wire record; a restore holds one for each instant."""
    partitions = {
        partition: {
            "partitionPath": partition,
            "successDeleteFiles": [f"{storage.root}/{path}" for path in paths],
            "failedDeleteFiles": [],
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": {},
        }
        for partition, paths in _by_partition(plan.files).items()
    }
    return {
        "startRollbackTime": rollback,
        "timeTakenInMillis": taken_ms,
        "totalFilesDeleted": len(plan.files),
        "commitsRollback": [plan.instant],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [{"commitTime": plan.instant, "action": plan.action.value}],
    }


def write_once(storage: Storage, config: TableConfig, instant: Instant, data: bytes) -> None:
    """Put an instant on the timeline, unless an earlier try has done so."""
    try:
        write_instant(storage, config, instant, data)
    except AlreadyExists:
        return


def begin_rollback(storage: Storage, config: TableConfig, rollback: str, plan: bytes) -> None:
    """Put a rollback on the timeline, up to inflight."""
    write_once(storage, config, Instant(rollback, Action.ROLLBACK, State.REQUESTED), plan)
    write_once(storage, config, Instant(rollback, Action.ROLLBACK, State.INFLIGHT), b"")


def remove_instant(
    storage: Storage,
    config: TableConfig,
    instant: str,
    action: Action,
    *,
    keeps_plan: bool = False,
) -> None:
    """Take the files of an instant off the timeline, the furthest state first.

    With `keeps_plan` its requested file stays, and the instant can be run again.
    """
    found: list[tuple[int, str]] = []
    for info in storage.list(config.timeline_folder):
        parsed = parse_instant_file(split(info.path)[1], config.timeline_layout)
        if parsed is None or parsed.requested_time != instant:
            continue
        if keeps_plan and parsed.state is State.REQUESTED:
            continue
        if parsed.action.completed is action.completed:
            found.append((-parsed.state.value, info.path))
    for _, path in sorted(found):
        storage.delete(path)


def delete_files(storage: Storage, paths: Sequence[str]) -> None:
    """Delete files, some at a time; those that are gone already are fine."""
    if len(paths) < _DELETERS:
        for path in paths:
            storage.delete(path)
        return
    with ThreadPoolExecutor(_DELETERS) as pool:
        list(pool.map(storage.delete, paths))


def _by_partition(paths: Iterable[str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = defaultdict(list)
    for path in sorted(paths):
        grouped[split(path)[0]].append(path)
    return grouped


def delete_orphan_files(
    storage: Storage, instant: str, metadata: CommitMetadata
) -> tuple[str, ...]:
    """Delete the files of an instant that its commit does not name, and answer them."""
    kept = {path for stat in metadata.stats() for path in named_files(stat)}
    strays = tuple(path for path in marked_files(storage, instant) if path not in kept)
    delete_files(storage, strays)
    return strays


def named_files(stat: WriteStat) -> Iterator[str]:
    """The files that a write stat tells of, relative to the table."""
    if stat.path is not None:
        yield stat.path
        for name in stat.log_files or ():
            yield join(split(stat.path)[0], name)
    yield from stat.cdc_stats or ()
