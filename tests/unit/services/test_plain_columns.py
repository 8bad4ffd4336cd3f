"""`USING column_stats(col)` and `USING bloom_filters(col)` on a column as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex import ReadOptions
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict, InvalidInput, UnsupportedFeature
from lakedex.schema.column_changes import rename_column
from lakedex.services.index_creating import create_index
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.verbs import TableWriter
from tests.support.killing import changes_of, finish_killed
from tests.support.write_lab import Lab, Row, source

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ver", pa.int64()),
        ("x", pa.int64()),
        ("name", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)
LIST = "hoodie.metadata.index.column.stats.column.list"


def row(number: int, ver: int = 1, *, p: str = "a") -> Row:
    name = f"n{number}"
    return {"id": f"k{number}", "p": p, "ver": ver, "x": number, "name": name, "tags": []}


class Narrow(Lab):
    """A table with statistics of `ver` alone: a file of each load, and an update."""

    def __init__(self, root: Path, kind: str = "cow") -> None:
        self.path = str(root / "t")
        self.address = StorageAddress.of(self.path)
        settings = {"hoodie.index.type": "SIMPLE", LIST: "ver"}
        create_table(self.address.open(), TableSpec("t", SCHEMA, "id", "ver", "p", kind, settings))
        self.writer = TableWriter(self.address, LocalEngine(2))
        for number in (1, 100, 200):
            self.load(row(number))
        self.load(row(300, p="b"))

    def load(self, *rows: Row) -> None:
        self.writer.bulk_insert(source(rows, SCHEMA))

    def add(self, *columns: str, **how: object) -> object:
        return create_index(self.writer, "idx", columns, using="column_stats", **how)

    def files(self, predicate: str) -> int:
        """How many files are read, after the rows were held against a full scan."""
        told = lakedex.open(self.path, options=ReadOptions(weighs_cost=False))
        found = told.to_arrow(predicate, ["id"])["id"].to_pylist()
        plain = lakedex.open(self.path, options=ReadOptions(without_indexes={"all"}))
        assert sorted(found) == sorted(plain.to_arrow(predicate, ["id"])["id"].to_pylist())
        return len(told.explain(predicate).files)

    def ranges(self, column: str) -> dict[str, tuple[int, int]]:
        """The ranges of partitions, of a column of whole numbers."""
        found = {}
        for each in lakedex.open(self.path).metadata("partition_stats").to_pylist():
            stats = each["ColumnStatsMetadata"]
            if stats["columnName"] == column:
                ends = (stats[end]["member2"]["value"] for end in ("minValue", "maxValue"))
                found[stats["fileName"]] = tuple(ends)
        return found

    def covered(self) -> set[str]:
        (known,) = (each for each in lakedex.open(self.path).indexes() if "column" in each.name)
        return {name for name in known.columns if not name.startswith("_hoodie_")}

    def verified(self) -> None:
        report = lakedex.open(self.path).verify()
        assert report.ok, report


def content(path: str) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in Path(path).rglob("*")
        if file.is_file() and "lock" not in file.name
    }


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_column_stats_cover_one_column_more_in_all_files(tmp_path, kind):
    table = Narrow(tmp_path, kind)
    table.writer.upsert(source([row(100, 2) | {"x": 150}], SCHEMA))
    assert table.files("x = 150") == 4
    table.add("X")
    assert table.covered() == {"ver", "x"}
    assert table.files("x = 150") == 1
    assert table.files("x > 250") == 1
    assert table.files("x = 17") == 0
    table.verified()
    table.load(row(400))
    table.writer.upsert(source([row(1, 3) | {"x": 1000}], SCHEMA))
    assert table.files("x = 1000") == 1
    assert table.files("x = 2000") == 0
    table.add("name", "x")
    assert table.covered() == {"ver", "x", "name"}
    assert table.files("name = 'n400'") == 1
    table.verified()


def test_ranges_of_partitions_take_in_the_files_that_were_there(tmp_path):
    table = Narrow(tmp_path)
    table.add("x")
    table.load(row(5, p="b"))
    assert table.ranges("x") == {"p=a": (1, 200), "p=b": (5, 300)}


def test_files_with_an_older_name_of_the_column_are_read(tmp_path):
    table = Narrow(tmp_path)
    table.writer.change_columns(lambda columns: rename_column(columns, "x", "size"))
    columns = pa.schema([f.with_name("size") if f.name == "x" else f for f in SCHEMA])
    new = [{**row(n), "size": n} for n in (500, 501)]
    table.writer.bulk_insert(source(new, columns))
    table.add("size")
    assert table.files("size = 1") == 4
    assert table.files("size = 500") == 5
    assert table.ranges("size")["p=a"] == (-(2**63), 2**63 - 1)


def test_a_column_that_is_covered(tmp_path):
    table = Narrow(tmp_path)
    before = content(table.path)
    with pytest.raises(InvalidInput, match="has the index column_stats already"):
        table.add("ver")
    assert table.add("ver", if_missing=True) is None
    assert content(table.path) == before


@pytest.mark.parametrize(
    ("columns", "how", "error", "message"),
    [
        ("nothing", {}, InvalidInput, "no column 'nothing'"),
        ("tags", {}, InvalidInput, "'tags' of type list"),
        ("_hoodie_record_key", {}, InvalidInput, "meta column"),
        ("x", {"wait": False}, UnsupportedFeature, "in the background"),
    ],
)
def test_what_is_wrong_leaves_the_table_as_it_was(tmp_path, columns, how, error, message):
    table = Narrow(tmp_path)
    before = content(table.path)
    with pytest.raises(error, match=message):
        table.add(columns, **how)
    assert content(table.path) == before


def test_a_writer_that_knows_the_older_list_loses(tmp_path):
    table = Narrow(tmp_path)
    late = table.meanwhile(lambda: table.add("x"))
    with pytest.raises(CommitConflict, match="columns to column_stats"):
        late.bulk_insert(source([row(7)], SCHEMA))
    late.bulk_insert(source([row(7)], SCHEMA))
    assert table.covered() == {"ver", "x"}
    assert table.files("x = 7") == 1
    table.verified()


def add_x(path: str) -> None:
    writer = TableWriter(StorageAddress.of(path), LocalEngine(1))
    create_index(writer, "idx", "x", using="column_stats")


# case B41: CREATE INDEX after a failure
def test_a_build_that_is_killed_is_done_by_the_next_write_or_not_at_all(tmp_path):
    table = Narrow(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(table.path, copy)
    changes = changes_of(add_x, str(copy), result=tmp_path / "seen")
    texts = ("lakedex.properties", "index.json", ".commit")
    points = [at for at, change in enumerate(changes) if any(text in change for text in texts)]
    for point in points[-3:]:
        killed = Narrow.__new__(Narrow)
        killed.path = str(tmp_path / f"killed-{point}")
        shutil.copytree(table.path, killed.path)
        killed.address = StorageAddress.of(killed.path)
        killed.writer = TableWriter(killed.address, LocalEngine(1))
        finish_killed(add_x, killed.path, at=point, after=True, result=tmp_path / "end")
        killed.load(row(5, p="b"))
        assert killed.files("x = 300") == (1 if "x" in killed.covered() else 5), changes[point]
        assert killed.ranges("x").get("p=b", (5, 300)) == (5, 300)
        killed.verified()


def test_filters_of_a_column_are_an_index_of_their_own(tmp_path):
    table = Narrow(tmp_path)
    create_index(table.writer, "idx_name", "name", using="bloom_filters")
    create_index(table.writer, "keys", "id", using="bloom_filters")
    names = {each.name: each.function for each in lakedex.open(table.path).indexes()}
    assert names["expr_index_idx_name"] == "identity"
    assert "bloom_filters" in names
    assert table.files("name = 'n200'") == 1
    assert table.files("name in ('n1', 'n300')") == 2
    create_index(table.writer, "idx_x", "x", using="bloom_filters")
    assert table.files("x in (0, 200)") == 1
    table.load(row(9))
    assert table.files("name = 'n9'") == 1
    table.verified()


def test_filters_of_keys_are_on_the_key(tmp_path):
    table = Narrow(tmp_path)
    with pytest.raises(InvalidInput, match=r"index bloom_filters of table t is on its key \(id\)"):
        create_index(table.writer, "bloom_filters", "name")


# case B74: column added to column statistics
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_write_may_name_other_columns_and_none_is_lost(tmp_path, kind):
    table = Narrow(tmp_path, kind)
    table.writer.with_options({LIST: "x"}).upsert(source([row(1, 2)], SCHEMA))
    assert table.covered() >= {"ver", "x"}
    assert lakedex.open(table.path).verify().ok
    # Files that were there before have ranges of the new column, too: nothing is dropped wrongly.
    assert table.files("x = 200") == 1
    assert table.files("ver >= 0 AND x = 100") == 1
    # Later writes go by the list, and keep what the index has besides.
    table.writer.upsert(source([row(100, 3, p="a")], SCHEMA))
    table.load(row(500, p="b"))
    assert table.files("x = 500") == 1
    assert table.files("ver = 3") == 1
    assert lakedex.open(table.path).verify().ok
    before = table.covered()
    with pytest.raises(InvalidInput, match=f"{LIST} names 'nam', .* did you mean 'name'"):
        table.writer.with_options({LIST: "nam"}).upsert(source([row(1, 4)], SCHEMA))
    assert table.covered() == before


def test_the_first_write_may_name_the_columns_of_a_new_table(tmp_path):
    path = str(tmp_path / "fresh")
    address = StorageAddress.of(path)
    create_table(address.open(), TableSpec("t", SCHEMA, "id", "ver", "p", "cow", {}))
    writer = TableWriter(address, LocalEngine(2), {LIST: "name"})
    writer.insert(source([row(1), row(2)], SCHEMA))
    (known,) = (each for each in lakedex.open(path).indexes() if each.name == "column_stats")
    assert {name for name in known.columns if not name.startswith("_hoodie")} == {"name"}
    assert lakedex.open(path).verify().ok
    assert lakedex.open(path).to_arrow("name = 'n2'")["id"].to_pylist() == ["k2"]
