"""Data files and file slices: show_fsview_latest and similar, sizes, damaged files.

Also copy_to_table and copy_to_temp_view, which give a table's rows another name.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.filegroup import FileSlice, parse_data_file
from lakedex.filegroup.names import BaseFile, LogFile
from lakedex.filegroup.slices import all_versions
from lakedex.spark.jvm_contract import DATA_SOURCE
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.procedures.procedure import (
    PLACE,
    Procedure,
    Rows,
    Values,
    named,
    table_of,
)
from lakedex.spark.table import SparkTable
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant, PlanKind, read_plan

_EVERY = "ALL_PARTITIONS"
_UNITS = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10))
_REMOVALS = {
    Action.CLEAN: PlanKind.CLEAN_METADATA,
    Action.ROLLBACK: PlanKind.ROLLBACK_METADATA,
    Action.RESTORE: PlanKind.RESTORE_METADATA,
}


def _view(context: Context, values: Values) -> tuple[SparkTable, Snapshot]:
    table = table_of(context, values)
    snapshot = table.snapshot
    return table, snapshot.at(values["max_instant"]) if values["max_instant"] else snapshot


def _wanted(snapshot: Snapshot, values: Values) -> set[str] | None:
    """The partitions that a call is about; None for all."""
    by_path, by_glob = values.get("partition_path", _EVERY), values["path_regex"]
    if _EVERY not in (by_path, by_glob):
        raise InvalidInput("give path_regex or partition_path, not both")
    if by_path != _EVERY:
        return set(named(by_path)) or {""}
    if by_glob == _EVERY:
        return None
    pattern = _glob_pattern(by_glob)
    return {path for path in snapshot.listing.files if pattern.fullmatch(path)}


def _glob_pattern(glob: str) -> re.Pattern[str]:
    """A path pattern of Hadoop, which Hudi calls `path_regex`; `*` stays within one folder.

    Example:
        >>> bool(_glob_pattern("day=d1/*/").fullmatch("day=d1/hh=h2"))
        True
        >>> bool(_glob_pattern("*").fullmatch("day=d1/hh=h2"))
        False
        >>> bool(_glob_pattern("day={d1,d2}/hh=h[0-3]").fullmatch("day=d2/hh=h2"))
        True
    """
    text, depth = "", 0
    marks = {"*": "[^/]*", "?": "[^/]", "[": "[", "]": "]"}
    for char in glob.strip("/"):
        if char == "{" or (char in ",}" and depth):
            depth += {"{": 1, "}": -1, ",": 0}[char]
            text += {"{": "(?:", "}": ")", ",": "|"}[char]
        elif char == "-" and "[" in text[text.rfind("]") + 1 :]:
            text += char
        else:
            text += marks.get(char, re.escape(char))
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidInput(
            f"path_regex => {glob!r} is no path pattern such as 'day=*/hour=0[0-9]/': {error}"
        ) from error


def _slice(root: str, each: FileSlice) -> tuple[object, ...]:
    return (
        each.partition,
        each.file_id,
        each.base_instant,
        None if each.base is None else f"{root}/{each.path_of(each.base.name)}",
        0 if each.base is None else each.base.size_bytes,
        len(each.logs),
        sum(log.size_bytes for log in each.logs),
    )


def scheduled_logs(snapshot: Snapshot, each: FileSlice) -> list[LogFile]:
    """The log files of a slice that a planned compaction is going to take."""
    instant = snapshot.visibility.pending_compactions.get(each.id)
    return [log for log in each.logs if instant is not None and log.instant_time < instant]


def _show_latest(context: Context, values: Values) -> Rows:
    table, snapshot = _view(context, values)
    wanted = _wanted(snapshot, values)
    for each in snapshot.slices:
        if wanted is not None and each.partition not in wanted:
            continue
        due = scheduled_logs(snapshot, each)
        rest = [log for log in each.logs if log not in due]
        sizes = [sum(log.size_bytes for log in logs) for logs in (due, rest)]
        base = each.base.size_bytes if each.base else 0
        names = [f"[{','.join(log.name for log in logs)}]" for logs in (due, rest)]
        shares = [size / base if base else -1.0 for size in sizes]
        yield *_slice(table.path, each), *sizes, *shares, *names


def _show_all(context: Context, values: Values) -> Rows:
    table, snapshot = _view(context, values)
    wanted = _wanted(snapshot, values)
    for partition, files in sorted(snapshot.listing.files.items()):
        if wanted is None or partition in wanted:
            for versions in all_versions(partition, files, snapshot.visibility).values():
                for each in reversed(versions):
                    logs = ",".join(log.name for log in each.logs)
                    yield *_slice(table.path, each), f"[{logs}]"


def _file_sizes(context: Context, values: Values) -> Rows:
    """How large the base files are that each commit wrote."""
    snapshot = table_of(context, values).snapshot
    wanted = _sized_partitions(snapshot, values["partition_path"])
    sizes: dict[str, list[int]] = defaultdict(list)
    for partition, files in snapshot.listing.files.items():
        if wanted is not None and not wanted.fullmatch(partition):
            continue
        for name, size in files:
            found = parse_data_file(name, size)
            if isinstance(found, BaseFile):
                sizes[found.instant_time].append(size)
    for instant in sorted(sizes):
        yield _measured(instant, sizes[instant])
    yield _measured("ALL", [size for each in sizes.values() for size in each])


def _sized_partitions(snapshot: Snapshot, glob: str) -> re.Pattern[str] | None:
    """The pattern of the partitions that are measured; None for all of them."""
    depth = len(snapshot.config.partition_fields)
    levels = [level for level in glob.split("/") if level]
    if not depth or not levels:
        return None
    if len(levels) != depth:
        raise InvalidInput(
            f"partition_path => {glob!r} has {len(levels)} levels; the partitions of table "
            f"{snapshot.config.name} have {depth} ({', '.join(snapshot.config.partition_fields)})"
        )
    return _glob_pattern(glob)


def _measured(what: str, sizes: Sequence[int]) -> tuple[object, ...]:
    ordered = sorted(sizes) or [0]

    def percentile(share: float) -> float:
        place = share * (len(ordered) + 1)
        below = ordered[min(max(int(place) - 1, 0), len(ordered) - 1)]
        above = ordered[min(max(int(place), 0), len(ordered) - 1)]
        return below + (above - below) * (place - int(place) if place >= 1 else 0.0)

    return (
        what,
        ordered[0],
        percentile(0.1),
        percentile(0.5),
        statistics.fmean(ordered),
        percentile(0.95),
        ordered[-1],
        len(sizes),
        statistics.stdev(ordered) if len(ordered) > 1 else 0.0,
    )


def _file_status(context: Context, values: Values) -> Rows:
    """Whether a file is there, or which instant removed it."""
    table = table_of(context, values)
    snapshot, file = table.snapshot, values["file"]
    partition = values["partition"]
    for path, files in snapshot.listing.files.items():
        if partition in (None, path) and any(name == file for name, _ in files):
            full = "/".join(part for part in (table.path, path, file) if part)
            return [("exist", "", "", "active", full)]
    timeline = snapshot.timeline
    for each in reversed(timeline.completed()):
        if each.action in _REMOVALS and _removed(each, timeline.read(each), partition, file):
            return [("deleted", each.action.value, each.requested_time, "active", "")]
    for each in reversed(timeline.archived.instants()):
        if each.action in _REMOVALS:
            data = timeline.archived.metadata(each.requested_time) or b""
            if _removed(each, data, partition, file):
                return [("deleted", each.action.value, each.requested_time, "archived", "")]
    return [("unknown", "", "", "", "")]


def _removed(instant: Instant, data: bytes, partition: str | None, file: str) -> bool:
    """Whether a clean, a rollback or a restore removed a file."""
    path = f"{instant.action.value} {instant.requested_time}"
    record = read_plan(_REMOVALS[instant.action], data, path=path)
    records = [record]
    if instant.action is Action.RESTORE:
        inner = record["hoodieRestoreMetadata"].values()
        records = [each for every in inner for each in every if each is not None]
    return any(
        partition in (None, path) and file == name.rpartition("/")[2]
        for each in records
        for path, part in each["partitionMetadata"].items()
        for name in part["successDeleteFiles"]
    )


def _path_details(context: Context, values: Values) -> Rows:
    """How many folders, files and bytes are under a path of any store that Spark knows."""
    place = context.spark.sparkContext._jvm.org.apache.hadoop.fs.Path(values["path"])
    store = place.getFileSystem(context.spark._jsparkSession.sessionState().newHadoopConf())
    places = [each.getPath() for each in store.listStatus(place)] if values["is_sub"] else [place]
    found = []
    for each in places:
        summary = store.getContentSummary(each)
        size = int(summary.getLength())
        found.append(
            (
                int(summary.getDirectoryCount()),
                int(summary.getFileCount()),
                size,
                _with_unit(size),
                str(each.toString()),
                int(summary.getSpaceConsumed()),
                int(summary.getQuota()),
                int(summary.getSpaceQuota()),
            )
        )
    # By size, or by the number of files.
    by = 2 if values["sort"] else 1
    return sorted(found, key=lambda row: row[by], reverse=True)


def _with_unit(size: int) -> str:
    for unit, length in _UNITS:
        if size >= length:
            return f"{size / length:.2f}{unit}"
    return f"{size}B"


def _show_invalid(context: Context, values: Values) -> Rows:
    """Files in the partitions that are called Parquet files and have no such footer.

    With `needDelete` those go that are no files of the table, by their names; nothing is shown
    then. A file of the table stays: rows would be gone without a commit.
    """
    table = context.lake.table_at(values["path"])
    snapshot = table.snapshot
    instants = named(values["instants"])
    found: list[tuple[str, bool]] = []
    for partition in _folders_named(snapshot, named(values["partitions"])):
        for name in _parquet_names(snapshot, partition):
            data_file = parse_data_file(name, 0)
            if instants and getattr(data_file, "instant_time", None) not in instants:
                continue
            path = f"{partition}/{name}" if partition else name
            if not _is_parquet(snapshot, path):
                found.append((path, data_file is not None))
    if not values["needDelete"]:
        return [(f"{table.path}/{path}",) for path, _ in found]
    for path, is_data in found:
        if is_data:
            raise UnsupportedFeature(
                f"show_invalid_parquet with needDelete of {path} (rows would be gone without a "
                "commit; rollback_to_instant or restore the table)"
            )
    for path, _ in found:
        snapshot.storage.delete(path)
    return []


def _folders_named(snapshot: Snapshot, wanted: Sequence[str]) -> list[str]:
    """The partitions of these paths, and those in folders of these paths; all if there are none."""
    return [
        path
        for path in sorted(snapshot.listing.files)
        if not wanted or any(path == each or path.startswith(f"{each}/") for each in wanted)
    ]


def _parquet_names(snapshot: Snapshot, partition: str) -> list[str]:
    """Base files of a partition, and all other files there whose name is that of a Parquet file."""
    known = {
        name
        for name, size in snapshot.listing.files[partition]
        if isinstance(parse_data_file(name, size), BaseFile)
    }
    there = (info.path.rpartition("/")[2] for info in snapshot.storage.list(partition))
    return sorted(
        known | {name for name in there if name.endswith(".parquet") and not name.startswith(".")}
    )


def _is_parquet(snapshot: Snapshot, path: str) -> bool:
    try:
        with snapshot.storage.open_parquet_input(path) as file:
            pq.read_metadata(file)
    except (pa.ArrowException, OSError, LakedexError):
        return False
    return True


_VIEW = {
    **PLACE,
    "max_instant": "",
    "include_max": False,
    "include_in_flight": False,
    "exclude_compaction": False,
    "limit": 10,
    "path_regex": _EVERY,
    "filter": "",
}
_SLICE = (
    "partition string, file_id string, base_instant string, data_file string, "
    "data_file_size long, num_delta_files long, total_delta_file_size long"
)
FILES = {
    "show_fsview_latest": Procedure(
        {**_VIEW, "partition_path": _EVERY, "merge": True},
        f"{_SLICE}, delta_size_compaction_scheduled long, delta_size_compaction_unscheduled long, "
        "delta_to_base_radio_compaction_scheduled double, "
        "delta_to_base_radio_compaction_unscheduled double, "
        "delta_files_compaction_scheduled string, delta_files_compaction_unscheduled string",
        _show_latest,
    ),
    "show_fsview_all": Procedure(_VIEW, f"{_SLICE}, delta_files string", _show_all),
    "stats_file_sizes": Procedure(
        {"table": str, "partition_path": "", "limit": 10, "path": str},
        "commit_time string, min long, `10th` double, `50th` double, avg double, `95th` double, "
        "max long, num_files int, std_dev double",
        _file_sizes,
    ),
    "show_file_status": Procedure(
        {**PLACE, "partition": str, "file": str, "filter": ""},
        "status string, action string, instant string, timeline string, full_path string",
        _file_status,
        needs=("file",),
    ),
    "show_fs_path_detail": Procedure(
        {"path": str, "is_sub": False, "sort": True, "limit": 100, "filter": ""},
        "path_num long, file_num long, storage_size long, `storage_size(unit)` string, "
        "storage_path string, space_consumed long, quota long, space_quota long",
        _path_details,
        needs=("path",),
    ),
    "show_invalid_parquet": Procedure(
        {
            "path": str,
            "parallelism": 100,
            "limit": 100,
            "needDelete": False,
            "partitions": "",
            "instants": "",
            "filter": "",
        },
        "path string",
        _show_invalid,
        changes=True,
        needs=("path",),
    ),
}


_SNAPSHOT, _INCREMENTAL, _OPTIMIZED = "snapshot", "incremental", "read_optimized"
_MODES = ("append", "overwrite")
_QUERY_TYPE = "hoodie.datasource.query.type"


def _rows(context: Context, values: Values) -> DataFrame:
    """The rows that a call is about: of now, of an earlier time, or what changed between two."""
    table, kind = table_of(context, values), str(values["query_type"]).lower()
    if kind == _INCREMENTAL:
        if not values["begin_instance_time"]:
            raise InvalidInput("an incremental copy needs begin_instance_time => '...'")
        return table.changes(values["begin_instance_time"], values["end_instance_time"] or None)
    if kind == _OPTIMIZED:
        reader = context.spark.read.format(DATA_SOURCE).option(_QUERY_TYPE, _OPTIMIZED)
        return reader.load(table.path)
    if kind != _SNAPSHOT:
        known = ", ".join((_SNAPSHOT, _OPTIMIZED, _INCREMENTAL))
        raise InvalidInput(f"query_type is one of {known}, not {kind!r}")
    return table.to_df(as_of=values["as_of_instant"] or None)


def _to_view(context: Context, values: Values) -> Rows:
    rows, name = _rows(context, values), values["view_name"]
    if values["global"]:
        make = (
            rows.createOrReplaceGlobalTempView if values["replace"] else rows.createGlobalTempView
        )
    else:
        make = rows.createOrReplaceTempView if values["replace"] else rows.createTempView
    make(name)
    return [(0,)]


def _to_table(context: Context, values: Values) -> Rows:
    mode = str(values["save_mode"]).lower()
    if mode not in _MODES:
        raise InvalidInput(f"save_mode is append or overwrite, not {mode!r}")
    rows = _rows(context, values)
    columns = named(values["columns"])
    if columns:
        rows = rows.select(*[f"`{name}`" for name in columns])
    rows.write.mode(mode).saveAsTable(values["new_table"])
    return [(0,)]


_RANGE = {"begin_instance_time": "", "end_instance_time": "", "as_of_instant": ""}
COPYING = {
    "copy_to_temp_view": Procedure(
        {
            "table": str,
            "query_type": _SNAPSHOT,
            "view_name": str,
            **_RANGE,
            "replace": False,
            "global": False,
        },
        "status int",
        _to_view,
        changes=True,
        needs=("view_name",),
    ),
    "copy_to_table": Procedure(
        {
            "table": str,
            "query_type": _SNAPSHOT,
            "new_table": str,
            **_RANGE,
            "save_mode": "overwrite",
            "columns": "",
        },
        "status int",
        _to_table,
        changes=True,
        needs=("new_table",),
    ),
}
