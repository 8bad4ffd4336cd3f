"""Every verb as Spark jobs, judged against a dictionary, by hudi-rs, by Spark and by verify."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hudi import HudiTable

import lakedex
from lakedex.errors import InvalidInput

COLUMNS = "id string, city string, v bigint, at timestamp, tags array<string>, price decimal(10,2)"
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
INDEXES = {
    "simple": {},
    "record": {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.record.index.enable": "true",
    },
}


@dataclass
class Model:
    """What the table must hold: the newest version of each key, by key."""

    rows: dict[str, dict] = field(default_factory=dict)

    def upsert(self, rows: list[dict]) -> None:
        for row in rows:
            known = self.rows.get(row["id"])
            if known is None or known["v"] <= row["v"]:
                self.rows[row["id"]] = row

    def delete(self, keep) -> None:
        self.rows = {key: row for key, row in self.rows.items() if keep(row)}


def make(numbers, version: int, **changes) -> list[dict]:
    return [
        {
            "id": f"k{n:05}",
            "city": f"c{n % 3}",
            "v": version,
            "at": EPOCH + timedelta(hours=n, microseconds=version),
            "tags": [f"t{n % 5}", None] if n % 4 else None,
            "price": None if n % 7 == 0 else f"{n}.{version % 10}0",
            **changes,
        }
        for n in numbers
    ]


def frame(spark, rows: list[dict], parts: int = 3):
    plain = [
        (row["id"], row["city"], row["v"], row["at"].isoformat(), row["tags"], row["price"])
        for row in rows
    ]
    texts = spark.createDataFrame(
        plain, "id string, city string, v bigint, at string, tags array<string>, price string"
    )
    return texts.selectExpr(
        "id", "city", "v", "cast(at as timestamp) at", "tags", "cast(price as decimal(10,2)) price"
    ).repartition(parts)


def plain(rows: pa.Table) -> list[tuple]:
    """Rows in a form in which those of every reader are the same."""
    names = ["id", "city", "v", "at", "tags", "price"]
    found = []
    for row in rows.select(names).to_pylist():
        price = None if row["price"] is None else f"{row['price']:.2f}"
        at = row["at"].astimezone(UTC).replace(tzinfo=None)
        found.append((row["id"], row["city"], row["v"], at, str(row["tags"]), price))
    return sorted(found)


def expected(model: Model) -> list[tuple]:
    return sorted(
        (
            row["id"],
            row["city"],
            row["v"],
            row["at"].replace(tzinfo=None),
            str(row["tags"]),
            row["price"],
        )
        for row in model.rows.values()
    )


def judge(table, model: Model) -> None:
    wanted = expected(model)
    opened = lakedex.open(table.path)
    assert plain(opened.to_arrow()) == wanted
    assert plain(pa.Table.from_batches(HudiTable(table.path).read())) == wanted
    assert [str(problem) for problem in table.verify().problems] == []


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_history_of_every_verb(lake, spark, tmp_path, table_type, index):
    table = lake.create_table(
        "trips",
        COLUMNS,
        path=tmp_path / "trips",
        record_key="id",
        ordering="v",
        partition_by="city",
        table_type=table_type,
        properties=INDEXES[index],
    )
    model = Model()

    rows = make(range(2000), 10)
    result = table.bulk_insert(frame(spark, rows, 4))
    model.upsert(rows)
    assert (result.inserted, result.updated, result.deleted) == (2000, 0, 0)

    # Updates, new keys, and twice the same key in one batch: the larger ordering value wins.
    rows = make(range(1500, 2500), 20) + make(range(1500, 1600), 19, tags=["late in the batch"])
    result = table.upsert(frame(spark, rows))
    model.upsert(rows)
    assert (result.inserted, result.updated) == (500, 500)
    # A late update loses.
    table.upsert(frame(spark, make(range(1500, 1550), 5)))
    judge(table, model)

    result = table.delete(frame(spark, make(range(100, 150), 0)))
    model.delete(lambda row: not "k00100" <= row["id"] < "k00150")
    assert result.deleted == 50
    table.delete("v = 20 and city = 'c1' and id < 'k01700'")
    model.delete(lambda row: not (row["v"] == 20 and row["city"] == "c1" and row["id"] < "k01700"))
    judge(table, model)

    # Rows of one city in the place of all that it had.
    rows = [row for row in make(range(3000, 3300), 30) if row["city"] == "c2"]
    table.insert_overwrite(frame(spark, rows, 2))
    model.delete(lambda row: row["city"] != "c2")
    model.upsert(rows)
    rows = make(range(4000, 4030), 1)
    table.insert(frame(spark, rows, 1))
    model.upsert(rows)
    table.delete_partitions("city=c0")
    model.delete(lambda row: row["city"] != "c0")
    judge(table, model)

    shown = table.to_df().select("id", "v").collect()
    assert {row["id"]: row["v"] for row in shown} == {k: r["v"] for k, r in model.rows.items()}

    rows = make(range(10), 1)
    table.insert_overwrite_table(frame(spark, rows, 1))
    model.rows = {}
    model.upsert(rows)
    judge(table, model)


def test_a_record_index_is_resharded_and_goes_on(lake, spark, tmp_path):
    table = lake.create_table(
        "trips",
        COLUMNS,
        path=tmp_path / "trips",
        record_key="id",
        ordering="v",
        partition_by="city",
        table_type="mor",
        properties=INDEXES["record"],
    )
    model = Model()
    rows = make(range(300), 1)
    table.upsert(frame(spark, rows))
    model.upsert(rows)
    table.reshard_index("record_index", 3)
    judge(table, model)
    rows = make(range(200, 400), 2)
    result = table.upsert(frame(spark, rows))
    model.upsert(rows)
    assert (result.inserted, result.updated) == (100, 100)
    judge(table, model)
    with pytest.raises(InvalidInput, match="only the record_index can be resharded"):
        table.reshard_index("column_stats", 2)
    with pytest.raises(InvalidInput, match="a whole number, not '2'"):
        table.reshard_index("record_index", "2")


def test_rows_in_arrow_are_written_too(lake, tmp_path):
    table = lake.create_table("small", "id bigint, x string", path=tmp_path / "t", record_key="id")
    table.upsert(pa.table({"id": [1, 2], "x": ["a", None]}))
    assert sorted(row["id"] for row in table.to_df().collect()) == [1, 2]
    with pytest.raises(
        InvalidInput, match=r"rows must be a Spark DataFrame.*not builtins\.list; convert"
    ):
        table.upsert([1, 2])


def test_wrong_rows_and_options_leave_no_trace(lake, spark, tmp_path):
    columns = "id bigint, x string, tags array<int>"
    with pytest.raises(InvalidInput, match="column y: the type void cannot be stored"):
        lake.create_table("t", f"{columns}, y void", path=tmp_path / "t", record_key="id")
    table = lake.create_table("t", columns, path=tmp_path / "t", record_key="id")
    # What has no type takes that of its column; numbers and flags are options as well as text.
    table.upsert(
        spark.sql("select 1L id, null x, array() tags"),
        options={"hoodie.parquet.max.file.size": 1 << 20, "hoodie.combine.before.upsert": True},
    )
    [row] = table.to_df().select("id", "x", "tags").collect()
    assert tuple(row) == (1, None, [])
    before = sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file())
    with pytest.raises(InvalidInput, match="id"):
        table.upsert(spark.sql("select cast(null as bigint) id, 'a' x, array(1) tags"))
    with pytest.raises(InvalidInput, match="id"):
        table.upsert(spark.sql("select 'b' x, array(1) tags"))
    with pytest.raises(InvalidInput, match="column y: the type void cannot be stored"):
        table.upsert(spark.sql("select 2L id, 'b' x, array(1) tags, null y"))
    good = spark.sql("select 2L id, 'b' x, array(1) tags")
    with pytest.raises(InvalidInput, match=r"hoodie\.no\.such\.thing"):
        table.upsert(good, options={"hoodie.no.such.thing": "1"})
    assert sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file()) == before
    assert lakedex.open(tmp_path / "t").to_arrow().num_rows == 1


def test_plain_spark_reads_old_dates_and_times_in_our_files(lake, spark, tmp_path):  # case B7
    columns = "id int, day date, at timestamp, wall timestamp_ntz"
    table = lake.create_table("old", columns, path=tmp_path / "t", record_key="id")
    days = ["0001-01-01", "1500-02-28", "1582-10-10", "1899-12-31", "2024-02-29"]
    values = ", ".join(f"({n}, '{day}')" for n, day in enumerate(days))
    rows = spark.sql(
        "select id, to_date(text) day, to_timestamp(text) + interval 1 microsecond at,"
        f" to_timestamp_ntz(text) wall from values {values} as t(id, text)"
    )
    table.upsert(rows)
    mode = "spark.sql.parquet.datetimeRebaseModeInRead"
    # The default of Spark 3: files that do not name their calendar are refused.
    spark.conf.set(mode, "EXCEPTION")
    try:
        files = spark.read.option("recursiveFileLookup", "true").parquet(str(tmp_path / "t"))
        shown = ("id", "cast(day as string)", "cast(at as string)", "cast(wall as string)")
        found = sorted(map(tuple, files.selectExpr(*shown).collect()))
    finally:
        spark.conf.unset(mode)
    times = [f"{day} 00:00:00" for day in days]
    assert found == [(n, day, f"{times[n]}.000001", times[n]) for n, day in enumerate(days)]
