"""Values with slashes and files without partition columns: Hudi and hudi-rs read them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hudi import HudiTable

from lakedex.write.row_source import ArrowRowSource
from tests.support.write_lab import Lab

DROP = "hoodie.datasource.write.drop.partition.columns"
HIVE = "hoodie.datasource.write.hive_style_partitioning"
SLASH_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int32()), ("p", pa.string()), ("q", pa.int32())])
SHAPES = {
    "slashes": ("p", {HIVE: "false"}, ("2026/01/02", "2026/01/03")),
    "hive slashes": ("p,q", {HIVE: "true"}, ("2026/01/02", "2026/01/03")),
    "slash dates": ("p", {SLASH_DATES: "true"}, ("2026-01-02", "2026-01-03")),
    "dropped": ("p,q", {DROP: "true", HIVE: "true"}, ("oslo", "rio")),
    "dropped plain": ("p", {DROP: "true", HIVE: "false"}, ("oslo", "rio")),
}


def source(*rows):
    records = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    return ArrowRowSource(pa.Table.from_pylist(records, SCHEMA))


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("shape", SHAPES)
def test_other_engines_find_the_rows_and_write_on(spark, tmp_path, shape, kind):
    partition, properties, (one, two) = SHAPES[shape]
    table = Lab(
        tmp_path, kind, schema=SCHEMA, partition=partition, ordering=(), properties=properties
    )
    table.writer.upsert(source(("1", 1, one, 7), ("2", 1, two, 7), ("3", 1, two, 8)))
    table.writer.upsert(source(("2", 5, two, 7)))
    name = f"folders_{shape.replace(' ', '_')}_{kind}"
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table.path}'")

    def hudi(condition="true"):
        found = spark.sql(f"SELECT id, v, p, q FROM {name} WHERE {condition}").collect()
        return sorted(map(tuple, found))

    expected = [("1", 1, one, 7), ("2", 5, two, 7), ("3", 1, two, 8)]
    assert hudi() == expected
    assert hudi(f"p = '{two}'") == expected[1:]
    if DROP in properties:
        # hudi-rs refuses such tables by itself.
        with pytest.raises(Exception, match=r"drop\.partition\.columns"):
            HudiTable(table.path)
        return
    batches = [pa.record_batch(batch) for batch in HudiTable(table.path).read()]
    by_hudi_rs = pa.Table.from_batches(batches)
    assert sorted(by_hudi_rs["id"].to_pylist()) == ["1", "2", "3"]
    spark.sql(f"UPDATE {name} SET v = 9 WHERE id = '3'")
    spark.sql(f"INSERT INTO {name} (id, v, p, q) VALUES ('4', 4, '{one}', 7)")
    expected = [("1", 1, one, 7), ("2", 5, two, 7), ("3", 9, two, 8), ("4", 4, one, 7)]
    assert hudi() == expected
    assert sorted(tuple(row[name] for name in SCHEMA.names) for row in table.rows()) == expected
    conditions = (f"p = '{one}'", f"p = '{two}' AND v = 9", "p IS NULL", "q = 7")
    for condition in conditions:
        assert table.rows(condition) == table.rows(condition, indexes=False), condition
