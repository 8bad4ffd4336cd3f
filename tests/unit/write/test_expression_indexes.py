"""Expression indexes without Spark: built, kept up by every write, asked, and dropped."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex import ReadOptions
from lakedex.engine import LocalEngine
from lakedex.errors import (
    CommitConflict,
    IndexUnusable,
    InvalidInput,
    LakedexError,
    UnsupportedFeature,
)
from lakedex.schema.column_changes import rename_column
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.rollback import restore_table, rollback_instant
from lakedex.table.own_properties import read_own_properties, write_own_properties
from lakedex.upkeep.cleaning import clean_table
from lakedex.write.verbs import TableWriter
from tests.support.index_lab import IndexLab
from tests.support.write_lab import Lab, Row, source

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ver", pa.int64()),
        ("name", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("secs", pa.int64()),
    ]
)
START = dt.datetime(2022, 10, 1, tzinfo=dt.UTC)
NAMES = ("ann", "Bob", "bob", "Zoë", None, "")
DAY = {"expr": "date_format", "format": "yyyy-MM-dd"}
ZONE = "lakedex.expression.time.zone"


def row(number: int, ver: int = 1, *, name: str | None = "x", hours: int | None = None) -> Row:
    at = START + dt.timedelta(hours=number if hours is None else hours)
    return {
        "id": f"k{number:05}",
        "p": f"p{number % 2}",
        "ver": ver,
        "name": name,
        "ts": at,
        "secs": int(at.timestamp()),
    }


class Days(IndexLab):
    """A table whose loads are a day each, in two partitions."""

    def __init__(self, root: Path, kind: str = "cow", days: int = 4, **options: str) -> None:
        super().__init__(root, kind, "GLOBAL_SIMPLE", schema=SCHEMA, **options)
        for day in range(days):
            self.load(range(24 * day, 24 * day + 24))

    def load(self, numbers: range) -> None:
        rows = [row(number, name=NAMES[number // 24 % len(NAMES)]) for number in numbers]
        self.writer.bulk_insert(source(rows, SCHEMA))

    def upsert(self, *rows: Row) -> None:
        self.writer.upsert(source(rows, SCHEMA))


def files_of(path: str) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in Path(path).rglob("*")
        if file.is_file() and "lock" not in file.name
    }


def test_the_hours_of_a_day_are_found_in_two_of_24_files(tmp_path):
    """Use case 1 of RFC-63: a day and an hour index in one query."""
    lab = Lab(tmp_path, "cow", schema=SCHEMA)
    hours = [row(100 * hour + n, hours=hour) for hour in range(72) for n in range(2)]
    # A file an hour, in folders that say nothing of the time.
    lab.writer.bulk_insert(source([each | {"p": each["id"][:-2]} for each in hours], SCHEMA))
    create_index(lab.writer, "idx_day", "date_format(ts, 'yyyy-MM-dd')")
    create_index(lab.writer, "idx_hour", "ts", options={"expr": "hour"})
    asked = (
        "date_format(ts, 'yyyy-MM-dd') between '2022-10-02' and '2022-10-03'"
        " and hour(ts) between 12 and 13"
    )
    told = lakedex.open(lab.path, options=ReadOptions(weighs_cost=False)).explain(asked)
    steps = {step.index: (step.before, step.after) for step in told.steps}
    assert steps["expr_index_idx_day"] == (72, 48)
    assert steps["expr_index_idx_hour"] == (48, 4)
    assert len(lab.rows(asked)) == 8


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_every_write_keeps_the_indexes_up(tmp_path, kind):
    table = Days(tmp_path, kind)
    table.index("up", "name", expr="upper")
    table.index("day", "secs", expr="from_unixtime", format="yyyy-MM-dd")
    day = "from_unixtime(secs, 'yyyy-MM-dd')"
    assert table.files("upper(name) = 'BOB'") == 4
    assert table.files(f"{day} = '2022-10-02'") == 2
    table.upsert(row(0, 2, name="straße", hours=24 * 9), row(200, name="new"))
    assert table.files("upper(name) = 'STRASSE'") == 1
    assert table.files(f"{day} = '2022-10-10'") == 1
    table.writer.delete(source([row(1)], SCHEMA))
    table.verified()
    assert table.files(f"{day} = '2022-10-09'") <= 2
    table.writer.insert_overwrite(source([row(3, 3, name="~over")], SCHEMA))
    assert table.files("upper(name) = '~OVER'") == 1
    assert table.files("upper(name) = 'NEW'") == 1
    table.writer.delete_partitions(["p=p1"])
    assert table.files("upper(name) = '~OVER'") == 0
    table.verified()


def test_a_plain_predicate_finds_what_it_always_found(tmp_path):
    # cases B61, B11: expression index and its bare column; casts and functions in predicates
    table = Days(tmp_path)
    table.index("up", "name", expr="upper")
    table.index("day", "ts", **DAY)
    assert len(table.rows("name = 'bob'")) == 24
    assert table.files("name = 'bob'") == 2
    assert table.files("ts = timestamp '2022-10-02 05:00:00'") == 2
    assert table.files("upper(name) = 'bob'") == 0


def test_order_is_that_of_the_texts_and_not_of_time(tmp_path):
    # case B6: formats that do not sort as time
    table = Days(tmp_path, days=1)
    table.writer.bulk_insert(source([row(500, hours=24 * 365)], SCHEMA))
    table.writer.bulk_insert(source([row(502, hours=24 * 180)], SCHEMA))
    table.writer.bulk_insert(source([row(504) | {"secs": 253_402_300_800}], SCHEMA))
    table.index("us", "ts", expr="date_format", format="MM/dd/yyyy")
    assert table.files("date_format(ts, 'MM/dd/yyyy') < '10/01/2022'") == 1
    assert table.files("date_format(ts, 'MM/dd/yyyy') > '10/21/2022'") == 1
    assert table.files("date_format(ts, 'MM/dd/yyyy') = '10/01/2023'") == 1
    table.index("far", "secs", expr="from_unixtime", format="yyyy-MM-dd")
    assert table.files("from_unixtime(secs, 'yyyy-MM-dd') = '+10000-01-01'") == 1
    assert table.files("from_unixtime(secs, 'yyyy-MM-dd') < '2022'") == 1


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_filters_take_nulls_and_empty_texts_and_updates(tmp_path, kind):
    # case B64: bloom filter over an expression
    table = Days(tmp_path, kind, days=6)
    table.index("low", "name", "bloom_filters", expr="lower")
    assert table.files("lower(name) = 'ann'") == 2
    assert table.files("lower(name) = 'nobody'") == 0
    assert table.files("lower(name) = ''") == 12
    assert table.files("lower(name) is null") <= 12
    table.upsert(row(0, 2, name="Carl"), row(2, 2, name=None), row(4, 2, name=""))
    assert table.files("lower(name) = 'carl'") == 1
    table.verified()


def test_a_write_of_nothing_and_new_columns_leave_no_pending_instant(tmp_path):
    # case B65: empty commit with an expression index
    table = Days(tmp_path, days=1)
    table.index("day", "ts", **DAY)
    assert table.writer.delete_where("id = 'nobody'").instant is None
    wider = SCHEMA.append(pa.field("more", pa.int32()))
    table.writer.upsert(source([row(0, 2) | {"more": 1}], wider))
    assert not table.writer.snapshot().timeline.pending()
    table.verified()


class _Fails(LocalEngine):
    def map(self, label, worker, tasks):  # type: ignore[no-untyped-def]
        raise InvalidInput("the disk is full")


def test_a_build_that_fails_leaves_nothing(tmp_path):
    # case B66: leftovers of a failed CREATE INDEX
    table = Days(tmp_path, days=1)
    before = files_of(table.path)
    broken = TableWriter(table.address, _Fails())
    with pytest.raises(InvalidInput, match="disk is full"):
        create_index(broken, "day", "ts", options=DAY)
    after = files_of(table.path)
    assert {name for name in after if "expr_index" in name} == set()
    index_json = ".hoodie/.index_defs/index.json"
    assert after[index_json] == before[index_json]
    assert table.files("date_format(ts, 'yyyy-MM-dd') = '2022-10-01'") == 2
    table.index("day", "ts", **DAY)
    table.verified()


def test_a_write_that_began_before_the_index_is_written_again(tmp_path):
    # case B66: leftovers of a failed CREATE INDEX
    table = Days(tmp_path, days=1)
    late = table.meanwhile(lambda: table.index("day", "ts", **DAY))
    with pytest.raises(CommitConflict, match=r"metadata\.partitions was changed"):
        late.upsert(source([row(0, 2, hours=200)], SCHEMA))

    def make_anew() -> None:
        drop_index(table.address, "day", table.writer.target().patience)
        table.index("day", "ts", expr="hour")

    late = table.meanwhile(make_anew)
    with pytest.raises(CommitConflict, match="made the index expr_index_day anew"):
        late.upsert(source([row(0, 2, hours=200)], SCHEMA))
    table.verified()
    assert table.files("hour(ts) = 25") == 0


def test_cleaning_takes_the_entries_of_removed_files_away(tmp_path):
    # case B67: expression index entries of cleaned files
    table = Days(tmp_path, days=1)
    table.index("day", "ts", **DAY)
    for version in range(2, 6):
        table.upsert(row(0, version))
    before = len(lakedex.open(table.path).metadata("expr_index_day"))
    removed = clean_table(table.address, {"hoodie.clean.commits.retained": "1"})
    left = len(lakedex.open(table.path).metadata("expr_index_day"))
    assert removed.files > 0
    assert left == before - removed.files
    table.verified()


def test_commits_that_are_taken_back_are_taken_back_in_the_index(tmp_path):
    table = Days(tmp_path, "mor", days=1)
    table.index("day", "ts", **DAY)
    table.upsert(row(0, 2, hours=100))
    first = table.writer.snapshot().timeline.last_completed
    table.upsert(row(2, 2, hours=200))
    second = table.writer.snapshot().timeline.last_completed
    rollback_instant(table.address, second.requested_time)
    assert table.files("date_format(ts, 'yyyy-MM-dd') = '2022-10-09'") == 0
    assert table.files("date_format(ts, 'yyyy-MM-dd') = '2022-10-05'") == 1
    table.upsert(row(4, 3, hours=200))
    restore_table(table.address, first.requested_time)
    assert table.files("date_format(ts, 'yyyy-MM-dd') = '2022-10-09'") == 0
    table.verified()


def test_indexes_are_built_anew_where_a_commit_cannot_be_taken_out_of_them(tmp_path):
    compacts = {"hoodie.metadata.compact.max.delta.commits": "2", ZONE: "Asia/Kolkata"}
    table = Days(tmp_path, days=1, **compacts)
    table.index("day", "ts", **DAY)
    table.index("up", "name", expr="upper")
    table.upsert(row(0, 2, hours=100))
    table.upsert(row(2, 2, hours=200))
    table.upsert(row(4, 2, hours=300))
    newest = table.writer.snapshot().timeline.last_completed
    rollback_instant(table.address, newest.requested_time)
    day = "date_format(ts, 'yyyy-MM-dd')"
    assert table.files(f"{day} = '2022-10-13'", "Asia/Kolkata") == 0
    assert table.files(f"{day} = '2022-10-09'", "Asia/Kolkata") == 1
    assert table.files("upper(name) > 'X'") == 0
    table.verified()


def test_a_zone_stays_with_the_index_whoever_writes(tmp_path):
    # case B7: time units and time zones
    table = Days(tmp_path, days=2, **{ZONE: "America/New_York"})
    table.index("day", "ts", **DAY)
    kept = read_own_properties(table.address.open())
    assert kept[f"{ZONE}.expr_index_day"] == "America/New_York"
    other = TableWriter(table.address, LocalEngine(1), {ZONE: "Asia/Tokyo"})
    other.upsert(source([row(0, 2, hours=24 * 9)], SCHEMA))
    asked = "date_format(ts, 'yyyy-MM-dd') = '2022-10-09'"
    assert table.files(asked, "America/New_York") == 1
    # In another zone the index says nothing, so that the ranges of ts itself are asked.
    told = lakedex.open(table.path, options=ReadOptions(time_zone="UTC", weighs_cost=False))
    step = next(s for s in told.explain(asked).steps if s.index == "expr_index_day")
    assert step.after == step.before
    assert "not that of the query" in step.reason
    table.files(asked, "UTC")
    drop_index(table.address, "day", table.writer.target().patience)
    assert f"{ZONE}.expr_index_day" not in read_own_properties(table.address.open())


def test_a_zone_that_nobody_told_is_asked_for(tmp_path):
    table = Days(tmp_path, days=1)
    table.index("day", "ts", **DAY)
    storage = table.address.open()
    kept = read_own_properties(storage)
    write_own_properties(storage, {name: kept[name] for name in kept if ZONE not in name})
    before = files_of(table.path)
    with pytest.raises(IndexUnusable, match=ZONE):
        table.upsert(row(0, 2))
    assert files_of(table.path) == before
    TableWriter(table.address, LocalEngine(1), {ZONE: "UTC"}).upsert(source([row(0, 2)], SCHEMA))
    table.verified()


def test_an_index_is_told_as_hudi_tells_it(tmp_path):
    table = Days(tmp_path, days=1)
    table.index("part", "substring(name, 1, 2)")
    text = Path(table.path, ".hoodie/.index_defs/index.json").read_text()
    assert json.loads(text)["indexDefinitions"]["expr_index_part"] == {
        "indexName": "expr_index_part",
        "indexType": "column_stats",
        "indexFunction": "substring",
        "sourceFields": ["name"],
        "indexOptions": {"expr": "substring", "pos": "1", "len": "2"},
        "version": "V2",
    }
    assert table.files("substring(name, 1, 2) = 'xx'") == 0
    refresh_index(table.writer, "part")
    table.verified()


def test_the_column_of_an_index_stays_as_it_is(tmp_path):
    table = Days(tmp_path, days=1)
    table.index("up", "name", expr="upper")
    before = files_of(table.path)
    with pytest.raises(InvalidInput, match="has the index expr_index_up"):
        table.writer.change_columns(lambda columns: rename_column(columns, ("name",), "title"))
    assert files_of(table.path) == before


@pytest.mark.parametrize(
    ("column", "using", "options", "error", "message"),
    [
        ("name", "", {"expr": "rand"}, UnsupportedFeature, "the function 'rand'"),
        ("name", "", {"expr": "max"}, UnsupportedFeature, "the function 'max'"),
        ("name", "lucene", {"expr": "upper"}, UnsupportedFeature, "of kind 'lucene'"),
        ("name", "", {"expr": "upper", "trimString": "x"}, UnsupportedFeature, "'trimString'"),
        ("name", "", {"expr": "from_unixtime"}, InvalidInput, "cannot be indexed by from_unixtime"),
        ("ts", "", {"expr": "date_format"}, InvalidInput, "needs the option 'format'"),
        ("ts", "", {"expr": "date_format", "format": "YYYY"}, InvalidInput, "'YYYY'"),
        (
            "ts",
            "bloom_filters",
            {"expr": "to_date"},
            UnsupportedFeature,
            "neither text nor a whole",
        ),
        ("nope", "", {"expr": "upper"}, InvalidInput, "no column 'nope'"),
        ("ts", "", DAY | {ZONE: "PST"}, InvalidInput, "the time zone 'PST' of the session"),
        ("name", "", {"expr": "substring", "pos": "a", "len": "1"}, InvalidInput, "no number"),
        ("substring(name, ver, 1)", "", {}, InvalidInput, "must be a constant"),
        ("uuid()", "", {}, UnsupportedFeature, "the function 'uuid'"),
        ("upper(name", "", {}, LakedexError, "expected"),
        ("name", "", {"expr": "upper", "hoodie.nonsense": "1"}, InvalidInput, "hoodie.nonsense"),
    ],
)
def test_what_cannot_be_indexed_is_named(tmp_path, column, using, options, error, message):
    table = Days(tmp_path, days=0)
    before = files_of(table.path)
    with pytest.raises(error, match=message):
        create_index(table.writer, "idx", column, using=using, options=options)
    assert files_of(table.path) == before


def test_files_from_before_the_column_are_always_read(tmp_path):
    narrow = SCHEMA.remove(SCHEMA.get_field_index("name"))
    lab = Lab(tmp_path, "cow", schema=narrow)
    old = {name: value for name, value in row(0).items() if name != "name"}
    lab.writer.bulk_insert(source([old], narrow))
    lab.writer.bulk_insert(source([row(2, name="bob")], SCHEMA))
    create_index(lab.writer, "up", "name", options={"expr": "upper"})
    create_index(lab.writer, "low", "name", using="bloom_filters", options={"expr": "lower"})
    create_index(lab.writer, "cut", "left(trim(name), 2)")
    told = lakedex.open(lab.path, options=ReadOptions(weighs_cost=False))
    assert told.verify().ok
    assert len(told.explain("upper(name) = 'ANN'").files) <= 1
    assert [each["id"] for each in lab.rows("upper(name) is null")] == ["k00000"]
    assert [each["id"] for each in lab.rows("upper(name) = 'BOB'")] == ["k00002"]


def test_a_value_that_nothing_is_known_of_keeps_its_file(tmp_path):
    table = Days(tmp_path, days=0)
    table.index("moment", "name", expr="to_timestamp")
    table.writer.bulk_insert(source([row(0, name="2024-01-01 10:00:00")], SCHEMA))
    # A time without a day is one of today, whenever that is.
    table.writer.bulk_insert(source([row(2, name="12:30")], SCHEMA))
    told = lakedex.open(table.path, options=ReadOptions(weighs_cost=False))
    asked = "to_timestamp(name) = timestamp '2025-01-01 00:00:00'"
    assert len(told.explain(asked).files) == 1
    table.verified()
