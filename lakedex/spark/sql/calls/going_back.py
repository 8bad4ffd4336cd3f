"""Savepoints, rollbacks and what was rolled back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from lakedex.errors import InvalidInput
from lakedex.spark.sql.calls.cleaning import newest_first
from lakedex.spark.sql.calls.procedure import (
    PLACE,
    Parameters,
    Procedure,
    Rows,
    Values,
    named,
    table_of,
)
from lakedex.spark.sql.context import Context
from lakedex.spark.table import SparkTable
from lakedex.timeline import Action, PlanKind, read_plan
from lakedex.upkeep.savepoints import list_savepoints

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


def _rollbacks(context: Context, values: Values, *, archived: bool) -> Iterator[Mapping[str, Any]]:
    timeline = table_of(context, values).snapshot.timeline
    for each in newest_first(timeline, Action.ROLLBACK, archived=archived):
        active = timeline.find(each.requested_time) == each
        data = timeline.read(each) if active else timeline.archived.metadata(each.requested_time)
        path = f"rollback {each.requested_time}"
        yield read_plan(PlanKind.ROLLBACK_METADATA, data or b"", path=path)


def _show_rollbacks(context: Context, values: Values) -> Rows:
    for record in _rollbacks(context, values, archived=values["showArchived"]):
        for instant in record["commitsRollback"]:
            yield (
                record["startRollbackTime"],
                instant,
                record["totalFilesDeleted"],
                record["timeTakenInMillis"],
                len(record["partitionMetadata"]),
            )


def _show_rollback_detail(context: Context, values: Values) -> Rows:
    for record in _rollbacks(context, values, archived=True):
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
