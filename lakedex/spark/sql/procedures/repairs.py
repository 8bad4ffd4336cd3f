"""Procedures that repair the files around a table or upgrade it.

Also truncate_table, drop_partition and run_ttl, which remove whole partitions.
"""

from __future__ import annotations

import re
import time

from pyspark.sql import Window
from pyspark.sql import functions as fn

from lakedex.config.keys import (
    METADATA_PARTITIONS,
    OWN_METADATA_PARTITIONS,
    PARTITION_METAFILE,
    TABLE_VERSION,
    TIMELINE_LAYOUT_VERSION,
)
from lakedex.config.properties_text import decode_properties, format_properties, parse_properties
from lakedex.config.write_option_names import TTL_DAYS, TTL_MOST_PARTITIONS, TTL_POLICY
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.services.upgrading import upgrade_table
from lakedex.spark.row_source import DataFrameSource
from lakedex.spark.sql.context import Context, own_columns
from lakedex.spark.sql.partitions import partition_paths
from lakedex.spark.sql.procedures.procedure import (
    Procedure,
    Rows,
    Values,
    named,
    options_of,
    table_of,
)
from lakedex.spark.table import SparkTable
from lakedex.storage.protocol import Storage
from lakedex.timeline.instant_time import to_epoch_ms
from lakedex.txn.transaction import TransactionOptions
from lakedex.txn.working_folders import marker_folder
from lakedex.upkeep.cleaning import drop_unreadable_cleans
from lakedex.write import operation as kinds

_NEWEST = ("NINE", "9", "CURRENT")
_DEDUPE_TYPES = ("insert_type", "update_type", "upsert_type")
_COPY = "_lakedex_copy"
_OF_FILES = {
    TABLE_VERSION: "CALL upgrade_table",
    TIMELINE_LAYOUT_VERSION: "CALL upgrade_table",
    METADATA_PARTITIONS: "CREATE or DROP INDEX",
    OWN_METADATA_PARTITIONS: "CREATE or DROP INDEX",
}
"""Properties that say what other files hold, and the statements that change both."""


def _add_partition_meta(context: Context, values: Values) -> Rows:
    """Partitions without the file by which Hudi knows a folder, and the file on request."""
    snapshot = table_of(context, values).snapshot
    first = {
        path: min(each.base_instant for each in snapshot.slices if each.partition == path)
        for path in sorted({each.partition for each in snapshot.slices})
    }
    for path, instant in first.items():
        place = f"{path}/{PARTITION_METAFILE}" if path else PARTITION_METAFILE
        if snapshot.storage.exists(place):
            yield path, "Yes", "None"
        elif values["dry_run"]:
            yield path, "No", "None"
        else:
            _mark(snapshot.storage, place, path, instant)
            yield path, "No", "Repaired"


def _mark(storage: Storage, place: str, partition: str, instant: str) -> None:
    depth = partition.count("/") + 1 if partition else 0
    properties = {"commitTime": instant, "partitionDepth": str(depth)}
    storage.create(
        place, format_properties(properties, comment="partition metadata").encode("ascii")
    )


def _delete_marker(context: Context, values: Values) -> Rows:
    """Remove the notes of instants that ended; those of one that pends are needed to undo it."""
    table = table_of(context, values)
    snapshot = table.snapshot
    for instant in named(values["instant_time"]):
        if not instant.isdecimal():
            raise InvalidInput(f"{instant!r} is no instant")
        if snapshot.timeline.is_pending(instant):
            raise InvalidInput(
                f"{instant} of table {table.name} pends, and its markers say what to undo: CALL "
                "rollback_to_instant instead"
            )
        snapshot.storage.delete_folder(marker_folder(instant))
    yield (True,)


def _overwrite_properties(context: Context, values: Values) -> Rows:
    """Write the table's properties as another file has them; all of both, with old and new."""
    table = table_of(context, values)
    given = parse_properties(
        decode_properties(_read_anywhere(context, values["new_props_file_path"])),
        path=values["new_props_file_path"],
    )
    old = table.snapshot.config.raw
    for name, instead in _OF_FILES.items():
        if given.get(name, "") != old.get(name, ""):
            raise InvalidInput(
                f"{name} is {old.get(name)!r} and would be {given.get(name)!r}, which other files "
                f"of the table depend on: {instead} changes it together with them"
            )
    table.change_properties({**dict.fromkeys(old), **given})
    table.refresh()
    new = table.snapshot.config.raw
    none = "null"
    for name in sorted({*old, *new}):
        yield name, old.get(name, none), new.get(name, none)


def _read_anywhere(context: Context, path: str) -> bytes:
    """The bytes of a small file of any store that Spark knows."""
    found = context.spark.read.format("binaryFile").load(path).select("content").take(2)
    if len(found) != 1:
        raise InvalidInput(f"{path} is no file, or several")
    return bytes(found[0]["content"])


def _deduplicate(context: Context, values: Values) -> Rows:
    """Keep the newest copy of every key of a partition: in another folder, or in a new commit."""
    table, partition = table_of(context, values), values["duplicated_partition_path"]
    if values["dedupe_type"] not in _DEDUPE_TYPES:
        raise InvalidInput(
            f"dedupe_type is one of {', '.join(_DEDUPE_TYPES)}, not {values['dedupe_type']!r}"
        )
    if partition not in partition_paths(table):
        raise InvalidInput(f"table {table.name} has no partition {partition!r}")
    writer = table.writer(context.write_options(table))
    seen = writer.seen()
    newest = fn.row_number().over(
        Window.partitionBy("_hoodie_record_key").orderBy(
            fn.desc("_hoodie_commit_time"), fn.desc("_hoodie_commit_seqno")
        )
    )
    rows = table.to_df().filter(fn.col("_hoodie_partition_path") == partition)
    kept = rows.withColumn(_COPY, newest).filter(f"{_COPY} = 1").drop(_COPY)
    if values["dry_run"]:
        place = values["repaired_output_path"]
        kept.write.parquet(place)
    else:
        place = partition
        names = [f"`{name}`" for name in own_columns(table).names]
        writer.run(kinds.INSERT_OVERWRITE, DataFrameSource(kept.select(*names)), seen=seen)
        table.refresh()
    yield (f"Deduplicated files placed in: {place}.",)


def _drop_corrupted_cleans(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    drop_unreadable_cleans(table.address, TransactionOptions())
    table.refresh()
    yield (True,)


def _upgrade(context: Context, values: Values) -> Rows:
    if str(values["to_version"]).upper() not in _NEWEST:
        raise UnsupportedFeature(f"upgrade_table to {values['to_version']} (only to NINE)")
    table = table_of(context, values)
    upgrade_table(table.address)
    table.refresh()
    yield (True,)


REPAIRS = {
    "repair_add_partition_meta": Procedure(
        {"table": str, "dry_run": True, "path": str},
        "partition_path string, metadata_is_present string, action string",
        _add_partition_meta,
        changes=True,
    ),
    "delete_marker": Procedure(
        {"table": str, "instant_time": str, "path": str},
        "delete_marker_result boolean",
        _delete_marker,
        changes=True,
        needs=("instant_time",),
    ),
    "repair_overwrite_hoodie_props": Procedure(
        {"table": str, "new_props_file_path": str, "path": str},
        "property string, old_value string, new_value string",
        _overwrite_properties,
        changes=True,
        needs=("new_props_file_path",),
    ),
    "repair_deduplicate": Procedure(
        {
            "table": str,
            "duplicated_partition_path": str,
            "repaired_output_path": str,
            "dry_run": True,
            "dedupe_type": "insert_type",
            "path": str,
        },
        "result string",
        _deduplicate,
        changes=True,
        needs=("duplicated_partition_path", "repaired_output_path"),
    ),
    "repair_corrupted_clean_files": Procedure(
        {"table": str, "path": str}, "result boolean", _drop_corrupted_cleans, changes=True
    ),
    "upgrade_table": Procedure(
        {"table": str, "to_version": str, "path": str},
        "result boolean",
        _upgrade,
        changes=True,
        needs=("to_version",),
    ),
}


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
