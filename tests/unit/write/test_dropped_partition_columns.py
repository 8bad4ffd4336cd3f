"""Tables whose files leave the partition columns out: the paths tell the values."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakedex
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import META_COLUMNS
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index
from lakedex.services.partition_evolving import evolve_partitions
from lakedex.write.row_source import ArrowRowSource
from tests.support.write_lab import Lab

DROP = "hoodie.datasource.write.drop.partition.columns"
HIVE = "hoodie.datasource.write.hive_style_partitioning"
SCHEMA = pa.schema(
    [("id", pa.string()), ("v", pa.int32()), ("dt", pa.date32()), ("hh", pa.string())]
)
DAY = date(2026, 1, 2)


def dropped_table(path, kind, hive="true", schema=SCHEMA, partition="dt,hh", **more):
    properties = {DROP: "true", HIVE: hive, "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
    return Lab(
        path, kind, "GLOBAL_RECORD_LEVEL_INDEX", schema=schema, partition=partition, ordering=(),
        properties={**properties, **more},
    )  # fmt: skip


def source(*rows):
    records = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    return ArrowRowSource(pa.Table.from_pylist(records, SCHEMA))


def own(rows):
    return sorted(tuple(row[name] for name in SCHEMA.names) for row in rows)


def file_columns(path):
    files = [each for each in Path(path).rglob("*.parquet") if ".hoodie" not in each.parts]
    return {tuple(pq.read_schema(each).names) for each in files}


@pytest.mark.parametrize("hive", ["true", "false"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_every_verb_and_service_reads_the_values_from_paths(tmp_path, kind, hive):
    table = dropped_table(tmp_path, kind, hive)
    writer = table.writer
    writer.upsert(source(("1", 1, DAY, "x"), ("2", 1, DAY, "y"), ("3", 1, None, "x")))
    writer.upsert(source(("1", 5, DAY, "x"), ("4", 1, DAY, "y")))
    writer.delete_where("id = '2'")
    create_index(writer, "by_v", "v")
    if kind == "mor":
        compact_table(writer)
    writer.upsert(source(("4", 9, DAY, "y")))
    cluster_table(writer, ["v"])
    writer.insert(source(("6", 6, DAY, "x")))
    writer.insert_overwrite(source(("7", 7, None, "x")))
    expected = [
        ("1", 5, DAY, "x"), ("4", 9, DAY, "y"), ("6", 6, DAY, "x"), ("7", 7, None, "x"),
    ]  # fmt: skip
    assert own(table.rows()) == sorted(expected, key=lambda row: row[0])
    assert file_columns(table.path) == {(*META_COLUMNS, "id", "v")}
    opened = lakedex.open(table.path)
    assert opened.schema.field("dt").type == pa.date32()
    for condition, keys, files in [
        ("dt = date '2026-01-02' AND hh = 'y'", ["4"], 1),
        ("dt IS NULL", ["7"], 1),
        ("hh = 'x' AND v = 6", ["6"], 1),
    ]:
        assert [row["id"] for row in table.rows(condition)] == keys
        assert table.rows(condition) == table.rows(condition, indexes=False)
        assert len(opened.explain(condition).files) == files
    assert "dt" not in opened.snapshot.definitions["column_stats"].source_fields
    assert not opened.verify().problems


def test_what_a_path_cannot_tell_is_refused(tmp_path):
    table = dropped_table(tmp_path, "cow")
    for value in ("", "__HIVE_DEFAULT_PARTITION__"):
        with pytest.raises(InvalidInput, match="would be read as null"):
            table.writer.upsert(source(("1", 1, DAY, value)))
    assert table.rows() == []
    at = pa.schema([("id", pa.string()), ("v", pa.int32()), ("dt", pa.timestamp("us", "UTC"))])
    with pytest.raises(InvalidInput, match="'dt' cannot be left out of the files"):
        dropped_table(tmp_path / "t", "cow", schema=at, partition="dt")
    day = {
        "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
        "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
        "hoodie.keygen.timebased.output.dateformat": "yyyy",
        "hoodie.table.keygenerator.type": "TIMESTAMP",
    }
    with pytest.raises(InvalidInput, match="its folders are formatted times"):
        dropped_table(tmp_path / "u", "cow", partition="hh", **day)
    with pytest.raises(UnsupportedFeature, match="newer folders do not tell all columns"):
        evolve_partitions(table.address, table.writer.target().patience, by="dt")
