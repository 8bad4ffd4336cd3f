"""show_timeline, export_instants, savepoints, rollbacks and restores."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from lakedex.errors import CorruptFile, FileMissing, InvalidInput
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.procedures.cleaning import newest_first
from lakedex.spark.sql.procedures.procedure import (
    PLACE,
    Parameters,
    Procedure,
    Rows,
    Values,
    named,
    table_of,
)
from lakedex.spark.table import SparkTable
from lakedex.timeline import Action, Instant, PlanKind, Timeline, read_plan
from lakedex.timeline.instant import State, file_name
from lakedex.timeline.instant_time import instant_key
from lakedex.upkeep.savepoints import list_savepoints

_SECONDS_DIGITS = 14
_EXPORTED = "clean,commit,deltacommit,rollback,savepoint,restore"


def _show_timeline(context: Context, values: Values) -> Rows:
    timeline = table_of(context, values).snapshot.timeline
    begin, end = values["startTime"].strip(), values["endTime"].strip()
    found = [(each, "ACTIVE") for each in timeline.instants]
    archived: tuple[Instant, ...] = ()
    if values["showArchived"]:
        archived = timeline.archived.instants()
        found += [(each, "ARCHIVED") for each in archived]
    notes = _rollbacks(timeline, archived)
    begun = _begun(timeline)
    for each, kind in sorted(found, key=lambda pair: pair[0], reverse=True):
        time = each.requested_time
        if (begin and instant_key(time) < begin) or (end and instant_key(time) > end):
            continue
        yield (
            time,
            each.action.value,
            each.state.name,
            _shown(time),
            begun.get(time) if kind == "ACTIVE" else _shown(time),
            _shown(each.completion_time or (time if kind == "ARCHIVED" else None)),
            kind,
            "; ".join(notes[time]) or None,
        )


def _begun(timeline: Timeline) -> dict[str, str]:
    """When instants of the active timeline went to work, as the store noted it."""
    config = timeline.config
    inflight = {
        file_name(Instant(each.requested_time, planned, State.INFLIGHT), config.timeline_layout)
        : each.requested_time
        for each in timeline.instants
        for planned in (timeline.requested_action(each.requested_time) or each.action, each.action)
    }  # fmt: skip
    return {
        inflight[info.path.rpartition("/")[2]]: _clock(info.modified_ms)
        for info in timeline.storage.list(config.timeline_folder)
        if info.path.rpartition("/")[2] in inflight
    }


def _clock(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%m-%d %H:%M:%S")


def _shown(instant: str | None) -> str | None:
    """An instant as month, day and time."""
    if instant is None or len(instant) < _SECONDS_DIGITS:
        return instant
    digits = instant[4:_SECONDS_DIGITS]
    return f"{digits[0:2]}-{digits[2:4]} {digits[4:6]}:{digits[6:8]}:{digits[8:10]}"


def _rollbacks(timeline: Timeline, archived: Iterable[Instant]) -> dict[str, list[str]]:
    """What rollbacks say about themselves, and about the instants that they undid."""
    notes: dict[str, list[str]] = defaultdict(list)
    for each in timeline.instants:
        if each.action is not Action.ROLLBACK:
            continue
        time = each.requested_time
        if each.is_completed:
            _add_notes(notes, time, timeline.read(each))
        else:
            undone = _planned(timeline, time)
            if undone is not None:
                notes[time].append(f"Rolls back {undone}")
                notes[undone].append(f"Rolled back by: {time}")
    for each in archived:
        if each.action is Action.ROLLBACK:
            data = timeline.archived.metadata(each.requested_time)
            _add_notes(notes, each.requested_time, data or b"")
    return notes


def _add_notes(notes: dict[str, list[str]], time: str, data: bytes) -> None:
    record = read_plan(PlanKind.ROLLBACK_METADATA, data, path=f"rollback {time}")
    notes[time].append(f"Rolled back: {', '.join(record['commitsRollback'])}")
    for undone in record["commitsRollback"]:
        notes[undone].append(f"Rolled back by: {time}")


def _planned(timeline: Timeline, time: str) -> str | None:
    """The instant that a pending rollback is about; None where its plan cannot be read."""
    requested = Instant(time, Action.ROLLBACK, State.REQUESTED)
    try:
        record = read_plan(PlanKind.ROLLBACK_PLAN, timeline.read(requested), path=time)
    except (CorruptFile, FileMissing):
        return None
    return str(record["instantToRollback"]["commitTime"])


def _export(context: Context, values: Values) -> Rows:
    """Copy the completed instants of some actions into a folder of this machine."""
    folder = Path(values["local_folder"])
    if not folder.is_dir():
        raise InvalidInput(f"{values['local_folder']} is no folder of this machine")
    timeline = table_of(context, values).snapshot.timeline
    actions = named(values["actions"])
    unknown = set(actions) - {action.value for action in Action}
    if unknown:
        raise InvalidInput(f"{sorted(unknown)[0]!r} is no action of a timeline")
    found = [each for each in timeline.completed() if each.action.value in actions]
    found.sort(reverse=values["desc"])
    found = found if values["limit"] < 0 else found[: values["limit"]]
    for each in found:
        (folder / f"{each.requested_time}.{each.action.value}").write_bytes(timeline.read(each))
    return [(f"Exported {len(found)} Instants to {folder}",)]


TIMELINES = {
    "show_timeline": Procedure(
        {
            **PLACE,
            "limit": 20,
            "showArchived": False,
            "filter": "",
            "startTime": "",
            "endTime": "",
        },
        "instant_time string, action string, state string, requested_time string, "
        "inflight_time string, completed_time string, timeline_type string, rollback_info string",
        _show_timeline,
        range=("startTime", "endTime"),
    ),
    "export_instants": Procedure(
        {
            "table": str,
            "local_folder": str,
            "limit": -1,
            "actions": _EXPORTED,
            "desc": False,
            "path": str,
        },
        "export_detail string",
        _export,
        changes=True,
        needs=("local_folder",),
    ),
}


_PLANNED = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)


def _done(context: Context, table: SparkTable) -> Rows:
    context.spark.catalog.refreshByPath(table.path)
    yield (True,)


def _show_savepoints(context: Context, values: Values) -> Rows:
    for saved in sorted(table_of(context, values).snapshot.timeline.savepoints(), reverse=True):
        yield (saved,)


def _create_savepoint(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    table.savepoint(
        values["commit_time"] or None, user=values["user"] or "", comments=values["comments"] or ""
    )
    return _done(context, table)


def _delete_savepoint(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    for instant in _savepoints_named(table, values):
        table.delete_savepoint(instant)
    return _done(context, table)


def _rollback_to_savepoint(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    (instant,) = _savepoints_named(table, values)[:1]
    if instant not in table.snapshot.timeline.savepoints():
        raise InvalidInput(f"there is no savepoint {instant!r}")
    table.restore(instant)
    return _done(context, table)


def _savepoints_named(table: SparkTable, values: Values) -> list[str]:
    """The savepoints that a call names, with commas between; the newest where none is named."""
    found = named(values["instant_time"])
    if found:
        return found
    known = list_savepoints(table.snapshot.timeline)
    if not known:
        raise InvalidInput("the table has no savepoints")
    return [known[0].instant]


def _rollback_to_instant(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    table.rollback(values["instant_time"])
    return _done(context, table)


def _rollback_service(context: Context, values: Values) -> Rows:
    """Undo a compaction or clustering that pends: its run, and on request its plan."""
    table, instant = table_of(context, values), values["pending_instant"]
    timeline = table.snapshot.timeline
    if not timeline.is_pending(instant) or timeline.requested_action(instant) not in _PLANNED:
        raise InvalidInput(f"table {table.name} has no pending compaction or clustering {instant}")
    begun = time.monotonic()
    table.rollback(instant, keeps_plan=True)
    if values["delete_request_instant_file"] and table.snapshot.timeline.is_pending(instant):
        table.rollback(instant)
    yield instant, f"{round((time.monotonic() - begun) * 1000)} ms"


def _rollback_records(
    context: Context, values: Values, *, archived: bool
) -> Iterator[Mapping[str, Any]]:
    timeline = table_of(context, values).snapshot.timeline
    for each in newest_first(timeline, Action.ROLLBACK, archived=archived):
        active = timeline.find(each.requested_time) == each
        data = timeline.read(each) if active else timeline.archived.metadata(each.requested_time)
        path = f"rollback {each.requested_time}"
        yield read_plan(PlanKind.ROLLBACK_METADATA, data or b"", path=path)


def _show_rollbacks(context: Context, values: Values) -> Rows:
    for record in _rollback_records(context, values, archived=values["showArchived"]):
        for instant in record["commitsRollback"]:
            yield (
                record["startRollbackTime"],
                instant,
                record["totalFilesDeleted"],
                record["timeTakenInMillis"],
                len(record["partitionMetadata"]),
            )


def _show_rollback_detail(context: Context, values: Values) -> Rows:
    for record in _rollback_records(context, values, archived=True):
        if record["startRollbackTime"] != values["instant_time"]:
            continue
        undone = ",".join(record["commitsRollback"])
        for path, part in sorted(record["partitionMetadata"].items()):
            for succeeded, name in ((True, "successDeleteFiles"), (False, "failedDeleteFiles")):
                for file in part[name]:
                    yield record["startRollbackTime"], undone, path, file, succeeded


_SAVEPOINT: Parameters = {"table": str, "instant_time": "", "path": str}
GOING_BACK = {
    "show_savepoints": Procedure(PLACE, "savepoint_time string", _show_savepoints),
    "create_savepoint": Procedure(
        {"table": str, "commit_time": "", "user": "", "comments": "", "path": str},
        "create_savepoint_result boolean",
        _create_savepoint,
        changes=True,
    ),
    "delete_savepoint": Procedure(
        _SAVEPOINT, "delete_savepoint_result boolean", _delete_savepoint, changes=True
    ),
    "rollback_to_savepoint": Procedure(
        _SAVEPOINT, "rollback_savepoint_result boolean", _rollback_to_savepoint, changes=True
    ),
    "rollback_to_instant": Procedure(
        {"table": str, "instant_time": str, "path": str},
        "rollback_result boolean",
        _rollback_to_instant,
        changes=True,
        needs=("instant_time",),
    ),
    "run_rollback_inflight_tableservice": Procedure(
        {**PLACE, "pending_instant": str, "delete_request_instant_file": False},
        "instant string, time_cost string",
        _rollback_service,
        changes=True,
        needs=("pending_instant",),
    ),
    "show_rollbacks": Procedure(
        {"table": str, "limit": 10, "showArchived": False, "path": str},
        "instant string, rollback_instant string, total_files_deleted int, "
        "time_taken_in_millis long, total_partitions int",
        _show_rollbacks,
    ),
    "show_rollback_detail": Procedure(
        {"table": str, "limit": 10, "instant_time": str, "path": str},
        "instant string, rollback_instant string, partition string, deleted_file string, "
        "succeeded boolean",
        _show_rollback_detail,
        needs=("instant_time",),
    ),
}
