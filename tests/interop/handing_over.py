"""Tables that lakedex and real Hudi write by turns: how each of them reads and writes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import lakedex
from lakedex.engine import LocalEngine
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ver", pa.int64()),
        ("n", pa.int32()),
        ("s", pa.string()),
        ("p", pa.string()),
    ]
)
PARTITIONS = 4
FEW_GROUPS = {
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
}
# The options of a Hudi writer that keeps the indexes that the tables of these tests have.
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ver",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    **FEW_GROUPS,
}
TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
INDEXES = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    **FEW_GROUPS,
}


def rows(first: int, last: int, ver: int) -> pa.Table:
    """Rows with values made from their numbers: keys lie mixed in four partitions, `n` does not."""
    numbers = range(first, last)
    return pa.table(
        {
            "id": [f"k{i:03}" for i in numbers],
            "ver": [ver for _ in numbers],
            "n": [i + 1000 * (i % PARTITIONS) for i in numbers],
            "s": [f"s{i}-{ver}" for i in numbers],
            "p": [f"p{i % PARTITIONS}" for i in numbers],
        },
        schema=SCHEMA,
    )


def make_table(
    path: str, kind: str, schema: pa.Schema = SCHEMA, options: dict[str, str] | None = None
) -> TableWriter:
    """An empty table with a record index, made by lakedex, and its writer."""
    address = StorageAddress.of(path)
    properties = INDEXES | (options or {})
    create_table(address.open(), TableSpec("t", schema, "id", "ver", "p", kind, properties))
    return writer_of(path)


def writer_of(path: str, options: dict[str, str] | None = None) -> TableWriter:
    """lakedex as a writer of a table."""
    return TableWriter(StorageAddress.of(path), LocalEngine(2), options)


def source(table: pa.Table) -> ArrowRowSource:
    """Rows as the verbs take them."""
    return ArrowRowSource(table)


def upsert_job(path: str, first: int, last: int, ver: int) -> None:
    """An upsert for a process of its own."""
    writer_of(path).upsert(source(rows(first, last, ver)))


def hudi_writes(
    spark: Any, path: str, table: pa.Table, folder: Path, operation: str = "upsert", **more: str
) -> None:
    """Let Hudi write rows; names in `more` have underscores for dots."""
    kept = folder / f"rows-{len(list(folder.glob('rows-*')))}.parquet"
    pq.write_table(table, kept)
    options = OPTIONS | {name.replace("_", "."): value for name, value in more.items()}
    options["hoodie.datasource.write.operation"] = operation
    frame = spark.read.parquet(str(kept))
    frame.write.format("hudi").options(**options).mode("append").save(path)


Values = list[tuple[Any, ...]]


def by_hudi(
    spark: Any,
    path: str,
    predicate: str | None = None,
    columns: Iterable[str] = SCHEMA.names,
    **options: str,
) -> Values:
    """The rows as Hudi reads them, by key; the first of the columns is the key."""
    chosen = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    chosen |= {name.replace("_", "."): value for name, value in options.items()}
    frame = spark.read.format("hudi").options(**chosen).load(path)
    frame = frame if predicate is None else frame.where(predicate)
    found = [tuple(map(plain, row)) for row in frame.selectExpr(*columns).collect()]
    return sorted(found, key=lambda row: row[0])


def in_table(table: pa.Table, columns: Iterable[str] = SCHEMA.names) -> Values:
    """The same of an Arrow table."""
    found = zip(*(map(plain, table[name].to_pylist()) for name in columns), strict=True)
    return sorted(found, key=lambda row: row[0])


def by_lakedex(
    path: str, predicate: str | None = None, columns: Iterable[str] = SCHEMA.names
) -> Values:
    """The same as lakedex reads it."""
    return in_table(lakedex.open(path).to_arrow(predicate), columns)


def plain(value: Any) -> Any:
    """A value that equals another one whichever engine gave it; NaN equals NaN."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, bytearray):
        return bytes(value)
    if hasattr(value, "asDict"):
        return {name: plain(member) for name, member in value.asDict().items()}
    if isinstance(value, list):
        return [plain(member) for member in value]
    return value


def merged(*tables: pa.Table, without: Iterable[str] = ()) -> Values:
    """What is left when later rows take the place of earlier ones of the same key."""
    latest = {row[0]: row for table in tables for row in in_table(table, table.schema.names)}
    gone = set(without)
    return [latest[key] for key in sorted(latest) if key not in gone]


def assert_holds(spark: Any, path: str, expected: Values) -> None:
    """Both engines find these rows, Hudi by the metadata table and by listing folders."""
    assert by_lakedex(path) == expected
    assert by_hudi(spark, path) == expected
    assert by_hudi(spark, path, hoodie_metadata_enable="false") == expected
    report = lakedex.open(path).verify()
    assert report.ok, report.problems[:3]
