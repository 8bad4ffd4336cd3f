"""The procedures that CALL knows, with the names and parameters that Hudi gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from lakedex.expr.sql_lexer import complaint
from lakedex.spark.sql.compaction_procedures import SCHEDULED
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.extra_grammar import Extra, Literal
from lakedex.spark.sql.procedure_answers import WRITTEN, Values, shown, table_of, written
from lakedex.spark.sql.service_procedures import SERVICES

_LIMIT = 10


@dataclass(frozen=True)
class Procedure:
    """A procedure: its parameters with their defaults in order, and what it does."""

    parameters: dict[str, Literal]
    run: Callable[[Context, Values], DataFrame]
    is_query: bool = True


def bind(text: str, extra: Extra, procedure: Procedure) -> dict[str, Literal]:
    """The values of a procedure's parameters, by name.

    Raises:
        InvalidDefinition: A parameter is unknown, given twice or missing.
    """
    names = list(procedure.parameters)
    values = dict(procedure.parameters)
    if len(extra.arguments) > len(names):
        raise complaint(text, extra.position, f"{extra.name} takes {', '.join(names)}; too many")
    values |= dict(zip(names, extra.arguments, strict=False))
    for name, value in extra.named.items():
        if name not in names:
            known = ", ".join(names)
            raise complaint(text, extra.position, f"{extra.name} has no {name!r}, only {known},")
        values[name] = value
    if not values.get("table") and not values.get("path"):
        raise complaint(text, extra.position, f"{extra.name} needs table => '...'")
    return values


def _show_commits(context: Context, values: Values) -> DataFrame:
    timeline = table_of(context, values).snapshot.timeline
    limit = int(values["limit"] or _LIMIT)
    rows = []
    for instant in list(reversed(timeline.write_instants()))[:limit]:
        stats = list(timeline.commit_metadata(instant).stats())
        rows.append(
            (
                instant.requested_time,
                timeline.completion_time(instant.requested_time),
                instant.action.value,
                sum(stat.total_write_bytes or 0 for stat in stats),
                *written(stats),
            )
        )
    schema = (
        "commit_time string, completion_time string, action string, total_bytes_written long, "
        f"{WRITTEN}"
    )
    return shown(context, rows, schema, values)


def _show_savepoints(context: Context, values: Values) -> DataFrame:
    times = table_of(context, values).snapshot.timeline.savepoints()
    return shown(context, [(time,) for time in sorted(times)], "savepoint_time string", values)


def _show_properties(context: Context, values: Values) -> DataFrame:
    found = sorted(table_of(context, values).properties.items())
    return shown(context, found, "key string, value string", values)


def _show_metadata_partitions(context: Context, values: Values) -> DataFrame:
    snapshot = table_of(context, values).snapshot
    paths = sorted({each.partition for each in snapshot.slices})
    return shown(context, [(path,) for path in paths], "partition string", values)


def _show_metadata_files(context: Context, values: Values) -> DataFrame:
    files = table_of(context, values).snapshot.listing.files
    wanted = str(values["partition"] or "")
    names = [(name,) for name, _ in sorted(files.get(wanted, ()))]
    return shown(context, names, "file_path string", values)


def _show_metadata_stats(context: Context, values: Values) -> DataFrame:
    rows = []
    for index in table_of(context, values).indexes():
        rows.append((f"{index.name}.count", str(index.file_groups)))
        rows.append((f"{index.name}.totalSizeBytes", str(index.size_bytes)))
    return shown(context, rows, "stat_key string, stat_value string", values)


def _show_latest_slices(context: Context, values: Values) -> DataFrame:
    wanted = values.get("partition_path")
    rows = [
        (
            each.partition,
            each.file_id,
            each.base_instant,
            None if each.base is None else each.base.name,
            0 if each.base is None else each.base.size_bytes,
            len(each.logs),
            sum(log.size_bytes for log in each.logs),
        )
        for each in table_of(context, values).snapshot.slices
        if wanted is None or each.partition == wanted
    ]
    schema = (
        "partition string, file_id string, base_instant string, data_file string, "
        "data_file_size long, num_delta_files long, total_delta_file_size long"
    )
    return shown(context, rows, schema, values)


_PLACE: dict[str, Literal] = {"table": None, "path": None}
PROCEDURES: Mapping[str, Procedure] = {
    "show_commits": Procedure({"table": None, "limit": _LIMIT, "path": None}, _show_commits),
    "show_savepoints": Procedure(_PLACE, _show_savepoints),
    "show_table_properties": Procedure(
        {"table": None, "path": None, "limit": None}, _show_properties
    ),
    "show_metadata_table_partitions": Procedure(_PLACE, _show_metadata_partitions),
    "show_metadata_table_files": Procedure(
        {"table": None, "partition": "", "limit": None, "path": None}, _show_metadata_files
    ),
    "show_metadata_table_stats": Procedure(_PLACE, _show_metadata_stats),
    "show_fsview_latest": Procedure(
        {"table": None, "partition_path": None, "limit": None, "path": None}, _show_latest_slices
    ),
    **{name: Procedure(*parts) for name, parts in {**SCHEDULED, **SERVICES}.items()},
}
