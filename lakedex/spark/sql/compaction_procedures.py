"""CALL run_compaction, show_compaction, run_clustering, show_clustering, as Hudi has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from pyspark.sql import DataFrame

from lakedex.config.write_option_names import CLUSTERING_PARTITIONS
from lakedex.errors import InvalidDefinition
from lakedex.services.clustering.scheduling import pending_clusterings
from lakedex.services.compaction.scheduling import pending_compactions
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.extra_grammar import Literal
from lakedex.spark.sql.procedure_answers import Values, table_of
from lakedex.timeline import Action, Instant, Timeline
from lakedex.timeline.clustering_plan import ClusteringPlan

Row: TypeAlias = "tuple[str | int, ...]"
_LIMIT = 20
_SCHEDULE, _EXECUTE, _BOTH = "schedule", "execute", "scheduleandexecute"
_COMPACTION_ROWS = "timestamp string, operation_size int, state string"
_CLUSTERING_ROWS = (
    "timestamp string, input_group_size int, state string, involved_partitions string"
)


def _run_compaction(context: Context, values: Values) -> DataFrame:
    table, options = table_of(context, values), _options(context, values)
    named = _names(values["instants"]) or _names(values["timestamp"])
    op = _EXECUTE if named else _operation(values)
    instants = named or list(pending_compactions(table.snapshot.timeline))
    if op in (_SCHEDULE, _BOTH):
        planned = table.schedule_compaction(options=options)
        instants = [] if planned is None else [planned]
    if op in (_EXECUTE, _BOTH):
        for instant in _limited(instants, values):
            table.run_compaction(instant, options=options)
    timeline = table.snapshot.timeline
    rows = [_compaction(timeline, each) for each in _found(timeline, instants)]
    return context.spark.createDataFrame(rows, _COMPACTION_ROWS)


def _show_compaction(context: Context, values: Values) -> DataFrame:
    timeline = table_of(context, values).snapshot.timeline
    found = _planned_as(timeline, Action.COMPACTION)
    rows = [_compaction(timeline, each) for each in _limited(found, values)]
    return context.spark.createDataFrame(rows, _COMPACTION_ROWS)


def _run_clustering(context: Context, values: Values) -> DataFrame:
    table, options = table_of(context, values), _options(context, values)
    if values["selected_partitions"] is not None:
        options[CLUSTERING_PARTITIONS.name] = str(values["selected_partitions"])
    named = _names(values["instants"])
    op = _EXECUTE if named else _operation(values)
    instants = named or list(pending_clusterings(table.snapshot.timeline))
    if op in (_SCHEDULE, _BOTH):
        strategy, where = values["order_strategy"], values["predicate"]
        result = table.cluster(
            _names(values["order"]),
            None if strategy is None else str(strategy),
            None if where is None else str(where),
            options=options,
            schedule_only=op == _SCHEDULE,
        )
        instants = [] if result.instant is None else [result.instant]
    else:
        for instant in _limited(instants, values):
            table.run_clustering(instant, options=options)
    timeline = table.snapshot.timeline
    rows = [_clustering(timeline, each, values) for each in _found(timeline, instants)]
    return context.spark.createDataFrame(rows, _CLUSTERING_ROWS)


def _show_clustering(context: Context, values: Values) -> DataFrame:
    timeline = table_of(context, values).snapshot.timeline
    found = _planned_as(timeline, Action.CLUSTERING)
    rows = [_clustering(timeline, each, values) for each in _limited(found, values)]
    return context.spark.createDataFrame(rows, _CLUSTERING_ROWS)


def _operation(values: Values) -> str:
    op = str(values["op"] or _BOTH).lower()
    if op == "run":
        return _BOTH
    if op not in (_SCHEDULE, _EXECUTE, _BOTH):
        raise InvalidDefinition(f"op is one of run, schedule, execute, {_BOTH}, not {op!r}")
    return op


def _options(context: Context, values: Values) -> dict[str, str]:
    """The session's write options, and over them those of the call: `key=value,key=value`."""
    found = context.write_options()
    for entry in _names(values["options"]):
        name, _, value = entry.partition("=")
        found[name.strip()] = value.strip()
    return found


def _names(value: Literal) -> list[str]:
    return [name.strip() for name in str(value or "").split(",") if name.strip()]


def _limited(found: Iterable[str], values: Values) -> list[str]:
    limit = values.get("limit")
    return list(found) if limit is None else list(found)[: int(limit)]


def _planned_as(timeline: Timeline, action: Action) -> list[str]:
    """The instants that were planned as an action, pending or completed, newest first."""
    times = [each.requested_time for each in reversed(timeline.instants)]
    return [time for time in times if timeline.requested_action(time) is action]


def _found(timeline: Timeline, instants: Iterable[str]) -> list[str]:
    return [time for time in sorted(instants, reverse=True) if timeline.find(time) is not None]


def _state(timeline: Timeline, time: str) -> str:
    instant: Instant | None = timeline.find(time)
    return "" if instant is None else instant.state.name


def _compaction(timeline: Timeline, time: str) -> Row:
    return time, len(timeline.compaction_plan(time).operations), _state(timeline, time)


def _clustering(timeline: Timeline, time: str, values: Values) -> Row:
    plan = timeline.requested_replace(time).clustering or ClusteringPlan(())
    partitions = "*"
    if values["show_involved_partition"]:
        involved = {each.partition_path for group in plan.groups for each in group.slices}
        partitions = ",".join(sorted(involved))
    return time, len(plan.groups), _state(timeline, time), partitions


Parts: TypeAlias = (
    "tuple[dict[str, Literal], Callable[[Context, Mapping[str, Literal]], DataFrame], bool]"
)
SCHEDULED: Mapping[str, Parts] = {
    "run_compaction": (
        {
            "op": None,
            "table": None,
            "path": None,
            "timestamp": None,
            "options": None,
            "instants": None,
            "limit": None,
        },
        _run_compaction,
        False,
    ),
    "show_compaction": ({"table": None, "path": None, "limit": _LIMIT}, _show_compaction, True),
    "run_clustering": (
        {
            "table": None,
            "path": None,
            "predicate": None,
            "order": None,
            "show_involved_partition": False,
            "op": None,
            "order_strategy": None,
            "options": None,
            "instants": None,
            "selected_partitions": None,
            "limit": None,
        },
        _run_clustering,
        False,
    ),
    "show_clustering": (
        {"table": None, "path": None, "limit": _LIMIT, "show_involved_partition": False},
        _show_clustering,
        True,
    ),
}
"""Parameters with their defaults in order, what a procedure does, and whether it only looks."""
