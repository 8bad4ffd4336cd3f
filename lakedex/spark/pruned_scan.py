"""The scan of a pinned table: base files for Spark's reader, merged slices for ours.

Both readers use one plan, made from Spark's own filters, so a file that an index removed is removed
for both.

Dynamic pruning decides whether the keys of one side of a join are worth computing for a scan on the
other side. Keys that a join broadcasts anyhow cost nothing but the lookup in the indexes, which has
its own cost model. Keys that need a query of their own may turn out to remove no file, so that
query may take at most a tenth of the time of the scan.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakedex.errors import InvalidInput
from lakedex.expr.tree import tree_text
from lakedex.filegroup import META_COLUMNS, FileSlice
from lakedex.prune import SPARK, PlanOptions, Report, plan
from lakedex.spark.catalyst import translate_filters
from lakedex.spark.jobs import map_batches
from lakedex.spark.jvm_contract import (
    ALL_BYTES,
    ALL_FILES,
    COUNT_OF_COUNTS,
    FIELD_SEPARATOR,
    KEYS_ANY,
    KEYS_BROADCAST,
    KEYS_UNUSED,
    NUMBER_SEPARATOR,
    READ_BYTES,
    READ_FILES,
    SEPARATOR,
)
from lakedex.spark.pins import Pin
from lakedex.spark.schemas import arrow_schema
from lakedex.spark.slice_reading import CHANGE_COLUMNS, SliceReading, row_changes
from lakedex.storage.paths import split
from lakedex.table import Snapshot
from lakedex.table.retention import is_retained
from lakedex.timeline.timeline import CommittedInstants

_WAVES = 4
_LONGEST = 300
"""Characters of a predicate in a report."""
_RECORD_KEY = META_COLUMNS[2]


def prune(
    pin: Pin,
    filters: str,
    time_zone: str,
    *,
    asks_indexes: bool = True,
    knows_zone: bool = True,
) -> Report:
    """The slices that may hold a row for which Spark's filters are true.

    Args:
        pin: The table.
        filters: The filters, as the JVM spells them.
        time_zone: That of the session.
        asks_indexes: Whether the session lets indexes remove anything.
        knows_zone: Whether the JVM and lakedex agree on that zone.
    """

    def make() -> Report:
        if pin.changes is not None:
            return _unpruned(pin)
        translated = translate_filters(
            filters, pin.snapshot.schema, time_zone, knows_zone=knows_zone
        )
        without = frozenset() if pin.spec.prunes and asks_indexes else frozenset(["all"])
        options = PlanOptions(
            time_zone=time_zone,
            without=without,
            reader=SPARK,
            base_files_only=pin.base_files_only,
        )
        text = (
            ""
            if translated.predicate is None
            else shorten(tree_text(translated.predicate), _LONGEST)
        )
        return plan(
            pin.snapshot,
            translated.predicate,
            text=text,
            options=options,
            unknown=translated.unknown,
        )

    return pin.planned(f"{time_zone} {asks_indexes} {filters}", make)


def _unpruned(pin: Pin) -> Report:
    """Changes are in the slices that their commits wrote to; no index is consulted."""
    total = sum(each.size_bytes for each in pin.slices)
    return Report("", len(pin.slices), total, tuple(pin.slices), ())


def native_files(pin: Pin, report: Report) -> str:
    """The base files that Spark reads.

    After a line with counts there is a line for each folder, then one for each of its files.
    """
    left = [each for each in report.files if pin.is_native(each)]
    lines = [_counts(pin.native_half, [pin.readable(each) for each in left])]
    folder = None
    for each in left:
        if each.base is None:
            continue
        if each.partition != folder:
            folder = each.partition
            lines.append(folder)
        lines.append(f"{each.base.name}{FIELD_SEPARATOR}{each.base.size_bytes}")
    return "".join(f"{line}{SEPARATOR}" for line in lines)


def check_files(pin: Pin, report: Report) -> None:
    """Refuse a snapshot of which files that are to be read were cleaned since it was pinned.

    Raises:
        InvalidInput: Naming one of them.
    """
    if pin.is_fresh:
        return
    now = Snapshot.open(pin.address.open())
    seen = pin.snapshot.timeline.last_completed
    if seen is None or is_retained(now.timeline, seen.requested_time):
        return
    left = [each for each in report.files if pin.is_native(each)]
    for partition in sorted({each.partition for each in left}):
        there = {split(info.path)[1] for info in now.storage.list(partition)}
        for each in left:
            if each.partition == partition and each.base and each.base.name not in there:
                raise InvalidInput(
                    f"table {now.config.name} at {now.storage.root}: {each.path_of(each.base.name)}"
                    f" of snapshot {seen.requested_time} was cleaned since the query was planned; "
                    "create the DataFrame again, or keep more versions by "
                    "hoodie.clean.commits.retained"
                )


def merged_counts(pin: Pin, report: Report) -> str:
    """How much of the table our reader would read, and how much of that it reads."""
    left = [each for each in report.files if not pin.is_native(each)]
    return _counts(pin.merged_half, left)


def _counts(half: tuple[int, int], left: Sequence[FileSlice]) -> str:
    """Slices and bytes of one half of the table, and those that are left of it."""
    counts = [0] * COUNT_OF_COUNTS
    counts[ALL_FILES], counts[ALL_BYTES] = half
    counts[READ_FILES], counts[READ_BYTES] = len(left), sum(each.size_bytes for each in left)
    return NUMBER_SEPARATOR.join(map(str, counts))


def merged_rows(spark: SparkSession, pin: Pin, report: Report, columns: str) -> Any:  # noqa: ANN401
    """The rows of slices that Spark cannot read by itself, as an RDD of the JVM.

    Args:
        spark: The session.
        pin: The table.
        report: What is left of it.
        columns: The wanted columns, as the JSON of a StructType.
    """
    struct = StructType.fromJson(json.loads(columns))
    if pin.spec.is_cdc:
        wanted = struct.names or [CHANGE_COLUMNS[0]]
        found = row_changes(spark, pin.address, pin.snapshot, pin.row_changes).select(*wanted)
        return found._jdf.queryExecution().toRdd()
    slices = [pin.readable(each) for each in report.files if not pin.is_native(each)]
    if not slices:
        return spark.sparkContext._jsc.emptyRDD().rdd()
    if not struct.fields:
        # Rows are counted by one column, which Spark then leaves out.
        struct = StructType().add(_any_column(pin), "string")
    rows = _reading(spark, pin, slices, struct)
    return rows._jdf.queryExecution().toRdd()


def _any_column(pin: Pin) -> str:
    names = pin.snapshot.schema.names
    return _RECORD_KEY if _RECORD_KEY in names else names[0]


def _reading(spark: SparkSession, pin: Pin, slices: Sequence[FileSlice], struct: StructType) -> Any:  # noqa: ANN401
    snapshot = pin.view
    ordered = sorted(slices, key=lambda each: each.size_bytes, reverse=True)
    count = min(len(ordered), _WAVES * spark.sparkContext.defaultParallelism)
    reading = SliceReading(
        address=pin.address,
        config=snapshot.config,
        schema=snapshot.schema,
        history=snapshot.history,
        is_committed=CommittedInstants.of(snapshot.timeline),
        shares=[tuple(ordered[first::count]) for first in range(count)],
        target=arrow_schema(struct),
        commits=None if pin.changes is None else pin.changes.commits,
    )
    return map_batches(spark.range(0, count, 1, count), reading, struct)


MOST_OVERHEAD = 0.1
"""Of the time of a scan, what the query for the keys may take."""
_SMALLER = 10
"""How many times smaller a side without any condition must be."""
_OF_ALL_COLUMNS = ("column_stats",)


@dataclass(frozen=True, slots=True)
class OtherSide:
    """Spark's estimates of the side that has the keys."""

    size_bytes: int
    """What Spark expects it to give."""
    read_bytes: int
    """What has to be read for it."""
    is_selective: bool
    """Whether a condition leaves rows out."""
    is_cheap: bool
    """Whether it may be read a second time: a scan, which returns the same rows again."""


def source_of_keys(pin: Pin, columns: Sequence[str], side: OtherSide) -> str:
    """How the keys may be computed: not at all, from a broadcast only, or in any way.

    Args:
        pin: The table that is scanned.
        columns: Its columns that are compared with the keys.
        side: Where the keys come from.
    """
    slices = pin.snapshot.slices
    if len(slices) < 2 or pin.changes is not None or not _can_prune(pin, columns):
        return KEYS_UNUSED
    if not side.is_selective and side.size_bytes * _SMALLER > sum(pin.sizes):
        return KEYS_UNUSED
    query_s = SPARK.query_s + side.read_bytes * SPARK.byte_s
    is_affordable = query_s <= MOST_OVERHEAD * SPARK.seconds(slices)
    return KEYS_ANY if side.is_cheap and is_affordable else KEYS_BROADCAST


def _can_prune(pin: Pin, columns: Sequence[str]) -> bool:
    """Whether an index, a key or a partition path locates values of these columns."""
    config = pin.snapshot.config
    if any(kind in config.metadata_partitions for kind in _OF_ALL_COLUMNS):
        return True
    known = {*config.partition_fields, *config.record_key_fields}
    for definition in (pin.snapshot.readable_definitions or {}).values():
        known.update(definition.source_fields)
    return not {name.partition(".")[0] for name in known}.isdisjoint(columns)
