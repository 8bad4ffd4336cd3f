"""Files of one table below several roots (RFC-63, use case 2), opt-in by who opens the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakedex
from lakedex import ReadOptions
from lakedex.engine import LocalEngine
from lakedex.errors import CorruptFile, InvalidInput, UnsafePath
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index
from lakedex.services.partition_evolving import evolve_partitions
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.open import StorageAddress, open_storage
from lakedex.storage.roots import ROOTS_FILE, ROOTS_OPTION, RootsStorage
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.upkeep.cleaning import clean_table
from lakedex.write.verbs import TableWriter
from tests.support.write_lab import Row, source
from tests.unit.services.test_partition_evolving import DAY, SCHEMA, TWO, event

PROPERTIES = {
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.clean.automatic": "false",
}
DAYS = ("2022-10-01", "2022-10-02", "2022-10-03", "2022-10-04")


class Scattered:
    """A table at `home`, with the roots `hot` and `cold` beside it."""

    def __init__(self, folder: Path, kind: str = "cow", **properties: str) -> None:
        self.folder = folder
        self.roots = [str(folder / "hot"), (folder / "cold").as_uri()]
        self.path = str(folder / "home")
        self.options = {ROOTS_OPTION: str(folder)}
        self.address = StorageAddress.of(self.path, self.options)
        spec = TableSpec("t", SCHEMA, "id", "ver", TWO, kind, PROPERTIES | properties)
        create_table(self.address.open(), spec)
        self.writer = TableWriter(self.address, LocalEngine(2))

    def evolve(self, **how: object) -> None:
        evolve_partitions(self.address, self.writer.target().patience, **how)

    def upsert(self, *rows: Row) -> None:
        self.writer.upsert(source(rows, SCHEMA))

    def open(self, **options: object) -> lakedex.Table:
        return lakedex.open(self.path, storage_options=self.options, options=ReadOptions(**options))

    def rows(self, condition: str | None = None, **options: object) -> list[tuple[str, int]]:
        found = self.open(**options).to_arrow(condition, ["id", "ver"])
        return sorted((row["id"], row["ver"]) for row in found.to_pylist())

    def files(self, condition: str) -> int:
        assert self.rows(condition) == self.rows(condition, without_indexes={"all"}), condition
        return len(self.open(weighs_cost=False).explain(condition).files)

    def stored(self, name: str) -> int:
        return len([*(self.folder / name).rglob("*_*.parquet")])


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_one_query_prunes_files_of_all_roots(tmp_path, kind):
    table = Scattered(tmp_path, kind)
    table.upsert(*(event(org, DAYS[0]) for org in "12"))
    create_index(table.writer, "idx_day", DAY)
    create_index(table.writer, "idx_ver", "ver")
    table.evolve(roots=table.roots)
    new = [event(org, day) for org in "1234" for day in DAYS[1:]]
    table.upsert(*new)
    assert table.stored("home") == 2
    assert min(table.stored("hot"), table.stored("cold")) > 0
    assert table.stored("hot") + table.stored("cold") == 12
    assert table.files(f"{DAY} = '2022-10-03'") == 4
    assert table.files(f"{DAY} = '2022-10-01'") == 2
    assert table.files("org_id = '3' and datestr = '2022-10-02'") == 1
    # Written again, a record of the own root moves, and one of another stays.
    changed = [event("1", DAYS[0], ver=2), event("3", DAYS[2], ver=7)]
    table.upsert(*changed)
    assert table.files("ver = 7") == 1
    assert table.files("ver in (2, 7)") == 2
    table.writer.delete(source([event("4", DAYS[3])], SCHEMA))
    assert len(table.rows()) == 13
    before = table.rows()
    table.upsert(event("9", DAYS[1], ver=9), event("3", DAYS[2], ver=8))
    newest = table.open().timeline.write_instants()[-1].requested_time
    rollback_instant(table.address, newest)
    assert table.rows() == before
    if kind == "mor":
        compact_table(table.writer)
    cluster_table(table.writer, "ts")
    table.upsert(event("2", DAYS[0], ver=3))
    clean_table(table.address, {"hoodie.clean.commits.retained": "1"})
    assert len(table.rows()) == 13
    assert table.files("ver = 7") == 1
    assert table.open().verify().ok


def test_a_new_table_with_roots_and_hashed_folders(tmp_path):
    roots = f"{tmp_path}/hot,{tmp_path}/cold"
    table = Scattered(tmp_path, **{ROOTS_OPTION: roots, "lakedex.partition.hashed.folders": "16"})
    table.upsert(*(event(org, day) for org in "123" for day in DAYS))
    assert table.stored("home") == 0
    assert table.stored("hot") + table.stored("cold") == 12
    assert table.files("org_id = '2'") == 4
    assert len(table.rows(f"datestr = '{DAYS[1]}'")) == 3
    assert table.open().verify().ok
    table.writer.delete_partitions([table.open().files()[0].partition])
    assert len(table.rows()) == 11


def test_roots_are_read_only_where_they_are_allowed(tmp_path):
    table = Scattered(tmp_path)
    table.evolve(roots=table.roots)
    table.upsert(event("1", DAYS[0]))
    with pytest.raises(InvalidInput, match="whoever trusts it"):
        lakedex.open(table.path)
    near = {ROOTS_OPTION: f"{tmp_path}/ho"}
    with pytest.raises(InvalidInput, match="does not allow"):
        lakedex.open(table.path, storage_options=near).to_arrow()
    both = {ROOTS_OPTION: ",".join(table.roots)}
    assert lakedex.open(table.path, storage_options=both).to_arrow().num_rows == 1


def test_wrong_roots_are_refused_and_leave_nothing(tmp_path):
    table = Scattered(tmp_path)
    before = (tmp_path / "home/.hoodie/hoodie.properties").read_bytes()
    wrong = (
        [str(tmp_path / "home/inner")],
        [str(tmp_path)],
        [str(tmp_path / "hot"), str(tmp_path / "hot/inner")],
        [str(tmp_path / "hot"), str(tmp_path / "hot")],
        [str(tmp_path / "hot/../cold")],
        [str(tmp_path.parent / "elsewhere")],
        ["ftp://host/x"],
        [],
        "",
    )
    for roots in wrong:
        with pytest.raises(InvalidInput):
            table.evolve(roots=roots)
    plain = StorageAddress.of(table.path)
    with pytest.raises(InvalidInput, match="storage option"):
        evolve_partitions(plain, table.writer.target().patience, roots=table.roots)
    assert (tmp_path / "home/.hoodie/hoodie.properties").read_bytes() == before
    assert not (tmp_path / "home" / ROOTS_FILE).exists()
    bare = TableSpec("t", SCHEMA, "id", "ver", (), "cow", {ROOTS_OPTION: table.roots[0]})
    with pytest.raises(InvalidInput, match="no partition columns"):
        create_table(StorageAddress.of(str(tmp_path / "bare"), table.options).open(), bare)


def test_a_path_finds_no_other_place_than_the_listed_roots(tmp_path):
    table = Scattered(tmp_path)
    storage = table.address.open()
    assert isinstance(storage, RootsStorage)
    with pytest.raises(UnsafePath):
        storage.read("lakedex-root-0/a")
    table.evolve(roots=table.roots)
    storage.create("lakedex-root-1/a/b", b"x")
    assert (tmp_path / "cold/a/b").read_bytes() == b"x"
    assert "lakedex-root-1/a/b" in [info.path for info in storage.list_recursive()]
    assert storage.folders("lakedex-root-1") == ["a"]
    for path in ("lakedex-root-2/a", "lakedex-root-0", "lakedex-root-0/../x", "lakedex-root-0//x"):
        with pytest.raises(UnsafePath):
            storage.read(path)
    with pytest.raises(UnsafePath):
        storage.delete_folder("lakedex-root-1")
    assert storage.exists("lakedex-root-1/a/b")
    for damaged in ("", "{}", "[]", "[1]", "[" * 5000, json.dumps(["x"] * 2000)):
        (tmp_path / "home" / ROOTS_FILE).write_text(damaged)
        fresh = open_storage(table.path, table.options)
        with pytest.raises(CorruptFile):
            fresh.list_recursive()
