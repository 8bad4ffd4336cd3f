"""Procedures that put the files around a table right, or take it to a newer version."""

from __future__ import annotations

from lakedex.config.keys import PARTITION_METAFILE
from lakedex.config.properties_text import format_properties
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.services.upgrading import upgrade_table
from lakedex.spark.sql.calls.procedure import Procedure, Rows, Values, named, table_of
from lakedex.spark.sql.context import Context
from lakedex.storage.protocol import Storage
from lakedex.txn.places import marker_folder

_NEWEST = ("NINE", "9", "CURRENT")


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
    told = {"commitTime": instant, "partitionDepth": str(depth)}
    storage.create(place, format_properties(told, comment="partition metadata").encode("ascii"))


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
    "upgrade_table": Procedure(
        {"table": str, "to_version": str, "path": str},
        "result boolean",
        _upgrade,
        changes=True,
        needs=("to_version",),
    ),
}
