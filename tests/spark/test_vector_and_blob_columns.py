"""VECTOR and BLOB columns through Spark SQL and DataFrames."""

from __future__ import annotations

import pytest

import lakedex

BLOB = (
    "named_struct('type', 'INLINE', 'data', cast('abc' AS binary), 'reference', cast(null AS "
    "struct<external_path:string,offset:bigint,length:bigint,managed:boolean>))"
)


@pytest.fixture(scope="module")
def names(spark):
    """The tables of this file, by their type."""
    made: dict[str, str] = {}
    yield made
    for name in made.values():
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def table(table_type, names, sql):
    """A table of one row, for all tests."""
    name = f"own_types_{table_type}"
    if table_type in names:
        return name
    names[table_type] = name
    sql(
        f"CREATE TABLE {name} (id INT, e VECTOR(4) COMMENT 'it, so', d vector(2, DOUBLE), "
        "i VECTOR(3, INT8), b BLOB, ts BIGINT) USING hudi "
        f"TBLPROPERTIES (primaryKey='id', orderingFields='ts', type='{table_type}')"
    )
    sql(
        f"INSERT INTO {name} SELECT 1, array(1.0f, 2.0f, 3.0f, 4.0f), array(1.0D, 2.0D), "
        f"array(1Y, 2Y, 3Y), {BLOB}, 10L"
    )
    return name


def found(sql, table):
    rows = sql(f"SELECT id, e, d, i, b.type, b.data, ts FROM {table} ORDER BY id").collect()
    return [tuple(row) for row in rows]


def test_statements_carry_the_types(lake, spark, sql, table, table_type, tmp_path):
    sql(f"INSERT INTO {table} VALUES (2, array(5, 6, 7, 8), NULL, array(1Y, 2Y, 3Y), NULL, 10)")
    sql(f"UPDATE {table} SET e = array(9.0f, 9.0f, 9.0f, 9.0f), ts = 11 WHERE id = 1")
    sql(
        f"MERGE INTO {table} t USING (SELECT 2 id, array(1.5f, 2.5f, 3.5f, 4.5f) e, 12L ts) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET e = s.e, ts = s.ts"
    )
    expected = [
        (1, [9.0] * 4, [1.0, 2.0], [1, 2, 3], "INLINE", b"abc", 11),
        (2, [1.5, 2.5, 3.5, 4.5], None, [1, 2, 3], None, None, 12),
    ]
    assert found(sql, table) == expected
    if table_type == "mor":
        sql(f"CALL run_compaction(op => 'scheduleAndExecute', table => '{table}')")
    sql(f"CALL run_clustering(table => '{table}', order => 'ts')")
    assert found(sql, table) == expected
    described = {row["col_name"]: row["data_type"] for row in sql(f"DESCRIBE {table}").collect()}
    assert described["e"] == "array<float>"
    assert described["i"] == "array<tinyint>"
    assert described["b"].startswith("struct<type:string,data:binary,reference:struct<")
    told = {field.name: field.metadata for field in spark.table(table).schema}
    assert told["e"] == {"hudi_type": "VECTOR(4)", "comment": "it, so"}
    assert told["d"] == {"hudi_type": "VECTOR(2, DOUBLE)"}
    assert told["b"] == {"hudi_type": "BLOB"}
    path = lake.table(table).path
    assert str(lakedex.open(path).schema.field("e").type).startswith("fixed_size_list")
    # A DataFrame carries the types into another table, as in Hudi.
    other = str(tmp_path / "other")
    options = {"hoodie.table.name": "o", "hoodie.datasource.write.recordkey.field": "id"}
    frame = spark.read.format("hudi").load(path).select("id", "e", "b")
    frame.write.format("hudi").options(**options).mode("append").save(other)
    copied = lakedex.open(other)
    assert copied.schema.field("e").metadata == {b"hudi_type": b"VECTOR(4)"}
    assert copied.schema.field("b").metadata == {b"hudi_type": b"BLOB"}
    # A plain array of the right length fits, and one of another length does not.
    options["hoodie.write.set.null.for.missing.columns"] = "true"
    plain = spark.createDataFrame([(3, [1.0, 2.0, 3.0, 4.0])], "id int, e array<float>")
    plain.write.format("hudi").options(**options).mode("append").save(other)
    short = spark.createDataFrame([(4, [1.0])], "id int, e array<float>")
    with pytest.raises(Exception, match=r"column e is VECTOR\(4\): expected 4 elements, actual 1"):
        short.write.format("hudi").options(**options).mode("append").save(other)
    assert spark.read.format("hudi").load(other).count() == 3


def test_what_does_not_fit_is_refused(spark, sql, table):
    before = found(sql, table)
    with pytest.raises(Exception, match=r"column e is VECTOR\(4\): expected 4 elements, actual 3"):
        sql(f"INSERT INTO {table} VALUES (2, array(1, 2, 3), NULL, NULL, NULL, 10)")
    wrong = BLOB.replace("INLINE", "WRONG")
    with pytest.raises(Exception, match=r"column b\.type is 'WRONG'"):
        sql(f"INSERT INTO {table} SELECT 2, NULL, NULL, NULL, {wrong}, 10L")
    for column in ("e", "b"):
        with pytest.raises(Exception, match=rf"column '?{column}'?.*(VECTOR|BLOB)"):
            sql(f"CREATE INDEX by_it ON {table} ({column})")
    assert found(sql, table) == before
    for columns in ("e VECTOR(0)", "e VECTOR(4, TEXT)"):
        with pytest.raises(Exception, match="column e"):
            sql(f"CREATE TABLE wrong_types (id INT, {columns}) USING hudi")
    assert not spark.catalog.tableExists("wrong_types")
