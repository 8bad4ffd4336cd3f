"""run_clean, show_cleans and similar, archive_commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakedex.config.service_options import CLEANING_OPTIONS
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.procedures.procedure import (
    Parameters,
    Procedure,
    Rows,
    Values,
    given_options,
    table_of,
)
from lakedex.timeline import Action, Instant, PlanKind, Timeline, read_plan
from lakedex.timeline.clean_plan import read_clean_plan

_PLAN_VERSION = 2
_CLEAN_OPTIONS = {
    "clean_policy": "hoodie.clean.policy",
    "retain_commits": "hoodie.clean.commits.retained",
    "hours_retained": "hoodie.clean.hours.retained",
    "file_versions_retained": "hoodie.clean.fileversions.retained",
    "trigger_strategy": "hoodie.clean.trigger.strategy",
    "trigger_max_commits": "hoodie.clean.trigger.max.commits",
}


def _run_clean(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    session = context.write_options(table)
    of_cleans = {name for option in CLEANING_OPTIONS for name in option.names}
    options = {name: value for name, value in session.items() if name in of_cleans}
    options |= given_options(values)
    for name, option in _CLEAN_OPTIONS.items():
        if values[name] is not None:
            options[option] = str(values[name])
    result = table.clean(options=options)
    timeline = table.snapshot.timeline
    for instant in result.instants:
        record = _clean_record(timeline, instant)
        yield (
            record["startCleanTime"],
            record["timeTakenInMillis"],
            record["totalFilesDeleted"],
            record["earliestCommitToRetain"],
            "{}",
            record["version"],
        )


def _clean_record(timeline: Timeline, instant: str) -> Mapping[str, Any]:
    found = timeline.find(instant)
    data = timeline.archived.metadata(instant) if found is None else timeline.read(found)
    return read_plan(PlanKind.CLEAN_METADATA, data or b"", path=f"clean {instant}")


def newest_first(timeline: Timeline, action: Action, *, archived: bool) -> list[Instant]:
    """The completed instants of an action, those of the archive too where they are wanted."""
    found = [each for each in timeline.completed() if each.action is action]
    if archived:
        found += [each for each in timeline.archived.instants() if each.action is action]
    return sorted(found, reverse=True)


def _cleans(context: Context, values: Values) -> Rows:
    """The cleans of a table with their records, newest first."""
    timeline = table_of(context, values).snapshot.timeline
    for each in newest_first(timeline, Action.CLEAN, archived=values["showArchived"]):
        yield each, _clean_record(timeline, each.requested_time)


def _show_cleans(context: Context, values: Values) -> Rows:
    for each, record in _cleans(context, values):
        yield (
            each.requested_time,
            each.completion_time,
            each.action.value,
            record["startCleanTime"],
            record["timeTakenInMillis"],
            record["totalFilesDeleted"],
            record["earliestCommitToRetain"],
            record["lastCompletedCommitTimestamp"],
            record["version"],
        )


def _show_cleans_metadata(context: Context, values: Values) -> Rows:
    for each, record in _cleans(context, values):
        for path, part in sorted(record["partitionMetadata"].items()):
            yield (
                each.requested_time,
                each.completion_time,
                each.action.value,
                record["startCleanTime"],
                path,
                part["policy"],
                len(part["deletePathPatterns"]),
                len(part["successDeleteFiles"]),
                len(part["failedDeleteFiles"]),
                bool(part["isPartitionDeleted"]),
                record["timeTakenInMillis"],
                record["totalFilesDeleted"],
            )


def _show_clean_plans(context: Context, values: Values) -> Rows:
    timeline = table_of(context, values).snapshot.timeline
    found = [each for each in timeline.instants if each.action is Action.CLEAN]
    for each in sorted(found, reverse=True):
        plan = read_clean_plan(timeline, each.requested_time)
        yield (
            each.requested_time,
            each.state.name,
            each.action.value,
            plan.earliest.requested_time if plan.earliest else None,
            plan.last_completed,
            plan.policy,
            _PLAN_VERSION,
            len(plan.files),
            len(plan.partitions),
            ",".join(f"{key}={value}" for key, value in sorted(plan.extra.items())),
        )


def _archive(context: Context, values: Values) -> Rows:
    options = {
        "hoodie.keep.min.commits": str(values["min_commits"]),
        "hoodie.keep.max.commits": str(values["max_commits"]),
        "hoodie.clean.commits.retained": str(values["retain_commits"]),
        **given_options(values),
    }
    table_of(context, values).archive(options=options)
    yield (0,)


_SHOWN: Parameters = {"table": str, "limit": 10, "showArchived": False, "filter": "", "path": str}
_ARCHIVING = Procedure(
    {
        "table": str,
        "path": str,
        "min_commits": 20,
        "max_commits": 30,
        "retain_commits": 10,
        "enable_metadata": True,
        "options": str,
    },
    "result int",
    _archive,
    changes=True,
)
CLEANING = {
    "run_clean": Procedure(
        {
            "table": str,
            "schedule_in_line": True,
            "clean_policy": str,
            "retain_commits": int,
            "hours_retained": int,
            "file_versions_retained": int,
            "trigger_strategy": str,
            "trigger_max_commits": int,
            "options": str,
            "path": str,
            "skip_locking": False,
        },
        "start_clean_time string, time_taken_in_millis long, total_files_deleted int, "
        "earliest_commit_to_retain string, bootstrap_part_metadata string, version int",
        _run_clean,
        changes=True,
    ),
    "show_cleans": Procedure(
        _SHOWN,
        "clean_time string, state_transition_time string, action string, "
        "start_clean_time string, time_taken_in_millis long, total_files_deleted int, "
        "earliest_commit_to_retain string, last_completed_commit_timestamp string, version int",
        _show_cleans,
    ),
    "show_cleans_metadata": Procedure(
        _SHOWN,
        "clean_time string, state_transition_time string, action string, "
        "start_clean_time string, partition_path string, policy string, "
        "delete_path_patterns int, success_delete_files int, failed_delete_files int, "
        "is_partition_deleted boolean, time_taken_in_millis long, total_files_deleted int",
        _show_cleans_metadata,
    ),
    "show_clean_plans": Procedure(
        _SHOWN,
        "plan_time string, state string, action string, earliest_instant_to_retain string, "
        "last_completed_commit_timestamp string, policy string, version int, "
        "total_partitions_to_clean int, total_partitions_to_delete int, extra_metadata string",
        _show_clean_plans,
    ),
    "archive_commits": _ARCHIVING,
    "run_archive": _ARCHIVING,
}
