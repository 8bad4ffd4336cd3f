"""How often a small write and a lookup of one key go to the store: each call is a round trip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import lakedex
from lakedex.api import Table
from lakedex.engine import LocalEngine
from lakedex.services.index_creating import create_index
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.verbs import TableWriter
from tests.support.counting_storage import CallLog, CountingAddress
from tests.support.write_lab import SCHEMA, Row, row, source
from tests.unit.storage.conftest import BUCKET, Moto, moto  # noqa: F401 - a fixture

MOST_CALLS_OF_AN_UPSERT = 50
MOST_CALLS_OF_A_LOOKUP = 12
STORED = 1_000
ATTEMPTS = 3


def rows(count: int, version: int, start: int = 0) -> list[Row]:
    return [row(f"k{n:05}", "p", version, float(n % 7)) for n in range(start, start + count)]


def indexed_table(address: StorageAddress) -> None:
    """A table with a record index and a secondary index, of one file group each."""
    settings = {
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",
        # The names of files, which are random, decide how many of several get entries.
        "hoodie.metadata.index.column.stats.file.group.count": "1",
    }
    create_table(address.open(), TableSpec("t", SCHEMA, "id", "ver", "p", "cow", settings))
    writer = TableWriter(address, LocalEngine(2))
    writer.bulk_insert(source(rows(STORED, 1)))
    create_index(writer, "x_idx", "x")
    for version in (2, 3):
        writer.upsert(source(rows(15, version)))


def changed_rows() -> Sequence[Row]:
    """Fifteen rows: some update, some are new."""
    return rows(15, 9, start=STORED - 9)


def check(address: StorageAddress) -> None:
    table = Table(Snapshot.open(address.open()), lakedex.ReadOptions())
    assert table.to_arrow().num_rows == STORED + 6
    assert table.to_arrow("ver = 9").num_rows == 15
    report = table.verify()
    assert report.ok, report


def counted_upsert(address: StorageAddress) -> CallLog:
    indexed_table(address)
    log = CallLog()
    TableWriter(CountingAddress(address, log), LocalEngine(2)).upsert(source(changed_rows()))
    check(address)
    return log


def test_an_upsert_of_few_rows_takes_few_calls(tmp_path: Path) -> None:
    # Heartbeats and leases are renewed by the clock: on a busy machine a write has some more.
    paths = (StorageAddress.of(str(tmp_path / f"t{attempt}")) for attempt in range(ATTEMPTS))
    log = min(map(counted_upsert, paths), key=lambda each: len(each.calls))
    assert len(log.calls) <= MOST_CALLS_OF_AN_UPSERT, log.report()
    by_path = Counter(call.path for call in log.calls if call.operation == "read")
    # Once before the write, and once under each of its two locks.
    assert by_path[".hoodie/hoodie.properties"] == 3, log.report()
    assert max(by_path.values()) <= 3, log.report()


def test_opening_a_table_and_reading_one_key_takes_few_calls(tmp_path: Path) -> None:
    address = StorageAddress.of(str(tmp_path / "t"))
    indexed_table(address)
    log = CallLog()
    storage = CountingAddress(address, log).open()
    table = Table(Snapshot.open(storage), lakedex.ReadOptions())
    assert table.to_arrow("id = 'k00500'").num_rows == 1
    assert len(log.calls) <= MOST_CALLS_OF_A_LOOKUP, log.report()


@pytest.mark.s3
def test_on_s3_both_take_few_requests(moto: Moto) -> None:  # noqa: F811 - the fixture
    upserts = []
    for attempt in range(ATTEMPTS):
        address = StorageAddress.of(f"s3://{BUCKET}/few/requests-{attempt}", moto.options)
        indexed_table(address)
        moto.requests.clear()
        TableWriter(address, LocalEngine(2)).upsert(source(changed_rows()))
        upserts.append(list(moto.requests))
    upsert = min(upserts, key=len)
    moto.requests.clear()
    table = Table(Snapshot.open(address.open()), lakedex.ReadOptions())
    assert table.to_arrow("id = 'k00500'").num_rows == 1
    lookup = list(moto.requests)
    check(address)
    assert len(upsert) <= MOST_CALLS_OF_AN_UPSERT, "\n".join([str(len(upsert)), *upsert])
    assert len(lookup) <= MOST_CALLS_OF_A_LOOKUP, "\n".join([str(len(lookup)), *lookup])
