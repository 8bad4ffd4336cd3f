"""Real Hudi reads what lakedex did to a table: new columns, wider types, replaced partitions.

Every filter is asked with data skipping and without; a writer of each engine then goes on.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from tests.interop.handing_over import (
    SCHEMA,
    TYPES,
    assert_holds,
    by_hudi,
    by_lakedex,
    hudi_writes,
    in_table,
    make_table,
    merged,
    rows,
    source,
)

NO_SKIPPING = {"hoodie.enable.data.skipping": "false"}
NO_METADATA = {"hoodie.metadata.enable": "false"}

PAIR = pa.struct([("a", pa.int32()), ("b", pa.string())])
WIDER_PAIR = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.float64())])
NARROW = SCHEMA.append(pa.field("pair", PAIR))
WIDE = pa.schema(
    [
        ("id", pa.string()),
        ("ver", pa.int64()),
        ("n", pa.int64()),
        ("s", pa.string()),
        ("p", pa.string()),
        ("pair", WIDER_PAIR),
        ("extra", pa.int32()),
    ]
)
LARGE = 10**12
EVOLVED_QUESTIONS = [
    "extra is null",
    "extra > 30",
    "extra < 0",
    f"n >= {LARGE + 38}",
    "n between 1000 and 1010",
    "pair.c is null",
    "pair.c > 20",
]


def narrow(first: int, last: int, ver: int) -> pa.Table:
    pairs = [{"a": i, "b": f"b{i}"} for i in range(first, last)]
    return rows(first, last, ver).append_column("pair", pa.array(pairs, PAIR))


def wide(first: int, last: int, ver: int) -> pa.Table:
    numbers = range(first, last)
    table = rows(first, last, ver)
    table = table.set_column(2, "n", pa.array([LARGE + i for i in numbers], pa.int64()))
    pairs = [{"a": i, "b": f"b{i}", "c": i / 2} for i in numbers]
    table = table.append_column("pair", pa.array(pairs, WIDER_PAIR))
    return table.append_column("extra", pa.array(list(numbers), pa.int32())).cast(WIDE)


def widened(table: pa.Table) -> pa.Table:
    """Old rows as the new columns show them."""
    pairs = [{**pair, "c": None} for pair in table["pair"].to_pylist()]
    table = table.set_column(5, "pair", pa.array(pairs, WIDER_PAIR))
    return table.append_column("extra", pa.nulls(len(table), pa.int32())).cast(WIDE)


@pytest.mark.parametrize("kind", TYPES)
def test_columns_that_lakedex_added_and_widened(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    columns = WIDE.names
    writer = make_table(path, kind, NARROW)
    writer.upsert(source(narrow(0, 40, 1)))
    writer.upsert(source(wide(4, 12, 2)))
    writer.upsert(source(wide(38, 44, 3)))
    parts = [widened(narrow(0, 40, 1)), wide(4, 12, 2), wide(38, 44, 3)]
    assert by_lakedex(path, columns=columns) == merged(*parts)
    assert by_hudi(spark, path, columns=columns) == merged(*parts)
    for question in EVOLVED_QUESTIONS:
        found = by_hudi(spark, path, question, columns)
        assert found == by_hudi(spark, path, question, columns, **NO_SKIPPING), question
        assert found == by_lakedex(path, question, columns), question
    hudi_writes(spark, path, wide(10, 20, 4), tmp_path)
    parts.append(wide(10, 20, 4))
    assert by_lakedex(path, columns=columns) == merged(*parts)
    writer.upsert(source(wide(19, 21, 5)))
    parts.append(wide(19, 21, 5))
    assert by_hudi(spark, path, columns=columns) == merged(*parts)
    assert by_lakedex(path, columns=columns) == merged(*parts)
    assert lakedex.open(path).verify().ok


def test_type_of_the_evolved_columns(spark, tmp_path):
    path = str(tmp_path / "t")
    writer = make_table(path, "cow", NARROW)
    writer.upsert(source(narrow(0, 8, 1)))
    writer.upsert(source(wide(4, 12, 2)))
    types = dict(spark.read.format("hudi").load(path).dtypes)
    assert types["n"] == "bigint"
    assert types["extra"] == "int"
    assert types["pair"] == "struct<a:int,b:string,c:double>"


@pytest.mark.parametrize("kind", TYPES)
def test_replaced_and_dropped_partitions(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    writer = make_table(path, kind)
    writer.upsert(source(rows(0, 40, 1)))
    writer.upsert(source(rows(0, 6, 2)))
    before = merged(rows(0, 40, 1), rows(0, 6, 2))
    times = [lakedex.open(path).timeline.last_completed.requested_time]
    fresh = rows(100, 101, 3)
    writer.insert_overwrite(source(fresh))
    overwritten = sorted([row for row in before if row[4] != "p0"] + in_table(fresh))
    assert_holds(spark, path, overwritten)
    times.append(lakedex.open(path).timeline.last_completed.requested_time)
    writer.delete_partitions(["p=p1"])
    dropped = [row for row in overwritten if row[4] != "p1"]
    assert_holds(spark, path, dropped)
    for time, expected in zip(times, (before, overwritten), strict=True):
        assert by_hudi(spark, path, as_of_instant=time) == expected
        assert by_hudi(spark, path, as_of_instant=time, **NO_METADATA) == expected
    hudi_writes(spark, path, rows(0, 10, 4), tmp_path)
    again = merged(rows(0, 10, 4))
    keys = {row[0] for row in again}
    assert_holds(spark, path, sorted([row for row in dropped if row[0] not in keys] + again))
    writer.insert_overwrite_table(source(rows(50, 60, 5)))
    assert_holds(spark, path, in_table(rows(50, 60, 5)))
    hudi_writes(spark, path, rows(58, 62, 6), tmp_path)
    assert_holds(spark, path, merged(rows(50, 60, 5), rows(58, 62, 6)))
