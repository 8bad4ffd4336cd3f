"""Tables of versions 6 and 8 become tables of version 9 with the same rows."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from hudi import HudiTable
from typer.testing import CliRunner

import lakedex
from lakedex.cli.main import app
from lakedex.config import keys
from lakedex.errors import CommitConflict, UnsupportedFeature
from lakedex.services.upgrading import upgrade_table
from lakedex.services.upgrading.state import PATH as STATE_PATH
from lakedex.storage.open import StorageAddress
from lakedex.timeline import (
    Action,
    Instant,
    State,
    encode_commit_metadata,
    update_properties,
    write_instant,
)
from tests.support.killing_storage import Fuse, Killed, KillingAddress
from tests.unit.timeline.test_archive_log import block

KEY = "_hoodie_record_key"
TABLES = ("v6_cow", "v6_mor", "v8_cow", "v8_mor")
BUILT = {"column_stats", "files", "record_index"}
NOT_COMPARED = ("_hoodie_file_name",)
KILL_STEP = int(os.environ.get("LAKEDEX_KILL_STEP", "13"))
"""Every so many changes a kill; 1 tries them all."""


@pytest.fixture
def table(golden, tmp_path):
    """`table(name)` is a copy of a golden table, with the times of its files or without."""

    def copy(name, to="t"):
        path = tmp_path / to
        shutil.copytree(golden(name).path, path)
        return path

    return copy


def address_of(path):
    return StorageAddress.of(str(path))


def rows_of(path, read=None):
    rows = read(path) if read else lakedex.open(str(path)).to_arrow()
    kept = rows.drop_columns([name for name in NOT_COMPARED if name in rows.column_names])
    return kept.sort_by([("_hoodie_partition_path", "ascending"), (KEY, "ascending")])


def hudi_rs(path):
    return pa.Table.from_batches([pa.record_batch(batch) for batch in HudiTable(str(path)).read()])


def assert_new(path, before, name):
    opened = lakedex.open(str(path))
    config = opened.snapshot.config
    assert (config.version, config.timeline_layout) == (9, 2)
    assert config.raw[keys.TABLE_INITIAL_VERSION] == name[1]
    report = opened.verify()
    assert not report.problems, report.problems[:5]
    assert set(config.metadata_partitions) >= BUILT
    assert rows_of(path).equals(before)
    assert rows_of(path, hudi_rs).select(before.column_names).cast(before.schema).equals(before)
    assert opened.snapshot.listing.source == "metadata table"
    key = before[KEY][0].as_py()
    assert len(opened.explain(f"uuid = '{key}'").files) == 1
    assert not (path / STATE_PATH).exists()
    left = [file.name for file in (path / ".hoodie").iterdir() if file.is_file()]
    assert sorted(left) == ["hoodie.properties", "hoodie.properties.backup"]


@pytest.mark.parametrize("name", TABLES)
def test_the_rows_stay_and_the_indexes_are_new(name, table):
    path = table(name)
    before = rows_of(path)
    report = upgrade_table(address_of(path), drop_indexes=True)
    assert_new(path, before, name)
    assert (report.from_version, report.to_version) == (int(name[1]), 9)
    assert set(report.indexes) >= BUILT
    assert report.compacted == (1 if name == "v6_mor" else 0)
    again = upgrade_table(address_of(path))
    assert not again.changed


@pytest.mark.parametrize("name", ["v6_cow", "v6_mor"])
@pytest.mark.parametrize("times", ["right", "copied", "old"])
def test_completion_times_come_from_files_where_these_can_be_believed(name, times, table):
    path = table(name)
    before = rows_of(path)
    starts = [instant.requested_time for instant in lakedex.open(str(path)).timeline.completed()]
    for file in (path / ".hoodie").iterdir():
        if file.is_file() and file.name[:17].isdigit():
            begun = time.mktime(time.strptime(file.name[:14], "%Y%m%d%H%M%S"))
            moment = {"right": begun + 1.5, "copied": time.time(), "old": 1000.0}[times]
            os.utime(file, (moment, moment))
    upgrade_table(address_of(path))
    assert_new(path, before, name)
    completed = lakedex.open(str(path)).timeline.completed()
    assert [instant.requested_time for instant in completed][: len(starts)] == starts
    bounds = [*(instant.requested_time for instant in completed[1:]), "9" * 17]
    for instant, following in zip(completed, bounds, strict=True):
        assert instant.requested_time < instant.completion_time < following
    if times == "right":
        assert int(completed[0].completion_time) - int(completed[0].requested_time) > 500


def test_time_travel_reaches_the_instants_of_before(table):
    path = table("v6_mor")
    opened = lakedex.open(str(path))
    moments = [instant.requested_time for instant in opened.timeline.write_instants()]
    before = {moment: opened.to_arrow(as_of=moment).num_rows for moment in moments}
    upgrade_table(address_of(path))
    after = lakedex.open(str(path))
    assert {moment: after.to_arrow(as_of=moment).num_rows for moment in moments} == before


def test_properties_are_those_of_version_9(table):
    path = table("v6_mor")
    upgrade_table(address_of(path))
    raw = lakedex.open(str(path)).snapshot.config.raw
    assert raw[keys.MERGE_MODE] == "EVENT_TIME_ORDERING"
    assert raw[keys.ORDERING_FIELDS] == "ts"
    assert raw[keys.KEY_GENERATOR_TYPE] == "SIMPLE"
    assert raw[keys.TIMELINE_PATH] == "timeline"
    assert raw[keys.LEGACY_PAYLOAD_CLASS] == keys.DEFAULT_PAYLOAD
    gone = (keys.PRECOMBINE_FIELD, keys.PAYLOAD_CLASS, *keys.MERGE_STRATEGY_ID_NAMES)
    assert not set(gone) & set(raw)


def test_the_archive_becomes_a_history(table):
    path = table("v6_cow")
    opened = lakedex.open(str(path))
    first = opened.timeline.commit_metadata(opened.timeline.write_instants()[0])
    archived = write_v6_archive(path, opened)
    before = rows_of(path)
    report = upgrade_table(address_of(path))
    assert report.archived == len(archived)
    after = lakedex.open(str(path))
    history = after.timeline.archived.instants()
    assert [instant.requested_time for instant in history] == archived
    assert list(after.timeline.commit_metadata(history[0]).stats()) == list(first.stats())
    assert rows_of(path).equals(before)
    assert rows_of(path, hudi_rs).select(before.column_names).cast(before.schema).equals(before)
    assert not (path / ".hoodie" / "archived").exists()


def write_v6_archive(path, opened):
    """Move the first two commits into an archive of layout 1."""
    moved = opened.timeline.write_instants()[:2]
    entries = []
    for instant in moved:
        data = encode_commit_metadata(opened.timeline.commit_metadata(instant))
        record = next(fastavro.reader(io.BytesIO(data)))
        entries.append(
            {
                "commitTime": instant.requested_time,
                "actionType": "commit",
                "actionState": "COMPLETED",
                "hoodieCommitMetadata": record,
            }
        )
        for file in (path / ".hoodie").glob(f"{instant.requested_time}*"):
            file.unlink()
    folder = path / ".hoodie" / "archived"
    folder.mkdir(exist_ok=True)
    (folder / ".commits_.archive.1_1-0-1").write_bytes(block(entries))
    return [instant.requested_time for instant in moved]


@pytest.mark.parametrize("name", ["v8_cow", "v8_mor"])
def test_indexes_that_cannot_be_built_are_refused_by_name(name, table):
    path = table(name)
    with pytest.raises(UnsupportedFeature, match="expr_index_idx_ts, secondary_index_idx_rider"):
        upgrade_table(address_of(path))
    assert lakedex.open(str(path)).snapshot.config.version == 8
    assert not (path / STATE_PATH).exists()


@pytest.mark.parametrize(
    ("action", "advice"),
    [
        (Action.COMPACTION, "finish it first"),
        (Action.DELTACOMMIT, "roll it back with Hudi"),
        (Action.CLEAN, "roll it back with Hudi"),
    ],
)
def test_pending_instants_are_refused(table, action, advice):
    path = table("v6_cow")
    storage = address_of(path).open()
    config = lakedex.open(str(path)).snapshot.config
    plan = b""
    if action is Action.COMPACTION:
        source = next(Path(table("v6_mor", "other") / ".hoodie").glob("*.compaction.requested"))
        plan = source.read_bytes()
    write_instant(storage, config, Instant("20261115200000000", action, State.REQUESTED), plan)
    with pytest.raises(CommitConflict, match=f"{action.value} 20261115200000000: .*{advice}"):
        upgrade_table(address_of(path))


def test_a_dead_write_is_rolled_back_first(table):
    path = table("v8_mor")
    before = rows_of(path)
    config = lakedex.open(str(path)).snapshot.config
    begun = "20200101000000000"
    for state in (State.REQUESTED, State.INFLIGHT):
        pending = Instant(begun, Action.DELTACOMMIT, state)
        file = write_instant(address_of(path).open(), config, pending, b"")
        os.utime(path / file, (1000.0, 1000.0))
    name = f"city=sf/99999999-0000-0000-0000-000000000000-0_0-0-0_{begun}.parquet"
    shutil.copy(next((path / "city=sf").glob("*.parquet")), path / name)
    marker = path / ".hoodie" / ".temp" / begun / f"{name}.marker.CREATE"
    marker.parent.mkdir(parents=True)
    marker.write_bytes(b"")
    os.utime(marker, (1000.0, 1000.0))
    report = upgrade_table(address_of(path), drop_indexes=True)
    assert report.rolled_back == (begun,)
    assert not (path / name).exists()
    assert_new(path, before, "v8_mor")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({keys.PAYLOAD_CLASS: "com.acme.OwnPayload"}, "merges by com.acme.OwnPayload"),
        ({keys.BOOTSTRAP_BASE_PATH: "/elsewhere"}, "bootstrapped"),
        (
            {keys.KEY_GENERATOR_CLASS: "org.apache.hudi.keygen.ComplexKeyGenerator"},
            "complex key generator",
        ),
        ({keys.KEY_GENERATOR_CLASS: "org.apache.hudi.keygen.CustomKeyGenerator"}, "custom key"),
        ({keys.KEY_GENERATOR_CLASS: "com.acme.OwnGenerator"}, "com.acme.OwnGenerator"),
        ({keys.CDC_ENABLED: "true"}, "change data capture"),
    ],
)
def test_what_would_not_come_out_whole_is_refused(table, changes, message):
    path = table("v6_cow")
    update_properties(address_of(path).open(), changes)
    with pytest.raises(UnsupportedFeature, match=message):
        upgrade_table(address_of(path))
    assert lakedex.open(str(path)).snapshot.config.version == 6


@pytest.mark.parametrize("name", ["v6_mor", "v8_mor"])
def test_killed_at_any_change_it_goes_on(name, table, tmp_path):
    template = table(name, "template")
    before = rows_of(template)
    fuse = Fuse()
    dry = tmp_path / "dry"
    shutil.copytree(template, dry)
    upgrade_table(KillingAddress(address_of(dry), fuse), drop_indexes=True)
    # The first change is the lock, the last gives it back; a sample, as there are many.
    for number in range(2, fuse.count, KILL_STEP):
        path = tmp_path / f"k{number}"
        shutil.copytree(template, path)
        blown = Fuse(number, after=number % 2 == 0)
        with pytest.raises(Killed):
            upgrade_table(KillingAddress(address_of(path), blown), drop_indexes=True)
        assert rows_of(path).equals(before), number
        (path / ".hoodie" / "lock").unlink(missing_ok=True)
        upgrade_table(address_of(path), drop_indexes=True)
        opened = lakedex.open(str(path))
        assert opened.snapshot.config.version == 9
        assert rows_of(path).equals(before), number
    assert_new(path, before, name)


def test_the_command_says_what_it_did(table):
    path = table("v6_mor")
    runner = CliRunner()
    done = runner.invoke(app, ["upgrade", str(path), "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert (answer["from_version"], answer["to_version"], answer["compacted"]) == (6, 9, 1)
    done = runner.invoke(app, ["upgrade", str(path)])
    assert "version 9 already" in done.stdout
    refused = runner.invoke(app, ["upgrade", str(table("v8_cow", "other"))])
    assert refused.exit_code == 2
