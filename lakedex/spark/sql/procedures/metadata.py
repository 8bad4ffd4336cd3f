"""The metadata table: its listing, its statistics, and whether it agrees with the store.

Also refresh_index, for indexes with `maintenance=async`, which Hudi does not have.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.api import ReadOptions, Table
from lakedex.errors import IndexUnusable, InvalidInput
from lakedex.index.metadata_table import STATS_PAYLOAD, MetadataTable
from lakedex.index.metadata_table.stat_values import stat_values
from lakedex.services.index_names import find_index
from lakedex.services.metadata_rebuilding import drop_metadata_table
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.procedures.procedure import PLACE, Procedure, Rows, Values, named, table_of
from lakedex.spark.table import SparkTable
from lakedex.table import Snapshot
from lakedex.table.index_coverage import async_definitions
from lakedex.table.snapshot import list_files
from lakedex.write import operation as kinds

_ENABLE = "hoodie.metadata.enable"
_STATS = "column_stats"
_SHARES = (0.5, 0.75, 0.95, 0.99)
Range = tuple[str, str, Any, Any, int | None]
"""File, column, smallest and largest value, number of nulls."""


def _show_partitions(context: Context, values: Values) -> Rows:
    slices = table_of(context, values).snapshot.slices
    for path in sorted({each.partition for each in slices}):
        yield (path,)


def _show_files(context: Context, values: Values) -> Rows:
    files = table_of(context, values).snapshot.listing.files
    for name, _ in sorted(files.get(values["partition"] or "", ())):
        yield (name,)


def _show_stats(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    if table.snapshot.config.metadata_enabled:
        readable_metadata(table.snapshot)
    for index in table.indexes():
        yield f"{index.name}.count", str(index.file_groups)
        yield f"{index.name}.totalSizeBytes", str(index.size_bytes)


def _show_column_stats(context: Context, values: Values) -> Rows:
    snapshot = table_of(context, values).snapshot
    for file, column, low, high, nulls in _ranges(snapshot, values):
        is_single = pa.types.is_float32(snapshot.schema.field(column).type)
        texts = [_text(value, is_single=is_single) for value in (low, high)]
        yield file, column, *texts, nulls


def _text(value: object, *, is_single: bool) -> str:
    """A bound as Hudi shows it; a float with the digits that distinguish it from its neighbours."""
    if isinstance(value, bool):
        return str(value).lower()
    if is_single and isinstance(value, float):
        return str(np.float32(value))
    return "null" if value is None else str(value)


def _ranges(snapshot: Snapshot, values: Values) -> Iterator[Range]:
    """The ranges of columns in the files that a query reads, by file and column."""
    if _STATS not in snapshot.config.metadata_partitions:
        raise InvalidInput(f"table {snapshot.config.name} has no index column_stats")
    wanted, columns = _partitions(values), named(values["targetColumns"])
    live = {
        name
        for each in snapshot.slices
        if wanted is None or each.partition in wanted
        for name in each.file_names
    }
    records = Table(snapshot, ReadOptions()).metadata(_STATS).combine_chunks()
    stats = records[STATS_PAYLOAD].combine_chunks()
    names = pc.struct_field(stats, "columnName")
    found: list[Range] = []
    for column in sorted(set(names.to_pylist())):
        place = snapshot.schema.get_field_index(column)
        if place < 0 or (columns and column not in columns):
            continue
        part = stats.filter(pc.equal(names, column))
        typed = stat_values(part, snapshot.schema.field(place).type, as_written=True)
        files = pc.struct_field(part, "fileName").to_pylist()
        gone = pc.struct_field(part, "isDeleted").to_pylist()
        rows = zip(
            files, gone, typed.minimum.to_pylist(), typed.maximum.to_pylist(),
            typed.null_count.tolist(), strict=True,
        )  # fmt: skip
        for file, is_gone, low, high, nulls in rows:
            if file in live and not is_gone:
                found.append((file, column, low, high, None if nulls < 0 else nulls))
    return iter(sorted(found, key=lambda each: each[:2]))


def _partitions(values: Values) -> list[str] | None:
    return named(values["partition"]) or None


def _show_overlap(context: Context, values: Values) -> Rows:
    """How many files share a value of a column: the fewer, the more a query leaves out."""
    snapshot = table_of(context, values).snapshot
    places = {name: each.partition for each in snapshot.slices for name in each.file_names}
    ranges: dict[tuple[str, str], list[Range]] = defaultdict(list)
    for each in _ranges(snapshot, values):
        if each[2] is not None:
            ranges[places[each[0]], each[1]].append(each)
    for (partition, column), files in sorted(ranges.items()):
        counts = sorted(_overlaps(files))
        yield (
            partition,
            column,
            sum(counts) / len(counts),
            counts[-1],
            len(files),
            *(counts[min(int(share * len(counts)), len(counts) - 1)] for share in _SHARES),
            len(counts),
        )


def _overlaps(files: Sequence[Range]) -> list[int]:
    """For each value that begins or ends a range, in how many ranges it is."""
    begins, ends = sorted(each[2] for each in files), sorted(each[3] for each in files)
    values = sorted({*begins, *ends})
    return [bisect_right(begins, value) - bisect_left(ends, value) for value in values]


def _validate(context: Context, values: Values) -> Rows:
    """The files that the metadata table and the store do not both know, or all of them."""
    snapshot = table_of(context, values).snapshot
    recorded = _sizes(list_files(snapshot.storage, readable_metadata(snapshot)).files)
    seen = _sizes(list_files(snapshot.storage, None).files)
    for place in sorted({*recorded, *seen}):
        if values["verbose"] or recorded.get(place) != seen.get(place):
            yield (
                *place,
                place in seen,
                place in recorded,
                seen.get(place, 0),
                recorded.get(place, 0),
            )


def _sizes(files: Any) -> dict[tuple[str, str], int]:  # noqa: ANN401 - a listing
    return {(path, name): size for path, each in files.items() for name, size in each}


def readable_metadata(snapshot: Snapshot) -> MetadataTable:
    """The metadata table of a snapshot.

    Raises:
        InvalidInput: The table has none.
        IndexUnusable: It cannot be read.
    """
    found, name = snapshot.metadata, snapshot.config.name
    if found is not None:
        return found
    if snapshot.metadata_problem is not None:
        raise IndexUnusable(
            f"the metadata table of {name} cannot be read ({snapshot.metadata_problem}); "
            "`lakedex repair` builds it again"
        )
    raise InvalidInput(f"table {name} has no metadata table; CALL create_metadata_table")


def _create(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    if table.snapshot.config.metadata_enabled:
        raise InvalidInput(f"table {table.name} has a metadata table already")
    return [(f"Created {_built(table)}",)]


def _init(context: Context, values: Values) -> Rows:
    table = table_of(context, values)
    if table.snapshot.config.metadata_enabled:
        readable_metadata(table.snapshot)
        return [(f"Opened Metadata Table in {_folder(table)}",)]
    if values["read_only"]:
        raise InvalidInput(f"table {table.name} has no metadata table to open")
    return [(f"Initialized {_built(table)}",)]


def _built(table: SparkTable) -> str:
    begun = time.monotonic()
    table.writer({_ENABLE: "true"}).run(kinds.INDEX, None)
    seconds = time.monotonic() - begun
    return f"Metadata Table in {_folder(table)} (duration={seconds:.1f}secs)"


def _delete(context: Context, values: Values) -> Rows:
    several = [{"table": name} for name in named(values["table"])]
    tables = [table_of(context, each) for each in ([values] if values["path"] else several)]
    for table in tables:  # none is changed where one is wrong
        readable_metadata(table.snapshot)
    for table in tables:
        drop_metadata_table(table.writer())
    return [(f"Deleted Metadata Table at '{', '.join(map(_folder, tables))}'",)]


def _folder(table: SparkTable) -> str:
    return f"{table.path}/.hoodie/metadata"


_COLUMNS = {**PLACE, "partition": str, "targetColumns": str, "filter": ""}
_SHOWN = {**PLACE, "filter": ""}
METADATA = {
    "show_metadata_table_partitions": Procedure(_SHOWN, "partition string", _show_partitions),
    "show_metadata_table_files": Procedure(
        {**PLACE, "partition": "", "limit": 100, "filter": ""}, "file_path string", _show_files
    ),
    "show_metadata_table_stats": Procedure(
        _SHOWN, "stat_key string, stat_value string", _show_stats
    ),
    "show_metadata_table_column_stats": Procedure(
        _COLUMNS,
        "file_name string, column_name string, min_value string, max_value string, "
        "null_number long",
        _show_column_stats,
    ),
    "show_metadata_column_stats_overlap": Procedure(
        _COLUMNS,
        "`Partition path` string, `Field name` string, `Average overlap` double, "
        "`Maximum file overlap` int, `Total file number` int, `50% overlap` int, "
        "`75% overlap` int, `95% overlap` int, `99% overlap` int, `Total value number` int",
        _show_overlap,
    ),
    "validate_metadata_table_files": Procedure(
        {"table": str, "verbose": False, "path": str},
        "partition string, file_name string, is_present_in_fs boolean, "
        "is_present_in_metadata boolean, fs_size long, metadata_size long",
        _validate,
    ),
    "create_metadata_table": Procedure(PLACE, "result string", _create, changes=True),
    "init_metadata_table": Procedure(
        {"table": str, "read_only": False, "path": str}, "result string", _init, changes=True
    ),
    "delete_metadata_table": Procedure(PLACE, "result string", _delete, changes=True),
}


def _refresh(context: Context, values: Values) -> Rows:
    """Refresh one index, or all that writers do not maintain; their status afterwards."""
    table = table_of(context, values)
    names = list(async_definitions(table.snapshot))
    if values["index"] is not None:
        names = [find_index(table.snapshot, str(values["index"])) or str(values["index"])]
    elif values["rebuild"]:
        raise InvalidInput("refresh_index with rebuild => true needs index => '...'")
    for name in names:
        table.refresh_index(name, rebuild=bool(values["rebuild"]))
    table.refresh()
    status = {each.name: each.status for each in table.indexes()}
    return [(name, status.get(find_index(table.snapshot, name) or name)) for name in names]


INDEXES = {
    "refresh_index": Procedure(
        {"table": str, "index": str, "rebuild": False, "path": str},
        "index_name string, status string",
        _refresh,
        changes=True,
    ),
}
