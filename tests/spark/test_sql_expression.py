"""Expression indexes by SQL: what Spark's optimiser makes of predicates prunes files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakedex.engine import LocalEngine
from lakedex.errors import InvalidDefinition, InvalidInput, LakedexError, UnsupportedFeature
from lakedex.storage.open import StorageAddress
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

DAY_S = 86_400
FIRST = 1_664_582_400  # 2022-10-01T00:00:00Z
ZONE = "spark.sql.session.timeZone"


def rows_of(day: int, name: str) -> pa.Table:
    """Four rows of a day, in hours that no other day has."""
    first = FIRST + day * DAY_S
    seconds = pa.array([first + (4 * day + n) * 3600 for n in range(4)], pa.timestamp("s", "UTC"))
    return pa.table(
        {
            "id": [f"k{day}{n}" for n in range(4)],
            "ts": [first + n * 3600 for n in range(4)],
            "at": seconds.cast(pa.timestamp("us", "UTC")),
            "name": [name] * 4,
        }
    )


@pytest.fixture(scope="module")
def events(lake, spark, tmp_path_factory):
    """Four files, one a day, with indexes on the day, the hour and the name."""
    path = tmp_path_factory.mktemp("expr") / "events"
    spark.sql(
        "CREATE TABLE events (id string, ts bigint, at timestamp, name string) USING hudi "
        f"TBLPROPERTIES (primaryKey='id', orderingFields='ts', type='mor') LOCATION '{path}'"
    )
    writer = TableWriter(StorageAddress.of(str(path)), LocalEngine(1))
    for day, name in enumerate(("Ann", "bob", "Bob", "")):
        writer.bulk_insert(ArrowRowSource(rows_of(day, name)))
    sql = spark.sql
    sql("CREATE INDEX idx_day ON events USING column_stats(ts) "
        "OPTIONS (expr='from_unixtime', format='yyyy-MM-dd')")  # fmt: skip
    sql("CREATE INDEX idx_hour ON TABLE events (hour(at))")
    sql("CREATE INDEX IF NOT EXISTS up ON events USING column_stats (upper(name))")
    sql("CREATE INDEX start ON events (substring(upper(trim(name)), 1, 2))")
    sql("CREATE INDEX both ON events (concat(name, '-', id))")
    sql("CREATE INDEX twice ON events (ts * 2 + 1)")
    sql("CREATE INDEX yr ON events (year(to_date(from_unixtime(ts))) + month(at))")
    sql("CREATE INDEX half ON events USING column_stats(ts) OPTIONS (expr='round(ts / 2)')")
    sql("CREATE INDEX part ON events (split(concat(id, '/', name), '/')[1])")
    sql("CREATE INDEX size ON events USING column_stats(ts) OPTIONS (EXPR='abs')")
    sql("CREATE INDEX less ON events (ts-1)")
    sql("CREATE INDEX days ON events (ts div 86400)")
    sql("CREATE INDEX joined ON events (id || '+' || name)")
    sql("CREATE INDEX digit ON events (regexp_extract(id, 'k([0-9])', 1))")
    sql("CREATE INDEX low ON events USING bloom_filters(name) OPTIONS (expr='lower')")
    return lake.table("events")


def asked(lake, condition: str) -> tuple[list[str], int]:
    """The rows that a query finds, and how many files it reads."""
    query = f"SELECT id FROM events WHERE {condition}"
    rows = lake.spark.sql(query).collect()
    return sorted(row["id"] for row in rows), len(lake.explain(query).files)


DAY = "from_unixtime(ts, 'yyyy-MM-dd')"
SHAPES = [
    # case B12: predicates that the optimizer rewrote
    (f"{DAY} = '2022-10-02'", 4, 1),
    (f"'2022-10-02' = {DAY} AND id > 'k11'", 2, 1),
    (f"{DAY} <=> '2022-10-02'", 4, 1),
    (f"{DAY} BETWEEN '2022-10-02' AND '2022-10-03'", 8, 2),
    (f"{DAY} IN ('2022-10-01', '2022-10-04')", 8, 2),
    (f"{DAY} IN ({', '.join(repr(f'2022-10-{day}') for day in range(10, 25))})", 0, 0),
    (f"{DAY} LIKE '2022-10-03%'", 4, 1),
    (f"NOT ({DAY} < '2022-10-04')", 4, 1),
    (f"{DAY} IS NULL", 0, 0),
    (f"{DAY} = '2022-10-02' OR {DAY} = '2022-10-03'", 8, 2),
    (f"substring({DAY}, 1, 7) = '2022-11'", 0, None),
    ("hour(at) = 5", 1, 1),
    (f"hour(at) >= 12 AND {DAY} <= '2022-10-03'", 0, 0),
    ("upper(name) = 'BOB'", 8, 2),
    ("lower(name) = 'ann'", 4, 1),
    ("substring(upper(trim(name)), 1, 2) = 'BO'", 8, 2),
    ("left(ucase(btrim(name)), 2) LIKE 'A%'", 4, 1),
    ("concat(name, '-', id) = 'bob-k12'", 1, 1),
    ("name || '-' || id IN ('bob-k12', 'Ann-k00')", 2, None),
    (f"ts * 2 + 1 = {2 * FIRST + 1}", 1, 1),
    (f"{2 * FIRST} < ts * 2 + 1 AND 1 + ts * 2 < {2 * FIRST + 2}", 1, None),
    ("year(to_date(from_unixtime(ts))) + month(at) = 2032", 16, 4),
    ("year(to_date(from_unixtime(ts))) + month(at) = 2031", 0, 0),
    (f"round(ts / 2) = {FIRST / 2}D", 1, 1),
    ("split(concat(id, '/', name), '/')[1] = 'Bob'", 4, 1),
    (f"abs(ts) = {FIRST}", 1, 1),
    (f"ts - 1 = {FIRST - 1}", 1, 1),
    (f"ts div 86400 = {FIRST // DAY_S + 1}", 4, 1),
    (f"days = {FIRST // DAY_S + 2}", 4, 1),
    ("id || '+' || name = 'k12+bob'", 1, 1),
    ("regexp_extract(id, 'k([0-9])') IN ('1', '3')", 8, 2),
    # case B61: expression index and its bare column
    ("name = 'bob'", 4, 1),
    ("name = 'BOB'", 0, None),
    # case B11: casts and functions in predicates
    (f"ts = {FIRST + DAY_S}", 1, 1),
]


@pytest.mark.parametrize(("condition", "rows", "files"), SHAPES)
def test_the_shapes_of_predicates_prune(events, lake, condition, rows, files):
    found, read = asked(lake, condition)
    assert len(found) == rows
    assert files is None or read == files, lake.explain(f"SELECT id FROM events WHERE {condition}")


def test_writes_of_sessions_in_other_zones_keep_to_the_zone_of_the_index(events, lake, spark):
    own = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "Asia/Tokyo")
    try:
        spark.sql(f"UPDATE events SET ts = {FIRST + 9 * DAY_S + 1}, name = 'new' WHERE id = 'k00'")
        spark.sql("DELETE FROM events WHERE id = 'k01'")
        spark.sql("DELETE FROM events WHERE id = 'nobody'")
        assert asked(lake, f"{DAY} = '2022-10-10'")[0] == ["k00"]
    finally:
        spark.conf.set(ZONE, own)
    assert asked(lake, f"{DAY} = '2022-10-10'") == (["k00"], 1)
    assert asked(lake, "upper(name) = 'NEW'")[0] == ["k00"]
    assert events.verify().ok
    spark.sql("REFRESH INDEX idx_day ON events")
    shown = {row["index_name"]: row for row in spark.sql("SHOW INDEXES FROM events").collect()}
    assert shown["expr_index_idx_day"]["col_name"] == "ts"
    assert asked(lake, f"{DAY} = '2022-10-10'") == (["k00"], 1)
    spark.sql("DROP INDEX idx_hour ON events")
    assert "expr_index_idx_hour" not in {each.name for each in events.indexes()}


WRONG: list[tuple[str, type[LakedexError], str]] = [
    ("CREATE INDEX i ON events (soundex(name))", UnsupportedFeature, "the function 'soundex'"),
    ("CREATE INDEX i ON events (rand())", UnsupportedFeature, "the function 'rand'"),
    ("CREATE INDEX i ON events (ts + rand())", UnsupportedFeature, "not the same each time"),
    ("CREATE INDEX i ON events (trim(name) > 'a')", UnsupportedFeature, "a condition"),
    ("CREATE INDEX i ON events (max(ts))", InvalidDefinition, "an aggregate cannot be used"),
    ("CREATE INDEX i ON events (upper(name) x)", InvalidDefinition, "x"),
    ("CREATE INDEX i ON events (upper(name)) x", InvalidDefinition, "the statement should end"),
    ("CREATE INDEX i ON events USING lucene (upper(name))", UnsupportedFeature, "'lucene'"),
    ("CREATE INDEX i ON events (upper(ts))", InvalidInput, "cannot be indexed by upper"),
    (
        "CREATE INDEX i ON events USING column_stats(at) OPTIONS (expr='date_format')",
        InvalidInput,
        "needs the option 'format'",
    ),
]

WRONG += [
    (f"CREATE INDEX wrong ON events ({condition})", UnsupportedFeature, "on a condition")
    for condition in ("ts > 3", "NOT name", "name IS NULL")
]


def test_what_cannot_be_indexed_is_named(events, lake):
    before = [each.name for each in events.indexes()]
    for statement, error, message in WRONG:
        with pytest.raises(error, match=message):
            lake.sql(statement)
    assert [each.name for each in events.indexes()] == before
