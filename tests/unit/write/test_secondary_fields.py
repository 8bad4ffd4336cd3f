"""Secondary indexes on fields of struct columns, which Hudi makes too."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from lakedex.config import TableType
from lakedex.errors import InvalidInput
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_estimating import estimate_index
from lakedex.write.row_source import ArrowRowSource
from tests.support.secondary import SCHEMA, Trips

HOME = pa.struct(
    [("Town", pa.string()), ("zip", pa.int32()), ("moved", pa.struct([("day", pa.date32())]))]
)
BEFORE = dt.date(1969, 1, 1)


@pytest.fixture(params=["cow", "mor"])
def trips(request, tmp_path):
    made = _without_indexes(tmp_path / "t", request.param)
    made.index("home.town", "town")
    made.index("HOME.moved.Day", "day")
    create_index(made.writer, "both", ["home.zip", "rider"])
    return made


def _without_indexes(path: Path, kind: str) -> Trips:
    """A file for each city; a home, none, and one that has no town."""
    made = Trips(path, kind, schema=SCHEMA.append(pa.field("home", HOME)))
    made.writer.upsert(
        made.rows(
            ("k1", 1, "ann", "oslo", {"Town": "x", "zip": 1, "moved": None}),
            ("k2", 1, "ann", "rio", None),
            ("k3", 1, "bob", "lima", {"Town": None, "zip": 3, "moved": {"day": BEFORE}}),
        )
    )
    return made


def _entries(trips: Trips, name: str) -> list[str]:
    return sorted(trips.table().metadata(f"secondary_index_{name}")["key"].to_pylist())


def test_entries_are_of_the_field_and_predicates_on_it_read_few_files(trips):
    assert _entries(trips, "town") == ["\0$k2", "\0$k3", "x$k1"]
    assert _entries(trips, "day") == ["\0$k1", "\0$k2", "-365$k3"]
    assert _entries(trips, "composite-both") == ["\0$ann$k2", "1$ann$k1", "3$bob$k3"]
    names = {each.name: each.columns for each in trips.table().indexes()}
    assert names["secondary_index_day"] == ("home.moved.day",)
    trips.assert_whole()
    told = estimate_index(trips.table().snapshot, "home.TOWN")
    assert (told.column, told.rows, told.values) == ("home.Town", 3, 2)
    for path in ("home", "home.nope", "home.zip.x", "rider.x", "nope.x", "home."):
        with pytest.raises(InvalidInput, match=r"to index|cannot have a secondary index"):
            trips.index(path, "wrong")
    for predicate, keys in {
        "home.town = 'x'": ["k1"],
        "home.Town is null": ["k2", "k3"],
        "home.town like 'x%'": ["k1"],
        "home.moved.day < date'1970-01-01'": ["k3"],
        "home.zip = 3 and rider = 'bob'": ["k3"],
        "home.zip in (1, 7)": ["k1"],
    }.items():
        assert trips.found(predicate) == keys
        assert len(trips.table().explain(predicate).files) == len(keys), predicate
    assert trips.found("home is null") == ["k2"]


def test_writes_keep_the_entries_of_fields(trips):
    trips.writer.upsert(
        trips.rows(
            ("k1", 2, "ann", "oslo", {"Town": "y", "zip": 1, "moved": None}),
            ("k2", 0, "ann", "rio", {"Town": "late", "zip": 9, "moved": None}),
            ("k4", 1, "bob", "oslo", {"Town": "x", "zip": None, "moved": None}),
        )
    )
    assert _entries(trips, "town") == ["\0$k2", "\0$k3", "x$k4", "y$k1"]
    trips.writer.delete(trips.rows(("k3", 5, "bob", "lima", None)))
    if trips.table().snapshot.config.table_type is TableType.MERGE_ON_READ:
        compact_table(trips.writer)
    cluster_table(trips.writer, "rider")
    trips.assert_whole()
    trips.writer.delete_partitions(["city=rio"])
    assert _entries(trips, "town") == ["x$k4", "y$k1"]
    refresh_index(trips.writer, "day")
    trips.assert_whole()
    assert trips.found("home.town = 'y'") == ["k1"]


def test_a_struct_may_grow_beside_an_indexed_field_which_stays(trips):
    wider = pa.struct([*HOME, pa.field("floor", pa.int32())])
    home = {"Town": "z", "zip": 5, "moved": None, "floor": 3}
    row = ("k5", 1, "eve", "rio", home)

    def written_as(dtype: pa.DataType) -> None:
        schema = SCHEMA.append(pa.field("home", dtype))
        arrays = [pa.array([value], f.type) for value, f in zip(row, schema, strict=True)]
        trips.writer.upsert(ArrowRowSource(pa.table(arrays, schema=schema)))

    written_as(wider)
    trips.assert_whole()
    assert trips.found("home.town = 'z'") == ["k5"]
    assert trips.found("home.floor = 3") == ["k5"]
    with pytest.raises(InvalidInput, match=r"'home.zip' of type int32 would become int64"):
        written_as(pa.struct([HOME[0], pa.field("zip", pa.int64()), *[*wider][2:]]))


def test_what_an_index_on_a_field_would_bring(tmp_path):
    trips = _without_indexes(tmp_path / "t", "mor")
    for predicate, assumed, left in [
        ("home.town = 'x'", "home.Town", 1),
        ("home.town is null", "home.Town", 2),
        ("home.zip = 3 and rider = 'bob'", "home.zip, rider", 1),
        ("home.zip = 3 and rider = 'ann'", "home.zip, rider", 0),
    ]:
        assert trips.table().explain(predicate, assuming=[assumed]).expected == left, predicate
    for wrong in ("home.nope", "home.moved", "home"):
        with pytest.raises(InvalidInput, match=wrong):
            trips.table().explain("rider = 'ann'", assuming=[wrong])
