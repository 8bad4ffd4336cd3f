"""truncate_table, drop_partition and run_ttl: partitions that go away as a whole."""

from __future__ import annotations

import re
import time

from lakedex.config.write_option_names import TTL_DAYS, TTL_MOST_PARTITIONS, TTL_POLICY
from lakedex.errors import InvalidInput
from lakedex.spark.sql.calls.procedure import Procedure, Rows, Values, named, options_of, table_of
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.partitions import partition_paths
from lakedex.spark.table import SparkTable
from lakedex.timeline.instant_time import to_epoch_ms

_DAY_MS = 24 * 60 * 60 * 1000
_BY_TIME, _BY_CREATION = TTL_POLICY.choices


def _truncate(context: Context, values: Values) -> Rows:
    begun = time.monotonic()
    table = table_of(context, values)
    wanted = named(values["partitions"])
    table.delete_partitions(_known(table, wanted or partition_paths(table) or [""]))
    yield "SUCCESS", round((time.monotonic() - begun) * 1000)


def _drop(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    table.delete_partitions(_known(table, _expanded(table, named(values["partition"]))))
    yield ("Success",)


def _expanded(table: SparkTable, wanted: list[str]) -> list[str]:
    """The paths with those in the place of a pattern that match it; `*` goes over all levels."""
    found: list[str] = []
    for path in wanted:
        pattern = re.compile(".*".join(map(re.escape, path.split("*"))))
        matching = [each for each in partition_paths(table) if pattern.fullmatch(each)]
        found += matching if "*" in path and matching else [path]
    return list(dict.fromkeys(found))


def _known(table: SparkTable, wanted: list[str]) -> list[str]:
    """Paths of partitions that are there."""
    present = {each.partition for each in table.snapshot.slices}
    missing = [path for path in wanted if path not in present]
    if missing and missing != [""]:
        raise InvalidInput(f"table {table.name} has no partition {missing[0]!r}")
    return wanted


def _run_ttl(context: Context, values: Values) -> Rows:
    """Drop the partitions whose newest rows are older than some days."""
    table = table_of(context, values)
    options = options_of(context, values)
    # What the call says, else the session, else the table.
    settings = {**table.properties, **options}
    policy = str(values["ttl_policy"] or TTL_POLICY.value(settings)).upper()
    if policy not in (_BY_TIME, _BY_CREATION):
        raise InvalidInput(f"ttl_policy is {_BY_TIME} or {_BY_CREATION}, not {policy!r}")
    days = values["retain_days"]
    days = TTL_DAYS.value(settings) if days is None else int(days)
    if days < 0:
        raise InvalidInput(f"run_ttl needs retain_days => ..., or the option {TTL_DAYS.name}")
    oldest = time.time() * 1000 - days * _DAY_MS
    expired = [path for path, at in _times(table, policy).items() if at < oldest]
    expired = sorted(expired)[: TTL_MOST_PARTITIONS.value(settings)]
    if expired:
        table.delete_partitions(expired, options=options)
    return [(path,) for path in expired]


def _times(table: SparkTable, policy: str) -> dict[str, int]:
    """When each partition was written first, or last."""
    snapshot = table.snapshot
    zone = snapshot.config.timezone
    found: dict[str, int] = {}
    chosen = min if policy == _BY_CREATION else max
    for each in snapshot.slices:
        for instant in (each.base_instant, *(log.instant_time for log in each.logs)):
            at = to_epoch_ms(instant, zone)
            found[each.partition] = chosen(found.get(each.partition, at), at)
    found.pop("", None)
    return found


PARTITION_CHANGES = {
    "truncate_table": Procedure(
        {"table": str, "partitions": str, "path": str},
        "result string, time_cost long",
        _truncate,
        changes=True,
    ),
    "drop_partition": Procedure(
        {"table": str, "partition": str, "path": str},
        "result string",
        _drop,
        changes=True,
        needs=("partition",),
    ),
    "run_ttl": Procedure(
        {"table": str, "ttl_policy": str, "retain_days": int, "options": str, "path": str},
        "deleted_partitions string",
        _run_ttl,
        changes=True,
    ),
}
