"""run_compaction, show_compaction, run_clustering, show_clustering; bucket numbers by partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakedex.config.write_option_names import CLUSTERING_PARTITIONS
from lakedex.errors import InvalidDefinition, InvalidInput
from lakedex.services.clustering.scheduling import pending_clusterings
from lakedex.services.compaction.scheduling import pending_compactions
from lakedex.services.rescaling import rescale_partitions
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.procedures.procedure import (
    PLACE,
    Procedure,
    Rows,
    Values,
    matching_paths,
    named,
    options_of,
    table_of,
)
from lakedex.spark.table import SparkTable
from lakedex.timeline import Action, Timeline
from lakedex.timeline.plans import ClusteringPlan
from lakedex.write.resizing.rescaling import NewCounts, plan_rescale, stored_counts
from lakedex.write.rows import KEY

_SCHEDULE, _EXECUTE, _BOTH = "schedule", "execute", "scheduleandexecute"
_AS_BEFORE = -1
"""Hudi's default for a number of buckets."""


def _run_compaction(context: Context, values: Values) -> Rows:
    table, options = table_of(context, values), options_of(context, values)
    pending = list(pending_compactions(table.snapshot.timeline))
    chosen = named(values["instants"]) or named(values["timestamp"])
    op = _EXECUTE if chosen else _operation(values)
    _check_chosen(chosen, values, pending, "compaction")
    instants = chosen or pending
    if op in (_SCHEDULE, _BOTH):
        planned = table.schedule_compaction(options=options)
        if planned is not None:
            instants = [planned] if op == _SCHEDULE else [*instants, planned]
        elif op == _SCHEDULE:
            instants = []
    if op in (_EXECUTE, _BOTH):
        for instant in instants[: values["limit"]]:
            table.run_compaction(instant, options=options)
    timeline = table.snapshot.timeline
    return [_compaction(timeline, each) for each in _found(timeline, instants)]


def _show_compaction(context: Context, values: Values) -> Rows:
    timeline = table_of(context, values).snapshot.timeline
    return [_compaction(timeline, each) for each in _planned_as(timeline, Action.COMPACTION)]


def _run_clustering(context: Context, values: Values) -> Rows:
    table, options = table_of(context, values), options_of(context, values)
    if values["selected_partitions"] is not None:
        options[CLUSTERING_PARTITIONS.name] = values["selected_partitions"]
    if values["partition_regex_pattern"] is not None:
        found = matching_paths(table, values["partition_regex_pattern"])
        if not found:
            return []
        options[CLUSTERING_PARTITIONS.name] = ",".join(found)
    pending = list(pending_clusterings(table.snapshot.timeline))
    chosen = named(values["instants"])
    op = _EXECUTE if chosen else _operation(values)
    _check_chosen(chosen, values, pending, "clustering")
    instants = chosen or pending
    if op in (_SCHEDULE, _BOTH):
        layout = table.writer(options).target().options.layout
        # As Hudi, which then only sizes files: the order of keys costs no index its ranges.
        order = named(values["order"]) or layout.clustering_columns or layout.write_columns
        result = table.cluster(
            order or (KEY,),
            values["order_strategy"],
            values["predicate"],
            options=options,
            schedule_only=op == _SCHEDULE,
        )
        if result.instant is not None or op == _SCHEDULE:
            instants = [] if result.instant is None else [result.instant]
            op = _SCHEDULE
    if op != _SCHEDULE:
        for instant in instants[: values["limit"]]:
            table.run_clustering(instant, options=options)
    timeline = table.snapshot.timeline
    return [_clustering(timeline, each, values) for each in _found(timeline, instants)]


def _show_clustering(context: Context, values: Values) -> Rows:
    timeline = table_of(context, values).snapshot.timeline
    found = _planned_as(timeline, Action.CLUSTERING)
    return [_clustering(timeline, each, values) for each in found]


def _manage_buckets(context: Context, values: Values) -> Rows:
    """Show, change or take back the numbers of buckets of a bucket index of the engine SIMPLE."""
    changes = [name for name in ("overwrite", "add", "rollback") if values[name] is not None]
    changes += ["show_config"] if values["show_config"] else []
    if len(changes) != 1:
        raise InvalidInput("give one of overwrite, add, rollback and show_config")
    (change,) = changes
    if str(values["rule"]).lower() != "regex":
        raise InvalidInput(f"rule is regex, not {values['rule']!r}")
    table = table_of(context, values)
    number = None if values["bucket_number"] == _AS_BEFORE else values["bucket_number"]
    if change == "show_config":
        lines = [
            f"{each.instant}: {each.expressions} (default {each.default})"
            for each in stored_counts(table.snapshot)
        ]
        return [("SUCCESS", "SHOW_CONFIG", "; ".join(lines))]
    if change == "rollback":
        return [_rollback_of_buckets(table, str(values["rollback"]))]
    if change == "add" and number is not None:
        raise InvalidInput("bucket_number goes with overwrite; the one that there is stays")
    if not values[change].strip():
        raise InvalidInput(f"{change} needs rules: 'pattern,number;pattern,number'")
    counts = NewCounts(number, expressions=values[change], adds=change == "add")
    writer = table.writer(options_of(context, values))
    if values["dry_run"]:
        target = writer.target()
        found = plan_rescale(target, target.snapshot, counts).partitions
        lines = [f"{partition} => {count}" for partition, count in found.items()]
        return [("SUCCESS", f"DRY_RUN_{change.upper()}", ";".join(lines))]
    done = rescale_partitions(writer, counts)
    table.refresh()
    return [("SUCCESS", change.upper(), str(done))]


def _rollback_of_buckets(table: SparkTable, instant: str) -> tuple[str, str, str]:
    if instant not in [each.instant for each in stored_counts(table.snapshot)]:
        raise InvalidInput(f"no change of the numbers of buckets was made at {instant}")
    table.rollback(instant)
    return "SUCCESS", "ROLLBACK", f"{instant} was rolled back"


def _check_chosen(
    chosen: Sequence[str], values: Values, pending: Sequence[str], action: str
) -> None:
    """Refuse instants where a plan is to be made, and those that do not pend, before any runs."""
    if not chosen:
        return
    if values["op"] is not None and str(values["op"]).lower() not in ("run", _EXECUTE):
        raise InvalidDefinition(
            f"instants are planned already: leave them out with op => {values['op']!r}, or say "
            f"op => {_EXECUTE!r}"
        )
    missing = [each for each in chosen if each not in pending]
    if missing:
        raise InvalidInput(f"no {action} {missing[0]} pends, so none was run")


def _operation(values: Values) -> str:
    op = str(values["op"] or _BOTH).lower()
    if op == "run":
        return _BOTH
    if op not in (_SCHEDULE, _EXECUTE, _BOTH):
        raise InvalidDefinition(f"op is one of run, schedule, execute, {_BOTH}, not {op!r}")
    return op


def _planned_as(timeline: Timeline, action: Action) -> list[str]:
    """The instants that were planned as an action, pending or completed, newest first."""
    times = [each.requested_time for each in reversed(timeline.instants)]
    return [time for time in times if timeline.requested_action(time) is action]


def _found(timeline: Timeline, instants: Iterable[str]) -> list[str]:
    return [time for time in sorted(instants, reverse=True) if timeline.find(time) is not None]


def _state(timeline: Timeline, time: str) -> str:
    instant = timeline.find(time)
    return "" if instant is None else instant.state.name


def _compaction(timeline: Timeline, time: str) -> tuple[str, int, str]:
    return time, len(timeline.compaction_plan(time).operations), _state(timeline, time)


def _clustering(timeline: Timeline, time: str, values: Values) -> tuple[str, int, str, str]:
    plan = timeline.requested_replace(time).clustering or ClusteringPlan(())
    partitions = "*"
    if values["show_involved_partition"]:
        involved = {each.partition_path for group in plan.groups for each in group.slices}
        partitions = ",".join(sorted(involved))
    return time, len(plan.groups), _state(timeline, time), partitions


_COMPACTIONS = "timestamp string, operation_size int, state string"
_CLUSTERINGS = "timestamp string, input_group_size int, state string, involved_partitions string"
REWRITING = {
    "run_compaction": Procedure(
        {
            "op": str,
            "table": str,
            "path": str,
            "timestamp": str,
            "options": str,
            "instants": str,
            "limit": int,
        },
        _COMPACTIONS,
        _run_compaction,
        changes=True,
    ),
    "show_compaction": Procedure({**PLACE, "limit": 20}, _COMPACTIONS, _show_compaction),
    "run_clustering": Procedure(
        {
            **PLACE,
            "predicate": str,
            "order": str,
            "show_involved_partition": False,
            "op": str,
            "order_strategy": str,
            "options": str,
            "instants": str,
            "selected_partitions": str,
            "partition_regex_pattern": str,
            "limit": int,
        },
        _CLUSTERINGS,
        _run_clustering,
        changes=True,
    ),
    "partition_bucket_index_manager": Procedure(
        {
            "table": str,
            "overwrite": str,
            "bucket_number": _AS_BEFORE,
            "add": str,
            "dry_run": True,
            "rollback": str,
            "show_config": False,
            "rule": "regex",
            "options": str,
            "path": str,
        },
        "result string, operation string, details string",
        _manage_buckets,
        changes=True,
    ),
    "show_clustering": Procedure(
        {**PLACE, "limit": 20, "show_involved_partition": False}, _CLUSTERINGS, _show_clustering
    ),
}
