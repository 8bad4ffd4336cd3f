"""A record index of the newest days: rows, what it covers, and what others do to it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTable

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import CorruptFile, FileMissing, InvalidInput, LakedexError
from lakedex.index.kinds.windowed import run_writer
from lakedex.index.kinds.windowed.lookup import GONE, decode_entries, encode_entries, open_run
from lakedex.index.kinds.windowed.state import FOLDER, STATE_FILE, Run, RunFile
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.restoring import restore_table
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import TableSpec, create_table
from lakedex.table.own_properties import OWN_COPY_PATH, OWN_PROPERTIES_PATH
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.history import Commit, History, create, writer_of
from tests.support.row_model import assert_holds, differences, rows_in
from tests.support.windowed import covered_partitions, state_of, stranger
from tests.support.write_shapes import Shape

GLOBAL = "GLOBAL_RECORD_LEVEL_INDEX"
INDEX = "windowed_record_index"
SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("n", pa.int64())])
Row = tuple[str, int, int]


def day_of(number: int) -> str:
    return f"2026-01-{number:02d}"


def make(path: Path, kind: str = "cow", days: int = 2, **more: str) -> TableWriter:
    """An empty table by days, and its writer."""
    properties = {
        "hoodie.index.type": GLOBAL,
        "hoodie.record.index.update.partition.path": "true",
        "hoodie.datasource.write.hive_style_partitioning": "false",
        "lakedex.record.index.window.days": str(days),
        "hoodie.metadata.compact.max.delta.commits": "3",
    } | {f"lakedex.record.index.window.{name}": value for name, value in more.items()}
    address = StorageAddress.of(str(path))
    spec = TableSpec("t", SCHEMA, "id", None, "day", kind, properties)
    create_table(address.open(), spec)
    return TableWriter(address, LocalEngine(1))


def rows(*found: Row) -> ArrowRowSource:
    """Rows of key, day and value."""
    lists = [(key, day_of(day), value) for key, day, value in found]
    columns = [list(column) for column in zip(*lists, strict=True)]
    return ArrowRowSource(pa.table(columns, schema=SCHEMA))


def held(path: Path) -> list[Row]:
    table = lakedex.open(path).to_arrow(columns=["id", "day", "n"])
    return sorted((row["id"], int(row["day"][-2:]), row["n"]) for row in table.to_pylist())


def base_files(path: Path, day: int) -> list[Path]:
    return sorted((path / day_of(day)).glob("*.parquet"))


def entry_count(path: Path) -> int:
    return sum(run.entries for run in state_of(str(path)).runs)


def assert_whole(path: Path) -> None:
    report = lakedex.open(path).verify()
    assert report.ok, report
    assert INDEX in report.checked


@pytest.mark.parametrize(
    "shape",
    [Shape("mor", GLOBAL, "timestamp", 2), Shape("cow", "RECORD_LEVEL_INDEX", "daily", 2)],
    ids=str,
)
def test_a_history_leaves_the_rows_of_the_model_to_every_reader(shape, tmp_path, monkeypatch):
    # Runs of several shards, and not all of them of the same number.
    monkeypatch.setattr(run_writer, "_ENTRIES_A_SHARD", 30)
    shards = set()
    path = str(tmp_path / "table")
    history = History(shape, rows=80)
    writer = writer_of(create(shape, path))
    for number, commit in enumerate(history.commits(12)):
        commit.write(shape, writer)
        shards |= {len(run.files) for run in state_of(path).runs}
        if number % 4 == 3:
            assert_holds(path, history.model, verify=False)
    assert_holds(path, history.model)
    found = rows_in(pa.Table.from_batches(HudiTable(path).read()), history.model.columns)
    assert not differences(found, history.model.answers(history.model.columns))
    assert "record_index" not in lakedex.open(path).snapshot.config.metadata_partitions
    assert len(shards) >= 2


def test_the_window_moves_with_the_newest_day_and_forgets_when_it_is_compacted(tmp_path):
    path = tmp_path / "t"
    writer = make(path, days=2)
    for day in range(1, 8):
        writer.upsert(rows((f"k{day}", day, 1), (f"l{day}", day, 1)))
        assert covered_partitions(str(path)) >= {day_of(max(1, day - 1)), day_of(day)}
    assert_whole(path)
    # The last commit was the second that compacted the index.
    assert covered_partitions(str(path)) == {day_of(day) for day in (6, 7)}
    assert entry_count(path) == 4
    (found,) = [index for index in lakedex.open(path).indexes() if index.name == INDEX]
    assert (found.state, found.file_groups) == ("live", 2)
    assert found.size_bytes > 0


def test_an_index_is_compacted_to_nothing_when_the_table_is_emptied(tmp_path):
    path = tmp_path / "t"
    writer = make(path)
    for value in (1, 2, 3):
        writer.upsert(rows((f"k{value}", 1, value)))
    writer.delete_partitions([day_of(1)])
    state = state_of(str(path))
    assert (state.runs, state.groups) == ((), {})
    writer.upsert(rows(("k1", 1, 5)))
    assert held(path) == [("k1", 1, 5)]
    assert_whole(path)


def test_keys_outside_of_the_window_are_looked_up(tmp_path):
    path = tmp_path / "t"
    writer = make(path, days=1)
    writer.insert(rows(("old", 1, 1), ("gone", 1, 1)))
    for day in (4, 5, 6, 7):
        writer.upsert(rows((f"k{day}", day, 1)))
    assert day_of(1) not in covered_partitions(str(path))
    writer.upsert(rows(("old", 7, 2), ("k7", 7, 2)))
    writer.delete(rows(("gone", 1, 0)))
    expected = [("k4", 4, 1), ("k5", 5, 1), ("k6", 6, 1), ("k7", 7, 2), ("old", 7, 2)]
    assert held(path) == expected
    assert_whole(path)


def test_keys_outside_of_the_window_are_new_where_that_was_asked_for(tmp_path):
    path = tmp_path / "t"
    writer = make(path, days=1, outside="insert")
    writer.insert(rows(("old", 1, 1)))
    writer.upsert(rows(("k", 5, 1)))
    # The index still knows the first day, until it is compacted; that must make no difference.
    assert day_of(1) in covered_partitions(str(path))
    writer.upsert(rows(("old", 5, 2), ("k", 5, 2)))
    assert held(path) == [("k", 5, 2), ("old", 1, 1), ("old", 5, 2)]


@pytest.mark.parametrize("index", [GLOBAL, "RECORD_LEVEL_INDEX"])
def test_a_key_that_the_index_finds_is_looked_for_in_no_file(tmp_path, index):
    path = tmp_path / "t"
    shape = Shape("mor", index, "daily", 2)
    history = History(shape, rows=30)
    writer = writer_of(create(shape, path))
    first, second, old = shape.places
    known = [history.fresh(f"k{n}", 0, (first, second)[n % 2]) for n in range(8)]
    outside = [history.fresh(f"o{n}", 0, old) for n in range(4)]
    Commit("insert", (*known, *outside)).write(shape, writer)
    assert covered_partitions(str(path)) == {first.path, second.path}
    for file in path.glob("2024-03-*/*.parquet"):
        file.rename(file.with_suffix(".hidden"))
    Commit("upsert", tuple(map(history.changed, known))).write(shape, writer)
    if index == GLOBAL:
        with pytest.raises(FileMissing):
            Commit("upsert", (history.fresh("nobody", 0, first),)).write(shape, writer)
    for file in path.glob("2024-03-*/*.hidden"):
        file.rename(file.with_suffix(".parquet"))
    assert lakedex.open(path).verify().ok
    assert len(list(path.glob("2024-03-0*/.*.log.*"))) >= 2


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_what_a_stranger_changed_is_not_believed_and_read_anew(tmp_path, kind):
    path = str(tmp_path / "table")
    shape = Shape(kind, GLOBAL, "daily", 9)
    history = History(shape)
    writer = writer_of(create(shape, path))
    new, middle, old = shape.places
    commits = [("a", new), ("b", middle), ("c", old)]
    rows = [history.fresh(key, 0, place) for key, place in commits]
    history.apply(Commit("insert", tuple(rows))).write(shape, writer)
    assert covered_partitions(path) == {place.path for place in shape.places}
    with stranger(shape, path) as other:
        moved = history.fresh("a", 0, middle)
        history.apply(Commit("upsert", (moved,))).write(shape, other)
        history.apply(Commit("delete", (rows[2],), ("id", "city"))).write(shape, other)
    assert covered_partitions(path) == set()
    again = [history.fresh("a", 0, old), history.fresh("c", 0, new), history.fresh("b", 0, middle)]
    history.apply(Commit("upsert", tuple(again))).write(shape, writer)
    assert_holds(path, history.model)
    slices = lakedex.open(path).snapshot.slices
    assert covered_partitions(path) == {each.partition for each in slices}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_tables_own_upkeep_leaves_the_index_right(tmp_path, kind):
    path = tmp_path / "t"
    address = StorageAddress.of(str(path))
    writer = make(path, kind, days=2)
    writer.insert(rows(*((f"k{day}", day, 1) for day in (1, 2, 3))))
    writer.upsert(rows(("k1", 1, 2), ("k3", 3, 2)))
    if kind == "mor":
        compact_table(writer)
        assert_whole(path)
    writer.upsert(rows(("k2", 2, 3), ("k1", 3, 3)))
    saved = lakedex.open(path).timeline.write_instants()[-1].requested_time
    create_savepoint(address, saved)
    cluster_table(writer, "n", "linear")
    assert_whole(path)
    writer.upsert(rows(("k3", 2, 4), ("k4", 4, 4)))
    clean_table(address, {"hoodie.clean.commits.retained": "1"})
    assert held(path) == [("k1", 3, 3), ("k2", 2, 3), ("k3", 2, 4), ("k4", 4, 4)]
    assert_whole(path)
    restore_table(address, saved)
    assert held(path) == [("k1", 3, 3), ("k2", 2, 3), ("k3", 3, 2)]
    writer.upsert(rows(("k1", 1, 5), ("k2", 3, 5), ("k3", 3, 5)))
    assert held(path) == [("k1", 1, 5), ("k2", 3, 5), ("k3", 3, 5)]
    assert_whole(path)


def test_a_table_that_others_wrote_gets_a_window_with_its_next_write(tmp_path):
    path = tmp_path / "t"
    writer = make(path)
    writer.insert(rows(*((f"k{day}", day, 1) for day in range(1, 6))))
    for name in (OWN_PROPERTIES_PATH, OWN_COPY_PATH):
        (path / name).unlink()
    shutil.rmtree(path / FOLDER)
    options = {
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "lakedex.record.index.window.days": "3",
        "lakedex.record.index.window.format": "yyyy-MM-dd",
    }
    writer.with_options(options).upsert(rows(("k5", 5, 2), ("k1", 1, 2)))
    assert covered_partitions(str(path)) == {day_of(day) for day in (3, 4, 5)}
    writer.upsert(rows(("k4", 4, 3)))
    assert [row[2] for row in held(path)] == [2, 1, 1, 3, 2]
    assert_whole(path)


def test_rows_whose_partition_is_no_day_are_refused_and_leave_no_trace(tmp_path):
    path = tmp_path / "t"
    writer = make(path)
    before = sorted(path.rglob("*"))
    oslo = pa.table([["k"], ["oslo"], [1]], schema=SCHEMA)
    with pytest.raises(InvalidInput, match=r"'oslo' .*window\.format"):
        writer.upsert(ArrowRowSource(oslo))
    assert [file for file in sorted(path.rglob("*")) if file not in before and file.is_file()] == []
    nowhere = pa.table([["k", "l"], [None, day_of(3)], [1, 1]], schema=SCHEMA)
    writer.upsert(ArrowRowSource(nowhere))
    assert len(covered_partitions(str(path))) == 2


def test_a_rollback_of_the_newest_commit_leaves_the_index_right(tmp_path):
    path = tmp_path / "t"
    writer = make(path)
    writer.insert(rows(("a", 1, 1), ("b", 2, 1)))
    kept = tmp_path / "kept"
    shutil.copytree(path, kept)
    writer.upsert(rows(("a", 2, 2), ("c", 2, 2)))
    # As if the commit had been taken back: all but the index is as before.
    shutil.rmtree(kept / FOLDER)
    shutil.copytree(path / FOLDER, kept / FOLDER)
    writer = TableWriter(StorageAddress.of(str(kept)), LocalEngine(1))
    writer.upsert(rows(("a", 1, 5), ("c", 2, 5)))
    assert held(kept) == [("a", 1, 5), ("b", 2, 1), ("c", 2, 5)]
    assert_whole(kept)


@pytest.mark.parametrize(
    "damage", ["no state", "half a state", "a changed digit", "no run", "longer run"]
)
def test_an_index_that_is_not_whole_is_made_anew(tmp_path, damage):
    path = tmp_path / "t"
    writer = make(path)
    writer.insert(rows(("a", 1, 1), ("b", 2, 1)))
    (state,) = (path / FOLDER).glob(f"*/{STATE_FILE}")
    (run,) = (path / FOLDER).glob("*/run-*")
    if damage == "no state":
        state.unlink()
    elif damage == "half a state":
        state.write_bytes(state.read_bytes()[:40])
    elif damage == "a changed digit":
        state.write_bytes(state.read_bytes().replace(b'"nextNumber":3', b'"nextNumber":4'))
    elif damage == "no run":
        run.unlink()
    else:
        run.write_bytes(run.read_bytes() + b"x")
    writer.upsert(rows(("a", 2, 2)))
    assert held(path) == [("a", 2, 2), ("b", 2, 1)]
    assert covered_partitions(str(path)) >= {day_of(2)}
    assert_whole(path)
    assert not state.exists() or damage == "no state"


def test_bytes_that_are_wrong_are_named_and_nothing_is_written(tmp_path):
    path = tmp_path / "t"
    writer = make(path)
    writer.insert(rows(("a", 1, 1), ("b", 2, 1)))
    (run,) = (path / FOLDER).glob("*/run-*")
    run.write_bytes(bytes(run.stat().st_size))
    with pytest.raises(LakedexError, match=INDEX):
        writer.upsert(rows(("a", 2, 2)))
    assert held(path) == [("a", 1, 1), ("b", 2, 1)]
    (problem,) = lakedex.open(path).verify([INDEX]).problems
    assert (problem.index, problem.kind.value) == (INDEX, "unreadable")


def entries_of(path: Path, file: RunFile) -> list[tuple[bytes, int, int]]:
    cells = open_run(lakedex.open(path).snapshot.storage, file).scan()
    at, numbers, states = decode_entries(cells, path=file.path)
    keys = cells.keys.take(pa.array(at)).to_pylist()
    return list(zip(keys, numbers.tolist(), states.tolist(), strict=True))


def put_entries(path: Path, entries: Sequence[tuple[bytes, int, int]]) -> None:
    """Let the state that counts have one run of these entries."""
    state = state_of(str(path))
    keys, numbers, states = zip(*sorted(entries), strict=True)
    arrays = [pa.array(column, pa.int64()).to_numpy() for column in (numbers, states)]
    data = encode_entries(pa.array(keys, pa.large_binary()), *arrays)
    file = RunFile(f"{state.folder}/run-0-other.hfile", len(data), len(keys))
    (path / FOLDER / file.path).write_bytes(data)
    changed = replace(state, runs=(Run(state.sequence, (file,)),))
    (path / FOLDER / state.folder / STATE_FILE).write_bytes(changed.encode())


def test_verify_finds_missing_stale_and_hidden_entries(tmp_path):
    path = tmp_path / "t"
    writer = make(path, "mor")
    writer.insert(rows(*((f"k{n}", 1 + n % 2, n) for n in range(8))))
    writer.delete(rows(("k7", 2, 0)))
    assert_whole(path)
    found = [entry for run in state_of(str(path)).runs for entry in entries_of(path, run.files[0])]
    kept = {(key, number): state for key, number, state in found}
    (gone,) = [key for key, state in kept.items() if key[0] == b"k7"]

    def problems(change: dict[tuple[bytes, int], int | None]) -> set[tuple[str, str]]:
        wanted = {**kept, **change}.items()
        put_entries(path, [(*key, state) for key, state in wanted if state is not None])
        report = lakedex.open(path).verify([INDEX])
        return {(problem.kind.value, problem.key) for problem in report.problems}

    first = next(key for key in kept if key[0] == b"k0")
    other = next(number for _, number in kept if number != first[1])
    assert problems({}) == set()
    assert problems({first: None}) == {("missing", "k0")}
    assert problems({first: GONE}) == {("missing", "k0")}
    assert problems({(b"ghost", other): 0}) == {("stale", "ghost")}
    assert problems({first: None, (b"k0", other): 0}) == {("missing", "k0"), ("stale", "k0")}
    assert problems({gone: None}) == {("missing", "k7")}
    assert problems({gone: 0}) == {("stale", "k7"), ("missing", "k7")}


def test_a_value_that_is_no_list_of_entries_is_refused():
    class Odd:
        values = pa.array([b"1234567"])

    with pytest.raises(CorruptFile, match="8 bytes"):
        decode_entries(Odd, path="run")
