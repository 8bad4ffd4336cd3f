"""`hoodie.write.sort.columns`: new rows in the order of columns and expression indexes."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput
from lakedex.services.clustering.runner import cluster_table
from lakedex.services.clustering.scheduling import run_clustering, schedule_clustering
from lakedex.services.index_creating import create_index
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.write_lab import Lab, Row, source

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ver", pa.int64()),
        ("x", pa.float64()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
START = dt.datetime(2022, 10, 1, tzinfo=dt.UTC)
ORDER = "hoodie.write.sort.columns"
SMALL = {"hoodie.parquet.max.file.size": "8000"}


def rows(numbers: range, *, p: str = "p", days: int = 8) -> pa.Table:
    """Rows whose times are spread over some days, in no order."""
    rng = np.random.default_rng(len(numbers))
    hours = rng.permutation(np.arange(len(numbers)) % (24 * days))
    return pa.table(
        {
            "id": [f"k{number:05}" for number in numbers],
            "p": [p] * len(numbers),
            "ver": [1] * len(numbers),
            "x": [float(number) for number in numbers],
            "ts": [START + dt.timedelta(hours=int(hour)) for hour in hours],
        },
        schema=SCHEMA,
    )


class Events(Lab):
    """A table with an index of the hour of the day, whose files are small."""

    def __init__(self, root: Path, kind: str = "cow", index: str = "SIMPLE") -> None:
        super().__init__(root, kind, index, schema=SCHEMA)
        self.writer.insert(source([], SCHEMA))
        self.writer.bulk_insert(ArrowRowSource(rows(range(1), p="old")))
        create_index(self.writer, "idx_hour", "hour(ts)")
        create_index(self.writer, "idx_day", "date_format(ts, 'yyyy-MM-dd')")
        self.writer.delete_partitions(["p=old"])

    def ordered(self, by: str, **options: str) -> TableWriter:
        return self.writer.with_options({ORDER: by, **SMALL, **options})

    def hours(self) -> dict[str, set[int]]:
        """The hours of the day in each file."""
        found: dict[str, set[int]] = defaultdict(set)
        for row in lakedex.open(self.path).to_arrow().to_pylist():
            found[row["_hoodie_file_name"]].add(row["ts"].hour)
        return found


def is_narrow(files: dict[str, set[int]]) -> bool:
    """Whether no hour stands in more than two files."""
    return all(sum(hour in held for held in files.values()) <= 2 for hour in range(24))


@pytest.mark.parametrize("verb", ["insert", "upsert", "bulk_insert", "insert_overwrite"])
def test_new_rows_are_in_the_order_of_an_expression_index(tmp_path, verb):
    table = Events(tmp_path)
    given = rows(range(2400))
    getattr(table.ordered("idx_hour"), verb)(ArrowRowSource(given))
    files = table.hours()
    assert len(files) > 5
    assert is_narrow(files)
    assert table.rows() == sorted(given.to_pylist(), key=repr)
    report = lakedex.open(table.path).verify()
    assert report.ok, report


def test_an_expression_of_several_columns(tmp_path):
    table = Events(tmp_path)
    create_index(table.writer, "idx_both", "concat(p, date_format(ts, 'HH'))")
    table.ordered("idx_both").insert(ArrowRowSource(rows(range(2400))))
    assert is_narrow(table.hours())
    late = rows(range(3000, 3050), days=1)
    table.ordered("idx_both").insert(ArrowRowSource(late))
    assert is_narrow(table.hours())
    table.holds(pa.concat_tables([rows(range(2400)), late]).to_pylist())


def test_a_table_keeps_its_order_and_a_write_may_have_another(tmp_path):
    address = StorageAddress.of(str(tmp_path / "t"))
    spec = TableSpec("t", SCHEMA, "id", "ver", "p", properties={ORDER: "ts", **SMALL})
    create_table(address.open(), spec)
    writer = TableWriter(address, LocalEngine(2))
    writer.bulk_insert(ArrowRowSource(rows(range(1500), p="by_ts")))
    writer.with_options({ORDER: "x"}).insert(ArrowRowSource(rows(range(2000, 3500), p="by_x")))
    writer.with_options({ORDER: ""}).insert(ArrowRowSource(rows(range(4000, 5500), p="plain")))
    held: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in lakedex.open(address.url).to_arrow().to_pylist():
        held[row["p"]][row["_hoodie_file_name"]].append(row)

    def is_apart(partition: str, column: str) -> bool:
        files = [[row[column] for row in each] for each in held[partition].values()]
        assert len(files) > 3
        ends = sorted((min(each), max(each)) for each in files)
        return all(before[1] <= after[0] for before, after in pairwise(ends))

    assert is_apart("by_ts", "ts")
    assert is_apart("by_x", "x")
    assert not is_apart("plain", "ts")
    with pytest.raises(InvalidInput, match="no column 'idx_none' to lay rows out by"):
        writer.with_options({ORDER: "idx_none"}).insert(ArrowRowSource(rows(range(5))))


@pytest.mark.parametrize("is_planned", [False, True])
def test_a_clustering_goes_by_an_expression_index(tmp_path, is_planned):
    table = Events(tmp_path)
    table.writer.with_options(SMALL).bulk_insert(ArrowRowSource(rows(range(2400))))
    assert not is_narrow(table.hours())
    writer = table.ordered("idx_hour")
    if is_planned:
        instant = schedule_clustering(writer)
        said = Snapshot.open(table.address.open()).timeline.requested_replace(instant).clustering
        # Hudi can run it as well, and knows columns only.
        assert said.strategy_params == {"hoodie.clustering.plan.strategy.sort.columns": "ts"}
        run_clustering(table.writer, instant)
    else:
        cluster_table(writer)
    assert is_narrow(table.hours())
    cluster_table(table.writer.with_options(SMALL), ["idx_day", "idx_hour"], "hilbert")
    table.holds(rows(range(2400)).to_pylist())


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_small_files_take_the_rows_of_their_own_range(tmp_path, kind):
    table = Events(tmp_path, kind)
    writer = table.ordered("idx_day", **{"hoodie.parquet.max.file.size": "1000000"})
    day = [rows(range(100 * n, 100 * n + 24), days=1) for n in range(4)]
    shifted = [
        each.set_column(
            4,
            SCHEMA.field("ts"),
            pa.array([at + dt.timedelta(days=n) for at in each["ts"].to_pylist()], SCHEMA[4].type),
        )
        for n, each in enumerate(day)
    ]
    for each in shifted[:3]:
        writer.insert(ArrowRowSource(each))
    assert days_of(table) == [{1}, {2}, {3}]
    more = pa.concat_tables([renamed(shifted[1]), shifted[3], renamed(shifted[2])])
    result = writer.insert(ArrowRowSource(more))
    assert result.inserted == 72
    assert days_of(table) == [{1}, {2}, {3}, {4}]
    groups = {each.file_id for each in Snapshot.open(table.address.open()).slices}
    assert len(groups) == 4
    table.holds(pa.concat_tables([*shifted[:3], more]).to_pylist())


def test_full_files_take_no_more(tmp_path):
    table = Events(tmp_path)
    writer = table.ordered("idx_day")
    for start in (0, 1000):
        writer.insert(ArrowRowSource(rows(range(start, start + 600), days=1)))
    sizes = [each.size_bytes for each in Snapshot.open(table.address.open()).slices]
    assert len(sizes) > 2
    assert max(sizes) < 16_000


def test_nothing_is_filled_where_no_range_is_known(tmp_path):
    lab = Lab(tmp_path, schema=SCHEMA, **{"hoodie.metadata.enable": "false"})
    writer = lab.writer.with_options({ORDER: "x"})
    for start in (0, 10):
        writer.insert(ArrowRowSource(rows(range(start, start + 10))))
    assert len(Snapshot.open(lab.address.open()).slices) == 2
    lab.holds(pa.concat_tables([rows(range(10)), rows(range(10, 20))]).to_pylist())


def days_of(table: Events) -> list[set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for row in lakedex.open(table.path).to_arrow().to_pylist():
        found[row["_hoodie_file_name"].partition("_")[0]].add(row["ts"].day)
    return sorted(found.values(), key=min)


def renamed(rows: pa.Table) -> pa.Table:
    """The same rows under other keys."""
    return rows.set_column(
        0, SCHEMA.field("id"), pa.array([f"n{k}" for k in rows["id"].to_pylist()])
    )


@pytest.mark.parametrize("verb", ["insert", "upsert", "bulk_insert"])
def test_files_of_one_byte_hold_a_row_each(tmp_path, verb):
    tiny = {"hoodie.parquet.max.file.size": "1", "hoodie.parquet.small.file.limit": "0"}
    table = Lab(tmp_path, **tiny)
    first = [{"id": f"k{n}", "p": "a", "ver": 1, "x": 0.5} for n in range(6)]
    getattr(table.writer, verb)(source(first))
    assert len(lakedex.open(table.path).files()) == 6
    table.holds(first, "id = 'k3'")
    if verb != "insert":
        return
    more = [each | {"id": f"m{n:04}"} for n, each in enumerate(first * 100)]
    getattr(table.writer, verb)(source(more))
    assert 200 < len(lakedex.open(table.path).files()) <= 310
    table.holds([*first, *more], "id = 'm0007'")
