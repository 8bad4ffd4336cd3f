"""Bitmap indexes (RFC-63): from values to files, kept by every write, asked, verified, dropped."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex import ReadOptions
from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index.definitions import ROOT, file_index_definitions, folder_of
from lakedex.index.file_index.run import FILE, FILES, encode_run, read_head
from lakedex.index.kinds.bitmap import BitmapKind
from lakedex.schema.column_changes import rename_column
from lakedex.services.clustering.runner import cluster_table
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.repairing.runner import repair_table
from lakedex.services.restoring import restore_table
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.upkeep.cleaning import clean_table
from lakedex.write.verbs import TableWriter
from tests.support.write_lab import Lab, Row, source

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ver", pa.int64()),
        ("city", pa.string()),
        ("x", pa.float64()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
CITIES = ("oslo", "Rome", "rome", None, "", "Zürich")
BITMAP = "bitmap"


def row(number: int, ver: int = 1, **values: object) -> Row:
    return {
        "id": f"k{number:04}",
        "p": f"p{number % 2}",
        "ver": ver,
        "city": CITIES[number % len(CITIES)],
        "x": float(number),
        "ts": dt.datetime(2022, 10, 1, tzinfo=dt.UTC) + dt.timedelta(hours=number),
        **values,
    }


class Cities(Lab):
    """A table of several files, each with every city but with few numbers."""

    def __init__(self, root: Path, kind: str = "cow", **options: str) -> None:
        super().__init__(root, kind, "GLOBAL_SIMPLE", schema=SCHEMA, **options)
        for first in range(0, 24, 6):
            self.insert(*(row(number) for number in range(first, first + 6)))

    def insert(self, *rows: Row) -> None:
        self.writer.bulk_insert(source(rows, SCHEMA))

    def upsert(self, *rows: Row) -> None:
        self.writer.upsert(source(rows, SCHEMA))

    def index(self, name: str, column: str, **options: str) -> None:
        create_index(self.writer, name, column, using=BITMAP, options=options)

    def step(self, predicate: str, index: str, zone: str = "UTC"):
        """The step of one index, after the rows were held against a full scan."""
        told = ReadOptions(time_zone=zone, weighs_cost=False, without_indexes={"column_stats"})
        plain = ReadOptions(time_zone=zone, without_indexes={"all"})
        table = lakedex.open(self.path, options=told)
        found = table.to_arrow(predicate, ["id"])["id"].to_pylist()
        scanned = lakedex.open(self.path, options=plain).to_arrow(predicate, ["id"])
        assert sorted(found) == sorted(scanned["id"].to_pylist()), predicate
        steps = table.explain(predicate).steps
        return next(step for step in steps if step.index == f"bitmap_index_{index}")

    def left(self, predicate: str, index: str = "c") -> int:
        return self.step(predicate, index).after

    def verified(self) -> None:
        report = lakedex.open(self.path).verify()
        assert report.ok, report

    def runs(self) -> list[Path]:
        return sorted(Path(self.path, ROOT).rglob("*.parquet"))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_values_lead_to_the_files_that_hold_them(tmp_path, kind):
    table = Cities(tmp_path, kind)
    table.insert(row(101, city="lima"), row(103, city="lima"), row(105, city="quito"))
    table.index("c", "city")
    table.index("n", "x")
    assert table.left("city = 'lima'") == 1
    # Ranges of values that lie between others: no range of a file says that it is empty there.
    assert table.left("city > 'lima' and city < 'm'") == 0
    assert table.left("city in ('lima', 'nowhere')") == 1
    assert table.left("city like 'qui%'") == 1
    assert table.left("city <> 'lima' and p = 'p1'") == 5
    assert table.left("city is null") == 4
    # Of Zürich it is not certain what another engine's upper gives.
    assert table.left("upper(city) = 'QUITO' and p = 'p0'") == 0
    assert table.left("upper(city) = 'QUITO'") == 5
    assert table.left("x > 7.5 and x < 9", "n") == 1
    assert table.left("x = 7.25", "n") == 0
    assert table.left("city = 'lima' or ver = 2") == 9
    table.verified()


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_every_write_keeps_it(tmp_path, kind):
    table = Cities(tmp_path, kind)
    table.index("c", "city")
    table.index("up", "upper(city)")
    table.upsert(row(0, 2, city="bern"), row(200, city="bern"), row(2, 2, city=None))
    assert table.left("city = 'bern'") == 1
    assert table.left("upper(city) = 'BERN'", "up") == table.left("city = 'bern'")
    table.writer.delete(source([row(1)], SCHEMA))
    table.writer.delete_where("city = 'rome'")
    table.verified()
    table.writer.insert_overwrite(source([row(3, 3, city="over")], SCHEMA))
    assert table.left("city = 'over'") == 1
    table.writer.delete_partitions(["p=p1"])
    assert table.left("city = 'over'") == 0
    table.verified()
    assert "in it" not in str(lakedex.open(table.path).verify())


def test_nothing_that_is_taken_back_stays(tmp_path):
    table = Cities(tmp_path, "mor")
    table.index("c", "city")
    table.upsert(row(0, 2, city="bern"))
    first = table.writer.snapshot().timeline.last_completed
    table.upsert(row(2, 2, city="kyiv"))
    second = table.writer.snapshot().timeline.last_completed
    rollback_instant(table.address, second.requested_time)
    assert table.left("city = 'kyiv'") == 0
    assert table.left("city = 'bern'") == 1
    table.upsert(row(4, 3, city="kyiv"))
    restore_table(table.address, first.requested_time)
    assert table.left("city = 'kyiv'") == 0
    table.verified()


def test_clustering_cleaning_and_time_travel(tmp_path):
    table = Cities(tmp_path)
    table.index("n", "x")
    first = table.writer.snapshot().timeline.last_completed.requested_time
    table.upsert(row(0, 2, x=77.5))
    cluster_table(table.writer, by=["x"], strategy="linear")
    assert table.left("x = 77.5", "n") == 1
    # A snapshot of before: the same facts hold for the files of then.
    told = ReadOptions(weighs_cost=False, without_indexes={"column_stats"})
    opened = lakedex.open(table.path, options=told)
    assert opened.to_arrow("x = 77.5", as_of=first).num_rows == 0
    assert opened.to_arrow("x = 0.0", as_of=first).num_rows == 1
    step = next(s for s in opened.explain("x = 0.0", as_of=first).steps if s.kind == BITMAP)
    assert (step.before, step.after) == (8, 1)
    clean_table(table.address, {"hoodie.clean.commits.retained": "1"})
    table.upsert(row(2, 2, x=78.5))
    assert table.left("x = 78.5", "n") == 1
    table.verified()


def test_many_runs_become_one(tmp_path, monkeypatch):
    monkeypatch.setattr("lakedex.write.file_indexes._MOST_RUNS", 3)
    table = Cities(tmp_path)
    table.index("c", "city")
    for number in range(9):
        table.upsert(row(0, 2 + number, city=f"c{number}"))
        if number == 4:
            clean_table(table.address, {"hoodie.clean.commits.retained": "1"})
    # Beside the runs since the last merge there are those that it replaced, and its own.
    assert len(table.runs()) <= 8
    assert table.left("city = 'c8'") == 1
    assert table.left("city = 'c7'") == 0
    table.verified()
    storage = table.address.open()
    paths = [str(run.relative_to(table.path)) for run in table.runs()]
    heads = [read_head(storage, path, storage.size(path)) for path in paths]
    merged = max(heads, key=lambda head: len(head.replaces))
    assert merged.replaces
    # Files that the clean took away are forgotten.
    listed = {name for files in table.writer.snapshot().listing.files.values() for name, _ in files}
    assert set(merged.files["name"].to_pylist()) <= listed


def test_a_file_that_no_run_speaks_of_is_read(tmp_path):
    table = Cities(tmp_path)
    late = table.meanwhile(lambda: table.index("c", "city"))
    late.upsert(source([row(0, 2, city="bern")], SCHEMA))
    assert table.left("city = 'nowhere'") == 1
    assert len(table.rows("city = 'bern'")) == 1
    assert "1 of 8 files are not in it" in str(lakedex.open(table.path).verify().notes)
    refresh_index(table.writer, "c")
    assert table.left("city = 'nowhere'") == 0
    table.verified()


def test_a_broken_run_removes_nothing_and_is_built_anew(tmp_path):
    table = Cities(tmp_path)
    table.index("c", "city")
    for run in table.runs():
        run.write_bytes(run.read_bytes()[:-30])
    step = table.step("city = 'nowhere'", "c")
    assert step.after == step.before
    assert "could not be read" in step.reason
    assert not lakedex.open(table.path).verify().ok
    refresh_index(table.writer, "c")
    assert table.left("city = 'nowhere'") == 0
    table.verified()


def test_a_wrong_entry_is_found(tmp_path):
    table = Cities(tmp_path)
    table.index("c", "city")
    table.index("o", "p")
    known = file_index_definitions(table.writer.snapshot().config)
    ours, others = (Path(table.path, folder_of(known[f"bitmap_index_{n}"])) for n in ("c", "o"))
    for old in ours.iterdir():
        old.unlink()
    for run in others.iterdir():
        (ours / run.name).write_bytes(run.read_bytes())
    problems = lakedex.open(table.path).verify().problems
    assert {each.kind.value for each in problems} == {"missing", "stale"}
    assert repair_table(table.writer).after.ok
    assert table.left("city = 'nowhere'") == 0


class _Fails(LocalEngine):
    def map(self, label, worker, tasks):  # type: ignore[no-untyped-def]
        raise InvalidInput("the disk is full")


def test_a_build_that_fails_leaves_nothing_and_a_dropped_index_too(tmp_path):
    table = Cities(tmp_path)
    properties = Path(table.path, ".hoodie/hoodie.properties").read_bytes()
    broken = TableWriter(table.address, _Fails())
    with pytest.raises(InvalidInput, match="disk is full"):
        create_index(broken, "c", "city", using=BITMAP)
    assert Path(table.path, ".hoodie/hoodie.properties").read_bytes() == properties
    assert not table.runs()
    table.index("c", "city")
    for wrong, error in (
        (("c", "city", BITMAP), InvalidInput),
        (("c", "city", "secondary_index"), InvalidInput),
        (("d", "nothing", BITMAP), InvalidInput),
        (("bitmap_index_d", "city", BITMAP), InvalidInput),
        (("d", "city", "lucene"), UnsupportedFeature),
    ):
        with pytest.raises(error):
            create_index(table.writer, wrong[0], wrong[1], using=wrong[2])
    assert create_index(table.writer, "c", "city", using=BITMAP, if_missing=True) is None
    (info,) = [each for each in lakedex.open(table.path).indexes() if each.kind == BITMAP]
    assert (info.name, info.columns, info.state) == ("bitmap_index_c", ("city",), "live")
    with pytest.raises(LakedexError, match="index"):
        table.writer.change_columns(lambda columns: rename_column(columns, ("city",), "town"))
    drop_index(table.address, "c", table.writer.target().patience)
    assert not table.runs()
    assert "bitmap" not in Path(table.path, ".hoodie/hoodie.properties").read_text()
    table.index("c", "x")
    table.verified()


def test_it_can_be_filled_while_writers_go_on(tmp_path):
    table = Cities(tmp_path)
    build = create_index(table.writer, "c", "city", using=BITMAP, wait=False)
    table.upsert(row(0, 2, city="bern"))
    assert build.wait()
    refresh_index(table.writer, "c")
    assert table.left("city = 'bern'") == 1
    assert table.left("city = 'nowhere'") == 0
    table.verified()


def test_a_function_of_time_keeps_its_zone(tmp_path):
    table = Cities(tmp_path)
    create_index(
        table.writer.with_options({"lakedex.expression.time.zone": "Asia/Tokyo"}),
        "h",
        "hour(ts)",
        using=BITMAP,
    )
    table.upsert(row(300))
    assert table.step("hour(ts) = 9", "h", "Asia/Tokyo").after == 1
    told = table.step("hour(ts) = 9", "h", "UTC")
    assert told.after == told.before
    assert "Asia/Tokyo" in told.reason
    table.verified()


def test_expressions_of_several_columns_and_of_others(tmp_path):
    table = Cities(tmp_path, "mor")
    table.index("n", "concat(upper(trim(city)), p)")
    table.upsert(row(0, 2, city=" bern "))
    assert table.left("concat(upper(trim(city)), p) = 'BERNp0'", "n") == 1
    assert table.left("concat(upper(trim(city)), p) is null", "n") == 4
    table.verified()


def test_numbers_that_are_none_are_found(tmp_path):
    # case B1: NaN, infinity and negative zero
    table = Cities(tmp_path)
    nan, inf = float("nan"), float("inf")
    table.insert(row(401, x=nan), row(400, x=-0.0), row(402, x=inf), row(404, x=None))
    table.index("n", "x")
    assert table.left("x = double('nan')", "n") == 1
    assert table.left("x = 0.0", "n") == 2
    assert table.left("x > 1000.0", "n") == 2
    assert table.left("x is null", "n") == 1
    assert table.left("not (x < 1000.0)", "n") == 2


def test_a_write_that_fails_leaves_what_is_right(tmp_path):
    table = Cities(tmp_path, "mor")
    table.index("c", "city")

    def fail() -> None:
        raise InvalidInput("the disk is full")

    with pytest.raises(InvalidInput, match="disk is full"):
        table.meanwhile(fail).upsert(source([row(0, 2, city="bern")], SCHEMA))
    assert table.left("city = 'bern'") == 0
    table.upsert(row(0, 2, city="kyiv"))
    assert table.left("city = 'kyiv'") == 1
    table.verified()


def test_bytes_of_a_run_are_not_believed(tmp_path):
    values = pa.array(["a", "b", None, "b"])
    files = pa.table([["p", "p"], ["x.parquet", "y.parquet"], [1, 2]], schema=FILES)
    numbers = pa.array([0, 0, 1, 1], pa.int32())
    kind = BitmapKind()
    definition = IndexDefinition("bitmap_index_c", "bitmap", "identity", ("city",), {})
    entries = kind.encode(definition, pa.table({FILE: numbers, "value": values}), 2)
    data = encode_run(entries, files, kind=kind.kind, version=kind.version)
    storage = StorageAddress.of(str(tmp_path)).open()
    storage.create("whole", data)
    head = read_head(storage, "whole", len(data))
    assert kind.read_entries(storage, head)["value"].to_pylist() == ["a", "b", "b", None]
    chances = random.Random(4711)
    refused = 0
    for number in range(300):
        broken = bytearray(data)
        for _ in range(chances.randint(1, 4)):
            broken[chances.randrange(len(broken))] = chances.randrange(256)
        if number % 3 == 0:
            del broken[chances.randrange(len(broken)) :]
        storage.create(f"{number}", bytes(broken))
        try:
            kind.read_entries(storage, read_head(storage, f"{number}", len(broken)))
        except LakedexError:
            refused += 1
    assert refused > 150
