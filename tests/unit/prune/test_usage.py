"""Index usage is counted without a query noticing, and survives the process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lakedex
from lakedex.api import Table
from lakedex.cli.main import app
from lakedex.prune import usage as recorder
from lakedex.prune.usage import (
    USAGE_PATH,
    IndexUsage,
    PredicateUsage,
    TableUsage,
    flush,
    keep_usage,
    stored_usage,
)
from lakedex.storage import open_storage
from lakedex.storage.object_store import memory_storage
from lakedex.table import Snapshot
from tests.support.sample_tables import ALL_INDEXES, make_rows
from tests.support.sample_tables import SCHEMA as SAMPLE_SCHEMA
from tests.support.table_builder import TableBuilder
from tests.support.write_lab import Lab, row, source

KEYS = [row(f"k{n}", "p", 1, float(n + 1)) for n in range(6)]


@pytest.fixture(autouse=True)
def counting(monkeypatch, tmp_path):
    monkeypatch.setenv("LAKEDEX_INDEX_USAGE", "on")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table of ours with three files and a record index."""
    lab = Lab(tmp_path_factory.mktemp("made"), index="GLOBAL_RECORD_LEVEL_INDEX")
    for first in (0, 2, 4):
        lab.writer.bulk_insert(source(KEYS[first : first + 2]))
    return lab.path


@pytest.fixture
def path(made, tmp_path):
    """A copy of that table."""
    shutil.copytree(made, tmp_path / "t")
    return str(tmp_path / "t")


@pytest.fixture
def foreign(tmp_path):
    """A table that another engine keeps."""
    builder = TableBuilder(
        tmp_path / "f", SAMPLE_SCHEMA, record_key="id", partition_by="p", indexes=ALL_INDEXES
    )
    builder.commit([("x", make_rows(0, 5)), ("y", make_rows(5, 9))])
    return builder.finish()


def contents(path: str) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in Path(path).rglob("*") if each.is_file()}


def used(path: str, index: str):
    return next(each for each in lakedex.open(path).indexes() if each.name == index)


def test_a_scan_is_counted_at_once_and_written_later(path):
    table = lakedex.open(path)
    before = contents(path)
    for _ in range(3):
        assert table.to_arrow("id = 'k3'").num_rows == 1
    assert contents(path) == before
    info = used(path, "record_index")
    assert (info.scans, info.files_pruned) == (3, 6)
    assert info.bytes_saved > 0
    assert info.last_used is not None
    flush()
    stored = stored_usage(open_storage(path))
    assert stored.indexes["record_index"].scans == 3
    assert list(set(contents(path)) - set(before)) == [f"{path}/{USAGE_PATH}"]
    # What was written is not counted again.
    assert used(path, "record_index").scans == 3
    assert lakedex.open(path).verify().ok


def test_who_asks_while_counters_are_written_sees_them_all(path, monkeypatch):
    assert lakedex.open(path).to_arrow("id = 'k3'").num_rows == 1
    with ThreadPoolExecutor(1) as other:
        asked = []

        def slow(*given, **more):
            asked.append(other.submit(used, path, "record_index"))
            wait(asked, timeout=0.2)
            return keep_usage(*given, **more)

        monkeypatch.setattr(recorder, "keep_usage", slow)
        flush()
        assert [each.result().scans for each in asked] == [1]


def test_the_command_line_shows_the_counters(path):
    lakedex.open(path).to_arrow("id = 'k3'")
    shown = CliRunner().invoke(app, ["indexes", path, "--json"], prog_name="lakedex")
    found = {each["name"]: each for each in json.loads(shown.output)["indexes"]}
    assert found["record_index"]["scans"] == 1
    assert found["record_index"]["files_pruned"] == 2
    assert found["record_index"]["last_used"].endswith("Z")
    assert found["files"]["scans"] == 0
    plain = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["indexes", path], prog_name="lakedex")
    assert "files pruned" in plain.output


def test_how_columns_were_compared_is_kept(path):
    table = lakedex.open(path)
    table.to_arrow("id = 'k3' and upper(p) = 'P' and x > 1.5D")
    table.to_arrow("x > 4D")
    flush()
    seen = lakedex.open(path).usage().predicates
    assert {shape: use.scans for shape, use in seen.items()} == {
        ("id", "equal", ""): 1,
        ("p", "equal", "upper(p)"): 1,
        ("x", "range", ""): 2,
    }
    assert seen["x", "range", ""].files_total == 6


def test_explaining_is_no_scan(path):
    lakedex.open(path).explain("id = 'k3'")
    lakedex.open(path).files("id = 'k3'")
    assert used(path, "record_index").scans == 0


def test_the_end_of_a_process_writes_what_it_counted(path):
    program = f"import lakedex; lakedex.open({path!r}).to_arrow(\"id = 'k1'\")"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))
    assert used(path, "record_index").scans == 2


def test_a_table_that_is_only_read_is_left_as_it_is(foreign, tmp_path):
    before = contents(foreign)
    lakedex.open(foreign).to_arrow("id = 'k003'")
    flush()
    assert contents(foreign) == before
    assert used(foreign, "record_index").scans == 1
    assert list((tmp_path / "state").rglob("*.json"))


def test_a_table_that_cannot_be_written_is_counted_elsewhere(path, tmp_path):
    # Nothing can be made below a file.
    shutil.rmtree(Path(path, USAGE_PATH).parent, ignore_errors=True)
    Path(path, USAGE_PATH).parent.write_text("")
    lakedex.open(path).to_arrow("id = 'k3'")
    flush()
    assert used(path, "record_index").scans == 1
    assert list((tmp_path / "state").rglob("*.json"))


def test_many_writers_at_once_lose_nothing(path):
    storage = open_storage(path)
    once = TableUsage(indexes={"record_index": IndexUsage(scans=1, last_used="2026")})

    def keep_until_kept(_: int) -> None:
        # One that others were always faster than keeps its counts and tries again later.
        while not keep_usage(open_storage(path), once):
            pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(keep_until_kept, range(12)))
    assert stored_usage(storage).indexes["record_index"].scans == 12


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version": 9}', b'{"version": 1}'])
def test_a_damaged_file_counts_as_nothing_and_is_replaced(path, damage):
    place = Path(path, USAGE_PATH)
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(damage)
    assert used(path, "record_index").scans == 0
    lakedex.open(path).to_arrow("id = 'k3'")
    flush()
    assert used(path, "record_index").scans == 1


def test_a_table_that_is_gone_is_forgotten(path, tmp_path):
    lakedex.open(path).to_arrow("id = 'k3'")
    Path(path).rename(tmp_path / "elsewhere")
    flush()
    assert not Path(path).exists()
    assert not (tmp_path / "state").exists()


def test_the_end_of_a_process_writes_nothing_to_an_object_store(path, tmp_path):
    remote = memory_storage()
    for each in Path(path).rglob("*"):
        if each.is_file():
            remote.create(str(each.relative_to(path)), each.read_bytes())
    before = [each.path for each in remote.list_recursive()]
    table = Table(Snapshot.open(remote), lakedex.ReadOptions())
    for _ in range(20):
        assert table.to_arrow("id = 'k3'").num_rows == 1
    flush()
    assert [each.path for each in remote.list_recursive()] == before
    assert list((tmp_path / "state").rglob("*.json"))
    info = next(each for each in table.indexes() if each.name == "record_index")
    assert info.scans == 20
    # One that lives on writes now and then.
    assert keep_usage(remote, TableUsage(indexes={"record_index": IndexUsage(scans=1)}))
    assert remote.exists(USAGE_PATH)
    assert stored_usage(remote).indexes["record_index"].scans == 21


@pytest.mark.parametrize("by", ["option", "environment"])
def test_counting_can_be_switched_off(path, monkeypatch, by):
    options = lakedex.ReadOptions(counts_usage=by != "option")
    if by == "environment":
        monkeypatch.setenv("LAKEDEX_INDEX_USAGE", "off")
    lakedex.open(path, options=options).to_arrow("id = 'k3'")
    flush()
    assert used(path, "record_index").scans == 0
    assert not Path(path, USAGE_PATH).exists()


def test_what_no_index_answered_is_counted_apart(path):
    table = lakedex.open(path)
    table.to_arrow("id in ('k3', 'k4')")
    table.to_arrow("x > 0D and x < 100D")
    usage = lakedex.open(path).usage()
    answered, scanned = usage.predicates["id", "in", ""], usage.predicates["x", "range", ""]
    assert (answered.values, answered.unanswered, answered.files_unanswered) == (2, 0, 0)
    assert (scanned.values, scanned.unanswered, scanned.files_unanswered) == (2, 1, 3)
    assert usage.scans == 2
    assert usage.since <= scanned.last_used
    record_index = usage.indexes["record_index"]
    assert (record_index.scans, record_index.offered) == (1, 2)


def test_constants_are_never_kept(path):
    table = lakedex.open(path)
    table.to_arrow("concat(id, 'secret-1') = 'secret-2' and id like 'secret-3%'")
    table.to_arrow("coalesce(id, 'secret-4') = 'secret' or id in ('secret-5')")
    table.to_arrow("substr(id, 1, 2) = 'secret-6'")
    flush()
    text = Path(path, USAGE_PATH).read_text()
    assert "secret" not in text
    assert '"substr(id, 1, 2)"' in text
    assert '"concat(id, ?)"' in text


def test_comparisons_that_nobody_makes_any_more_give_way():
    usage = TableUsage()
    for number in range(1_200):
        seen = PredicateUsage(
            scans=1, last_used=f"2026-01-01T00:{number // 60:02d}:{number % 60:02d}Z"
        )
        usage.add(TableUsage(predicates={(f"c{number}", "equal", ""): seen}))
    assert len(usage.predicates) == 1_000
    assert ("c1199", "equal", "") in usage.predicates
    assert ("c0", "equal", "") not in usage.predicates
    assert len(usage.encode()) < 4 << 20
