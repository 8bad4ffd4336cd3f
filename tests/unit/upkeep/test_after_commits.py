"""What writes do by themselves after their commits: the table and its timelines stay small."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTable

import lakedex
from lakedex.config.service_options import ArchivingOptions, CleaningOptions
from lakedex.engine import LocalEngine
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.timeline import Action
from lakedex.txn.transaction import TransactionOptions
from lakedex.upkeep.cleaning import schedule_clean
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.killing import changes_of
from tests.support.upkeep_lab import BY_HAND, Past, read_by_hudi_rs
from tests.support.write_lab import Lab, row, source

SMALL = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.clean.trigger.max.commits": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.metadata.compact.max.delta.commits": "3",
}


def counts(path: str) -> tuple[int, int, int, int]:
    """Base files, files of the metadata table, instants of both timelines."""
    inner = Path(path) / ".hoodie/metadata"
    return (
        len(list(Path(path).glob("p=*/*.parquet"))),
        sum(file.is_file() for folder in inner.glob("[a-z]*") for file in folder.iterdir()),
        len(lakedex.open(path).timeline.instants),
        len(lakedex.open(str(inner)).timeline.instants),
    )


def test_files_and_instants_stay_few_over_many_commits(tmp_path):
    past = Past(Lab(tmp_path, "cow", **SMALL))
    seen = []
    for number in range(24):
        past.upsert([number % 3, 3 + number % 4], number)
        seen.append(counts(past.path))
    most = [max(column) for column in zip(*seen[8:16], strict=True)]
    assert all(
        late <= early + 4
        for late, early in zip((max(c) for c in zip(*seen[16:], strict=True)), most, strict=True)
    ), seen
    past.holds()
    assert read_by_hudi_rs(past.path) == past.states[past.times[-1]]
    timeline = lakedex.open(past.path).timeline
    assert [each.requested_time for each in timeline.between(None)] == past.times
    cleans = [each for each in timeline.completed() if each.action is Action.CLEAN]
    assert cleans
    for instant in past.times[-2:]:
        assert past.as_of(instant) == past.states[instant]


FEW = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
}
THREE = {
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "6",
}
METADATA_OFF = {"hoodie.metadata.enable": "false"}
CLEANING_OFF = {"hoodie.clean.automatic": "false"}
OFTEN = {"hoodie.metadata.compact.max.delta.commits": "4"}


@pytest.mark.parametrize(
    ("kind", "options", "active"),
    [
        ("cow", FEW, [1, 2, 3, 4, 5, 4, 5]),
        ("cow", FEW | METADATA_OFF, [1, 2, 3, 4, 5, 4, 5]),
        ("cow", FEW | OFTEN, [1, 2, 3, 4, 5, 4, 5, 4]),
        ("cow", FEW | CLEANING_OFF, [1, 2, 3, 4, 5, 6, 7, 8, 4, 5, 4]),
        ("cow", THREE, [1, 2, 3, 4, 5, 6, 5, 6, 5]),
        ("mor", FEW, [1, 2, 3, 4, 5, 5, 5, 5]),
    ],
    ids=["few", "no metadata table", "compacted often", "not cleaned", "three", "mor"],
)
def test_as_many_commits_stay_active_as_in_hudi(tmp_path, kind, options, active):
    # Counted after each INSERT in tables of Hudi 1.2.0 with the same options.
    schema = pa.schema([("id", pa.int32()), ("name", pa.string()), ("ts", pa.int64())])
    address = StorageAddress.of(str(tmp_path / "t"))
    create_table(address.open(), TableSpec("t", schema, "id", "ts", (), kind, options))
    seen = []
    for number in range(len(active)):
        rows = pa.table({"id": [number], "name": ["a"], "ts": [number]}, schema=schema)
        TableWriter(address, LocalEngine(1)).insert(ArrowRowSource(rows))
        seen.append(len(lakedex.open(address.url).timeline.write_instants()))
    assert seen == active
    table = lakedex.open(address.url)
    assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == list(range(len(active)))
    assert table.verify().ok
    assert sum(len(batch) for batch in HudiTable(address.url).read()) == len(active)


def upsert_job(path: str, automatic: str) -> None:
    options = {"hoodie.clean.automatic": automatic, "hoodie.archive.automatic": automatic}
    TableWriter(StorageAddress.of(path), None, options).upsert(source([row("k01", "p1", 77)]))


def test_where_nothing_is_due_no_file_is_touched(tmp_path):
    past = Past(Lab(tmp_path / "made", "cow"))
    for number in range(3):
        past.upsert([1, 2], number)
    seen = []
    for automatic in ("true", "false"):
        table = past.copied(tmp_path / automatic)
        changes = changes_of(upsert_job, table.path, automatic, result=tmp_path / "seen")
        seen.append(sorted(change.split()[0] for change in changes))
    assert seen[0] == seen[1]


def test_the_next_write_carries_out_a_clean_that_was_cut_short(tmp_path):
    past = Past(Lab(tmp_path, "cow", **BY_HAND))
    for number in range(4):
        past.upsert([1, 2], number)
    instant = schedule_clean(past.lab.address, CleaningOptions(commits=1), TransactionOptions())
    past.upsert([1], 5)
    assert lakedex.open(past.path).timeline.is_pending(instant)
    past.lab.writer = past.lab.writer.with_options({"hoodie.clean.automatic": "true"})
    past.upsert([1], 6)
    assert lakedex.open(past.path).timeline.is_completed(instant)
    past.holds()


def test_defaults_are_those_of_hudi():
    assert CleaningOptions.resolve({}) == CleaningOptions()
    assert ArchivingOptions.resolve({}) == ArchivingOptions()
    chosen = CleaningOptions()
    assert (chosen.automatic, chosen.commits, chosen.hours, chosen.versions) == (True, 10, 24, 3)
    assert (ArchivingOptions().least, ArchivingOptions().most) == (20, 30)
