"""Writes on a real cluster whose executors die, hang and come back: the table is exact.

One program does all writes, on a driver whose heap is smaller than the data of the first.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTable

import lakedex
from tests.spark.faults_run import WRITE, Run, run_with_trouble
from tests.support.plain_listing import (
    count_of_newest_base_files,
    data_files,
    newest_base_files,
    strays,
)

ROWS = 34_000
SMALL_ROWS = 30_000
STEPS = ("load", "upsert", "delete", "slow", "zombie")


@pytest.fixture(scope="module")
def run(tmp_path_factory, executor_python) -> Run:
    return run_with_trouble(tmp_path_factory.mktemp("faults"), executor_python, ROWS, *STEPS)


def assert_exact(root: Path, expected: dict[str, int]) -> None:
    """The table has these keys and versions for lakedex and hudi-rs, and not one file too many."""
    assert strays(root) == []
    found = lakedex.open(root).to_arrow(columns=["id", "ver"])
    assert dict(zip(*(found[name].to_pylist() for name in ("id", "ver")), strict=True)) == expected
    assert found.num_rows == len(expected)
    assert sum(batch.num_rows for batch in HudiTable(str(root)).read()) == len(expected)
    report = lakedex.open(root).verify()
    assert report.ok, report.problems[:3]


def assert_payloads(rows: pa.Table) -> None:
    payloads = rows["payload"].to_pylist()
    assert [zlib.crc32(payload) for payload in payloads] == rows["crc"].to_pylist()


def keys(first: int, last: int, ver: int) -> dict[str, int]:
    return {f"k{n:08}": ver for n in range(first, last)}


def test_a_load_loses_an_executor_in_mid_write(run):
    assert "ExecutorLostFailure" in run.reasons("load", WRITE)
    assert run.was_in_the_middle("load")
    root = run.folder / "load"
    assert_exact(root, keys(0, ROWS, 1))
    assert count_of_newest_base_files(root) == ROWS
    for path in newest_base_files(root):
        assert_payloads(pq.read_table(path, columns=["payload", "crc"]))


def test_the_data_of_a_load_does_not_fit_into_the_driver(run):
    told = run.told["load"]
    root = run.folder / "load"
    data_mb = sum((root / path).stat().st_size for path in data_files(root)) >> 20
    assert told["heap_mb"] < data_mb
    # Of Python too the driver has no more than what it loads for itself.
    assert told["driver_mb"] < data_mb


def test_an_upsert_into_logs_and_a_delete_lose_executors_in_mid_write(run):
    assert "ExecutorLostFailure" in run.reasons("upsert", WRITE)
    assert "ExceptionFailure" in run.reasons("delete", WRITE)
    assert run.was_in_the_middle("upsert")
    assert run.was_in_the_middle("delete")
    told = run.told["upsert"]
    assert (told["inserted"], told["updated"]) == (1000, SMALL_ROWS // 2)
    assert run.told["delete"]["deleted"] == SMALL_ROWS // 3
    first, second = SMALL_ROWS // 3, SMALL_ROWS // 2
    expected = keys(first, second, 1) | keys(second, SMALL_ROWS + 1000, 2)
    root = run.folder / "mor"
    assert_exact(root, expected)
    assert_payloads(lakedex.open(root).to_arrow(columns=["payload", "crc"]))


def test_attempts_that_hang_are_overtaken_and_end_after_the_commit(run):
    # One attempt hangs in the input of the load, one is stopped in mid-write of the upsert.
    assert "Success" in run.speculated("slow", "read the rows")
    assert "Success" in run.speculated("zombie", WRITE)
    told = run.told["zombie"]
    assert run.was_in_the_middle("zombie")
    assert told["was_stopped"]
    assert told["came"] == []
    assert (told["inserted"], told["updated"]) == (1000, SMALL_ROWS // 2)
    root = run.folder / "cow"
    half = SMALL_ROWS // 2
    assert_exact(root, keys(0, half, 1) | keys(half, SMALL_ROWS + 1000, 2))
    assert count_of_newest_base_files(root) == SMALL_ROWS + 1000
    assert_payloads(lakedex.open(root).to_arrow(columns=["payload", "crc"]))
