"""Procedures that tend a table, with the names and parameters of Hudi: clean, archive, go back.

Each is its parameters with their defaults in order, what it does, and whether it only looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from lakedex.errors import InvalidInput
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.extra_grammar import Literal
from lakedex.spark.sql.procedure_answers import WRITTEN, Values, shown, table_of, written
from lakedex.spark.table import SparkTable
from lakedex.timeline import Action, Instant, PlanKind, Timeline, read_plan
from lakedex.timeline.commit_metadata import decode_commit_metadata
from lakedex.upkeep.cleaning import read_clean_plan
from lakedex.upkeep.savepoints import list_savepoints

Service = tuple[dict[str, Literal], Callable[[Context, Values], DataFrame], bool]
_LIMIT = 10


def _done(context: Context, table: SparkTable, name: str, *, done: bool = True) -> DataFrame:
    context.spark.catalog.refreshByPath(table.path)
    return context.spark.createDataFrame([(done,)], f"{name} boolean")


def _needed(values: Values, name: str) -> str:
    value = values.get(name)
    if not value:
        raise InvalidInput(f"the procedure needs {name} => '...'")
    return str(value)


_CLEAN_OPTIONS = {
    "clean_policy": "hoodie.clean.policy",
    "retain_commits": "hoodie.clean.commits.retained",
    "hours_retained": "hoodie.clean.hours.retained",
    "file_versions_retained": "hoodie.clean.fileversions.retained",
    "trigger_strategy": "hoodie.clean.trigger.strategy",
    "trigger_max_commits": "hoodie.clean.trigger.max.commits",
}


def _run_clean(context: Context, values: Values) -> DataFrame:
    table = table_of(context, values)
    options = context.write_options()
    for pair in str(values["options"] or "").split(","):
        if pair.strip():
            name, mark, value = pair.partition("=")
            if not mark:
                raise InvalidInput(f"options are name=value with commas between, not {pair!r}")
            options[name.strip()] = value.strip()
    for name, option in _CLEAN_OPTIONS.items():
        if values[name] is not None:
            options[option] = str(values[name])
    result = table.clean(options=options)
    timeline = table.snapshot.timeline
    rows = []
    for instant in result.instants:
        record = _clean_record(timeline, instant)
        rows.append(
            (
                record["startCleanTime"],
                record["timeTakenInMillis"],
                record["totalFilesDeleted"],
                record["earliestCommitToRetain"],
                "{}",
                record["version"],
            )
        )
    schema = (
        "start_clean_time string, time_taken_in_millis long, total_files_deleted int, "
        "earliest_commit_to_retain string, bootstrap_part_metadata string, version int"
    )
    return context.spark.createDataFrame(rows, schema)


def _clean_record(timeline: Timeline, instant: str) -> Mapping[str, Any]:
    found = timeline.find(instant)
    data = timeline.archived.metadata(instant) if found is None else timeline.read(found)
    return read_plan(PlanKind.CLEAN_METADATA, data or b"", path=f"clean {instant}")


def _newest_first(timeline: Timeline, action: Action, *, archived: bool) -> list[Instant]:
    found = [each for each in timeline.completed() if each.action is action]
    if archived:
        found += [each for each in timeline.archived.instants() if each.action is action]
    return sorted(found, reverse=True)


def _show_cleans(context: Context, values: Values) -> DataFrame:
    timeline = table_of(context, values).snapshot.timeline
    rows = []
    for each in _newest_first(timeline, Action.CLEAN, archived=bool(values["showarchived"])):
        record = _clean_record(timeline, each.requested_time)
        rows.append(
            (
                each.requested_time,
                each.completion_time,
                "clean",
                record["startCleanTime"],
                record["timeTakenInMillis"],
                record["totalFilesDeleted"],
                record["earliestCommitToRetain"],
                record["lastCompletedCommitTimestamp"],
                record["version"],
            )
        )
    schema = (
        "clean_time string, state_transition_time string, action string, start_clean_time string, "
        "time_taken_in_millis long, total_files_deleted int, earliest_commit_to_retain string, "
        "last_completed_commit_timestamp string, version int"
    )
    return shown(context, rows, schema, values)


def _show_clean_plans(context: Context, values: Values) -> DataFrame:
    timeline = table_of(context, values).snapshot.timeline
    found = [each for each in timeline.instants if each.action is Action.CLEAN]
    rows = []
    for each in sorted(found, reverse=True):
        plan = read_clean_plan(timeline, each.requested_time)
        rows.append(
            (
                each.requested_time,
                each.state.name,
                "clean",
                plan.earliest.requested_time if plan.earliest else None,
                plan.last_completed,
                plan.policy,
                2,
                len(plan.files),
                len(plan.partitions),
                ",".join(f"{key}={value}" for key, value in sorted(plan.extra.items())),
            )
        )
    schema = (
        "plan_time string, state string, action string, earliest_instant_to_retain string, "
        "last_completed_commit_timestamp string, policy string, version int, "
        "total_partitions_to_clean int, total_partitions_to_delete int, extra_metadata string"
    )
    return shown(context, rows, schema, values)


def _show_rollbacks(context: Context, values: Values) -> DataFrame:
    timeline = table_of(context, values).snapshot.timeline
    rows = []
    for each in _newest_first(timeline, Action.ROLLBACK, archived=bool(values["showarchived"])):
        active = timeline.find(each.requested_time) == each
        data = timeline.read(each) if active else timeline.archived.metadata(each.requested_time)
        record = read_plan(
            PlanKind.ROLLBACK_METADATA, data or b"", path=f"rollback {each.requested_time}"
        )
        rows += [
            (
                record["startRollbackTime"],
                instant,
                record["totalFilesDeleted"],
                record["timeTakenInMillis"],
                len(record["partitionMetadata"]),
            )
            for instant in record["commitsRollback"]
        ]
    schema = (
        "instant string, rollback_instant string, total_files_deleted int, "
        "time_taken_in_millis long, total_partitions int"
    )
    return shown(context, rows, schema, values)


def _archive(context: Context, values: Values) -> DataFrame:
    options = {
        "hoodie.keep.min.commits": str(values["min_commits"]),
        "hoodie.keep.max.commits": str(values["max_commits"]),
        "hoodie.clean.commits.retained": str(values["retain_commits"]),
    }
    table_of(context, values).archive(options=options)
    return context.spark.createDataFrame([(0,)], "result int")


def _show_archived(context: Context, values: Values) -> DataFrame:
    timeline = table_of(context, values).snapshot.timeline
    begin, end = str(values["start_ts"] or ""), str(values["end_ts"] or "")
    rows = []
    for each in reversed(timeline.archived.instants(begin or None, end or None)):
        if not each.action.is_write:
            continue
        data = timeline.archived.metadata(each.requested_time) or b""
        stats = list(decode_commit_metadata(data, path=each.requested_time).stats())
        rows.append(
            (
                each.requested_time,
                each.completion_time,
                sum(stat.total_write_bytes or 0 for stat in stats),
                *written(stats),
            )
        )
    schema = (
        f"commit_time string, state_transition_time string, total_bytes_written long, {WRITTEN}"
    )
    return shown(context, rows, schema, values)


def _create_savepoint(context: Context, values: Values) -> DataFrame:
    table = table_of(context, values)
    instant = str(values["commit_time"] or "") or None
    table.savepoint(instant, user=str(values["user"] or ""), comments=str(values["comments"] or ""))
    return _done(context, table, "create_savepoint_result")


def _delete_savepoint(context: Context, values: Values) -> DataFrame:
    table = table_of(context, values)
    for instant in _savepoints_named(table, values):
        table.delete_savepoint(instant)
    return _done(context, table, "delete_savepoint_result")


def _rollback_to_savepoint(context: Context, values: Values) -> DataFrame:
    table = table_of(context, values)
    (instant,) = _savepoints_named(table, values)[:1]
    if instant not in table.snapshot.timeline.savepoints():
        raise InvalidInput(f"there is no savepoint {instant!r}")
    table.restore(instant)
    return _done(context, table, "rollback_savepoint_result")


def _savepoints_named(table: SparkTable, values: Values) -> list[str]:
    """The savepoints that a call names, with commas between; the newest where none is named."""
    named = [each.strip() for each in str(values["instant_time"] or "").split(",") if each.strip()]
    if named:
        return named
    known = list_savepoints(table.snapshot.timeline)
    if not known:
        raise InvalidInput("the table has no savepoints")
    return [known[0].instant]


def _rollback_to_instant(context: Context, values: Values) -> DataFrame:
    table = table_of(context, values)
    table.rollback(_needed(values, "instant_time"))
    return _done(context, table, "rollback_result")


_SAVEPOINT: dict[str, Literal] = {"table": None, "instant_time": "", "path": None}
_ARCHIVE: dict[str, Literal] = {
    "table": None,
    "path": None,
    "min_commits": 20,
    "max_commits": 30,
    "retain_commits": 10,
    "enable_metadata": True,
}
SERVICES: Mapping[str, Service] = {
    "run_clean": (
        {
            "table": None,
            "skip_locking": False,
            "schedule_in_line": True,
            **dict.fromkeys(_CLEAN_OPTIONS),
            "options": None,
            "path": None,
        },
        _run_clean,
        False,
    ),
    "show_cleans": (
        {"table": None, "limit": _LIMIT, "showarchived": False, "path": None},
        _show_cleans,
        True,
    ),
    "show_clean_plans": (
        {"table": None, "limit": _LIMIT, "showarchived": False, "path": None},
        _show_clean_plans,
        True,
    ),
    "show_rollbacks": (
        {"table": None, "limit": _LIMIT, "showarchived": False, "path": None},
        _show_rollbacks,
        True,
    ),
    "archive_commits": (_ARCHIVE, _archive, False),
    "run_archive": (_ARCHIVE, _archive, False),
    "show_archived_commits": (
        {"table": None, "limit": _LIMIT, "start_ts": "", "end_ts": "", "path": None},
        _show_archived,
        True,
    ),
    "create_savepoint": (
        {"table": None, "commit_time": "", "user": "", "comments": "", "path": None},
        _create_savepoint,
        False,
    ),
    "delete_savepoint": (_SAVEPOINT, _delete_savepoint, False),
    "rollback_to_savepoint": (_SAVEPOINT, _rollback_to_savepoint, False),
    "rollback_to_instant": (
        {"table": None, "instant_time": None, "path": None},
        _rollback_to_instant,
        False,
    ),
}
