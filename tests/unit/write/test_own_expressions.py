"""Indexes on expressions that Hudi has no name for: nested ones, and those over several columns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex import ReadOptions
from lakedex.config import keys
from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.inline import writer_with_services
from lakedex.services.rollback import restore_table, rollback_instant
from lakedex.table.own_properties import read_own_properties
from lakedex.timeline import load_table_config, update_properties
from lakedex.upkeep.cleaning import clean_table
from tests.support.index_lab import IndexLab
from tests.support.write_lab import Row, source

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ver", pa.int64()),
        ("name", pa.string()),
        ("day", pa.string()),
        ("price", pa.float64()),
        ("qty", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
HOUR = 3_600_000_000
ZONE = "lakedex.expression.time.zone"
NAMES = (" ann-1", "Bob-2 ", " bob-3", None)


def row(number: int, ver: int = 1, **changes: object) -> Row:
    batch = number // 10
    return {
        "id": f"k{number:03}",
        "p": f"p{number % 2}",
        "ver": ver,
        "name": NAMES[batch % 4],
        "day": f"202{batch}-03-0{1 + number % 9}",
        "price": 1.5 * batch,
        "qty": batch + 1,
        "at": (24 * batch + number % 10) * HOUR,
        **changes,
    }


class Batches(IndexLab):
    """A table of four loads, a file for each in both partitions."""

    unasked = frozenset({"column_stats"})

    def __init__(self, root: Path, kind: str = "cow", loads: int = 4, **options: str) -> None:
        super().__init__(root, kind, "GLOBAL_SIMPLE", schema=SCHEMA, **options)
        for load in range(loads):
            self.writer.bulk_insert(
                source([row(n) for n in range(10 * load, 10 * load + 10)], SCHEMA)
            )

    def upsert(self, *rows: Row) -> None:
        self.writer.upsert(source(rows, SCHEMA))

    def reason(self, predicate: str, index: str) -> str:
        table = lakedex.open(self.path, options=ReadOptions(weighs_cost=False))
        steps = table.explain(predicate).steps
        return next(step.reason for step in steps if step.index == f"expr_index_own-{index}")

    def verified(self) -> None:
        report = lakedex.open(self.path).verify()
        assert report.ok, report

    @property
    def properties(self) -> dict[str, str]:
        return dict(load_table_config(self.address.open()).raw)


EXPRESSIONS = [
    ("upper(trim(name))", "upper(trim(name)) = 'BOB-2'", 2),
    ("upper(trim(name))", "ucase(trim(name)) like 'BOB%'", 4),
    ("upper(trim(name))", "upper(trim(name)) is null", 2),
    ("substring(lower(name), 1, 2)", "substr(lower(name), 1, 2) = 'bo'", 2),
    ("year(to_date(day))", "year(cast(day as date)) = 2022", 2),
    ("year(to_date(day))", "year(day) between 2022 and 2023", 4),
    ("date_format(date_add(at, 1), 'yyyy-MM')", "date_format(date_add(at, 1), 'yyyy-MM') > '2'", 0),
    ("concat(name, '-', p)", "name || '-' || p = 'Bob-2 -p1'", 1),
    ("concat(name, '-', p)", "concat(name, '-', p) = 'Bob-2 -p1'", 1),
    ("price * qty", "price * qty > 9.5", 2),
    ("price * qty", "price * cast(qty as double) = 3.0", 2),
    ("price * 2", "2.0D * price >= 9", 2),
    ("qty + 1", "qty + 1 in (2, 5)", 4),
    ("coalesce(name, 'none')", "nvl(name, 'none') = 'none'", 2),
    ("coalesce(qty, 0)", "coalesce(qty, 0) = 0", 0),
    ("abs(qty - 3)", "abs(qty - 3) = 0", 2),
    ("round(price)", "round(price, 0) = 5", 2),
    ("floor(price)", "floor(price) = 4", 2),
    ("regexp_extract(trim(name), '[0-9]$', 0)", "regexp_extract(trim(name), '[0-9]$', 0) = '3'", 2),
    ("split(trim(name), '-')[1]", "split(trim(name), '-')[1] = '2'", 2),
    ("cast(day as date)", "cast(day as date) < date '2021-01-01'", 2),
    # Spark's optimiser leaves the bare column of a comparison with such a cast.
    ("cast(at as date)", "at >= timestamp '1970-01-03' and at < timestamp '1970-01-04'", 2),
    ("left(day, 4)", "substring(day, 1, 4) = '2023'", 2),
    ("hour(at) + day(at)", "hour(at) + dayofmonth(at) = 13", 1),
]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """One table with all of these indexes, by their expressions."""
    table = Batches(tmp_path_factory.mktemp("own"), "mor")
    for number, text in enumerate(dict.fromkeys(text for text, _, _ in EXPRESSIONS)):
        table.index(f"i{number}", text)
    return table


@pytest.mark.parametrize(("expression", "predicate", "files"), EXPRESSIONS)
def test_an_expression_is_found_however_it_is_written(indexed, expression, predicate, files):
    assert indexed.files(predicate) == files, expression


def test_its_name_stands_for_it(indexed):
    number = list(dict.fromkeys(text for text, _, _ in EXPRESSIONS)).index("price * qty")
    assert indexed.files(f"i{number} > 9.5") == 2


def test_all_of_them_hold_what_their_files_hold(indexed):
    indexed.verified()


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_every_write_keeps_it_up(tmp_path, kind):
    table = Batches(tmp_path, kind)
    table.index("total", "price * qty")
    table.index("who", "concat(lower(trim(name)), '@', p)", "bloom_filters")
    assert table.files("concat(lower(trim(name)), '@', p) = 'bob-2@p1'") == 1
    table.upsert(row(0, 2, price=1000.0), row(99, name="New", price=None))
    assert table.files("price * qty >= 1000") == 1
    assert table.files("price * qty is null") == 1
    table.writer.delete(source([row(1)], SCHEMA))
    table.verified()
    table.writer.insert_overwrite(source([row(3, 3, price=7777.0)], SCHEMA))
    assert table.files("price * qty >= 7777") == 1
    table.writer.delete_partitions(["p=p1"])
    assert table.files("price * qty >= 7777") == 0
    table.upsert(row(0, 3, price=1.0))
    clean_table(table.address, {"hoodie.clean.commits.retained": "1"})
    table.verified()


def test_hudi_is_not_told_of_it(tmp_path):
    table = Batches(tmp_path, loads=1)
    table.index("up", "upper(name)")
    table.index("total", "price * qty")
    table.upsert(row(0, 2))
    told = table.properties
    assert "expr_index_up" in told[keys.METADATA_PARTITIONS].split(",")
    assert "expr_index_own-total" not in told[keys.METADATA_PARTITIONS].split(",")
    assert told[keys.OWN_METADATA_PARTITIONS] == "expr_index_own-total"
    folder = Path(table.path, ".hoodie/.index_defs")
    shared = json.loads((folder / "index.json").read_text())["indexDefinitions"]
    own = json.loads((folder / "lakedex.json").read_text())["indexDefinitions"]
    assert ("expr_index_up" in shared, "expr_index_own-total" in shared) == (True, False)
    assert own["expr_index_own-total"]["sourceFields"] == ["price", "qty"]
    assert own["expr_index_own-total"]["indexOptions"]["expr"] == "price * qty"
    shown = {each.name: each for each in lakedex.open(table.path).indexes()}
    assert shown["expr_index_own-total"].columns == ("price", "qty")
    assert shown["expr_index_own-total"].function == "price * qty"


def test_files_of_an_engine_that_does_not_know_it_are_read(tmp_path):
    table = Batches(tmp_path, "mor")
    table.index("total", "price * qty")
    own = table.properties[keys.OWN_METADATA_PARTITIONS]
    storage = table.address.open()
    # What another engine sees: neither the index nor its definition.
    names = table.properties[keys.METADATA_PARTITIONS]
    update_properties(storage, {keys.OWN_METADATA_PARTITIONS: None})
    definitions = Path(table.path, ".hoodie/.index_defs/lakedex.json").read_bytes()
    folder = Path(table.path, ".hoodie/metadata/expr_index_own-total")
    shutil.copytree(folder, tmp_path / "kept")
    table.upsert(row(0, 2, price=1000.0), row(98, price=2000.0, qty=1))
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(tmp_path / "kept", folder)
    Path(table.path, ".hoodie/.index_defs/lakedex.json").write_bytes(definitions)
    update_properties(storage, {keys.METADATA_PARTITIONS: f"{names},{own}"})
    assert table.properties[keys.METADATA_PARTITIONS] == names
    assert table.files("price * qty >= 1000") <= 3
    assert table.files("price * qty = 2000") <= 3
    table.verified()
    table.upsert(row(0, 3, price=3000.0))
    assert table.files("price * qty = 3000") <= 3


def test_an_index_that_went_with_the_metadata_table_is_no_longer_named(tmp_path):
    table = Batches(tmp_path, loads=2)
    table.index("total", "price * qty")
    shutil.rmtree(Path(table.path, ".hoodie/metadata/expr_index_own-total"))
    assert table.files("price * qty > 1") == 4
    table.upsert(row(0, 2, price=1000.0))
    assert table.properties[keys.OWN_METADATA_PARTITIONS] == ""
    table.verified()
    refresh_index(table.writer, "total")
    assert table.files("price * qty > 100") == 1
    table.verified()


def test_it_is_taken_back_built_anew_and_dropped(tmp_path):
    table = Batches(tmp_path, "mor", 2, **{"hoodie.metadata.compact.max.delta.commits": "2"})
    table.index("total", "price * qty")
    table.upsert(row(0, 2, price=1000.0))
    first = table.writer.snapshot().timeline.last_completed
    for version in (3, 4, 5):
        table.upsert(row(2, version, price=2000.0))
    rollback_instant(table.address, table.writer.snapshot().timeline.last_completed.requested_time)
    assert table.files("price * qty = 2000") == 1
    restore_table(table.address, first.requested_time)
    assert table.files("price * qty = 2000") == 0
    assert table.files("price * qty = 1000") == 1
    refresh_index(table.writer, "total")
    table.verified()
    drop_index(table.address, "total", table.writer.target().patience)
    assert table.properties[keys.OWN_METADATA_PARTITIONS] == ""
    assert not Path(table.path, ".hoodie/metadata/expr_index_own-total").exists()
    assert "expr_index_own-total" not in {each.name for each in lakedex.open(table.path).indexes()}
    assert table.files("price * qty = 1000") == 4


def test_values_that_depend_on_ansi_mode_leave_their_file_without_an_entry(tmp_path):
    table = Batches(tmp_path)
    table.index("sum", "qty + qty")
    table.index("share", "price / qty")
    table.upsert(row(0, 2, qty=2**31 - 1), row(11, 2, qty=0))
    # Without ANSI mode the sum wraps around, and the division by zero is null.
    assert table.files("qty + qty = -2") == 1
    assert table.files("qty + qty = 4") == 3
    assert table.files("price / qty is null") == 1
    table.verified()


def test_it_keeps_to_its_time_zone(tmp_path):
    # case B7: time units and time zones
    table = Batches(tmp_path, **{ZONE: "America/New_York"})
    table.index("d", "concat(day(at), '/', month(at))")
    kept = read_own_properties(table.address.open())
    assert kept[f"{ZONE}.expr_index_own-d"] == "America/New_York"
    asked = "concat(day(at), '/', month(at)) = '31/12'"
    assert table.files(asked, "America/New_York") == 4
    assert table.files(asked, "UTC") == 8
    drop_index(table.address, "d", table.writer.target().patience)
    assert f"{ZONE}.expr_index_own-d" not in read_own_properties(table.address.open())


def test_a_column_that_another_engine_retyped_is_told(tmp_path):
    table = Batches(tmp_path)
    table.index("total", "qty * 2")
    own = Path(table.path, ".hoodie/.index_defs/lakedex.json")
    own.write_text(own.read_text().replace("int32", "int16"))
    assert table.files("qty * 2 = 2") == 8
    assert "its column qty was SMALLINT and is INT" in table.reason("qty * 2 = 2", "total")
    own.write_text(own.read_text().replace('lakedex.evaluator": "1', 'lakedex.evaluator": "9'))
    assert "version '9'" in table.reason("qty * 2 = 2", "total")


WRONG: list[tuple[str, type[LakedexError], str]] = [
    ("upper(uuid())", UnsupportedFeature, "'uuid', which is not the same each time"),
    ("price * rand()", UnsupportedFeature, "'rand', which is not the same each time"),
    ("year(current_date)", UnsupportedFeature, "'current_date', which is not the same each time"),
    ("max(price) + 1", LakedexError, "an aggregate cannot be used"),
    ("soundex(trim(name))", UnsupportedFeature, "the function 'soundex'"),
    ("split(name, '-')", UnsupportedFeature, r"split\(s, '-'\)\[0\]"),
    ("abs(price) > 1", UnsupportedFeature, "on a condition"),
    ("upper(trim('x'))", UnsupportedFeature, "no function"),
    ("price * nope", InvalidInput, "no column 'nope'"),
    ("upper(trim(_hoodie_file_name))", InvalidInput, "meta column"),
    ("name * 2", InvalidInput, "takes numbers"),
    ("lower(trim(qty))", InvalidInput, "takes a text"),
    ("coalesce(name, qty)", InvalidInput, "several types"),
    ("upper(cast(price as string))", UnsupportedFeature, "a cast of DOUBLE to STRING"),
    ("upper(regexp_extract(name, '(?i)b', 0))", InvalidInput, r"begins with '\(\?'"),
    ("upper(regexp_replace(name, 'b*', 'x'))", InvalidInput, "matches the empty string"),
    ("round(qty + 1, -1)", InvalidInput, "to -1 digits"),
    ("upper(trim(name)", LakedexError, "expected"),
]


@pytest.mark.parametrize(("expression", "error", "message"), WRONG)
def test_what_cannot_be_indexed_is_named(indexed, expression, error, message):
    before = sorted(each.name for each in Path(indexed.path, ".hoodie").rglob("*"))
    with pytest.raises(error, match=message):
        indexed.index(f"wrong{WRONG.index((expression, error, message))}", expression)
    assert sorted(each.name for each in Path(indexed.path, ".hoodie").rglob("*")) == before


def test_options_may_hold_the_expression_or_a_function_of_the_columns(tmp_path):
    table = Batches(tmp_path, loads=2)
    create_index(table.writer, "a", ["name", "p"], using="column_stats", options={"expr": "concat"})
    create_index(table.writer, "b", "price", options={"expr": "price * 3"})
    assert table.files("concat(name, p) = 'Bob-2 p1'") == 1
    assert table.files("price * 3 > 4") == 2
    with pytest.raises(InvalidInput, match="names qty, and its expression is of price"):
        create_index(table.writer, "c", "qty", options={"expr": "price * 3"})
    with pytest.raises(UnsupportedFeature, match="the option 'format'"):
        create_index(table.writer, "c", "price", options={"expr": "abs", "format": "x"})
    with pytest.raises(UnsupportedFeature, match="bloom filters on price \\* 3, which is DOUBLE"):
        create_index(table.writer, "c", "price * 3", using="bloom_filters")


HUDI_HAS = [
    ({"expr": "trim", "trimString": "- "}, "btrim(name, '- ') = 'Bob-2'"),
    ({"expr": "ltrim", "trimString": " "}, "ltrim(' ', name) = 'Bob-2 '"),
    (
        {"expr": "regexp_extract", "pattern": "([a-z]+)-([0-9])", "idx": "2"},
        "regexp_extract(name, '([a-z]+)-([0-9])', 2) = '3'",
    ),
    (
        {"expr": "regexp_replace", "pattern": "[^a-z]", "replacement": ""},
        "regexp_replace(name, '[^a-z]', '') = 'ob'",
    ),
]


def test_functions_of_hudi_with_texts_as_options(tmp_path):
    table = Batches(tmp_path)
    for number, (options, predicate) in enumerate(HUDI_HAS):
        create_index(table.writer, f"i{number}", "name", options=options)
        assert f"expr_index_i{number}" in table.properties[keys.METADATA_PARTITIONS]
        assert table.files(predicate) == 2
    table.verified()


OPTIONS = {
    "hoodie.metadata.index.expression.column": "name",
    "hoodie.metadata.index.expression.options": "expr='substring',pos=1, len=2",
    "hoodie.index.name": "start",
    "hoodie.expression.index.type": "COLUMN_STATS",
}


def test_write_options_make_an_index_as_hudi_spells_it(tmp_path):
    table = Batches(tmp_path, loads=2)
    writer = writer_with_services(table.address, options=OPTIONS)
    writer.upsert(source([row(0, 2, name="New")], SCHEMA))
    writer_with_services(table.address, options=OPTIONS).upsert(source([row(1, 2)], SCHEMA))
    assert table.files("substring(name, 1, 2) = 'Ne'") == 1
    table.verified()
    for name, value, message in (
        ("options", "expr='nope'", "the function 'nope'"),
        ("options", "expr 'upper'", "no list of options"),
        ("options", "expr='upper',", "no list of options"),
        ("options", "format='x'", "has no expr"),
        ("column", "nope", "no column 'nope'"),
    ):
        wrong = OPTIONS | {
            "hoodie.index.name": "i",
            f"hoodie.metadata.index.expression.{name}": value,
        }
        with pytest.raises(LakedexError, match=message):
            writer_with_services(table.address, options=wrong)
    table.verified()
