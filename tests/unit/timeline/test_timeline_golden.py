"""Timelines of real tables: every file is understood, and goes out as it came in."""

from __future__ import annotations

import io
from pathlib import Path

import fastavro
import pytest

from lakedex.errors import InvalidInput
from lakedex.storage.local import LocalStorage
from lakedex.timeline import (
    Action,
    CompactionPlan,
    PlanKind,
    RequestedReplace,
    State,
    Timeline,
    decode_commit_metadata,
    encode_commit_metadata,
    file_name,
    load_table_config,
    parse_instant_file,
    read_plan,
    write_plan,
)
from lakedex.timeline.container import is_container

GOLDEN = sorted(path.stem for path in (Path(__file__).parents[2] / "golden").glob("*.zip"))
PLANS = {
    (Action.CLEAN, State.REQUESTED): PlanKind.CLEANER_PLAN,
    (Action.CLEAN, State.COMPLETED): PlanKind.CLEAN_METADATA,
    (Action.ROLLBACK, State.REQUESTED): PlanKind.ROLLBACK_PLAN,
    (Action.ROLLBACK, State.COMPLETED): PlanKind.ROLLBACK_METADATA,
    (Action.INDEXING, State.REQUESTED): PlanKind.INDEX_PLAN,
    (Action.INDEXING, State.COMPLETED): PlanKind.INDEX_COMMIT_METADATA,
    (Action.COMPACTION, State.REQUESTED): PlanKind.COMPACTION_PLAN,
    (Action.LOGCOMPACTION, State.REQUESTED): PlanKind.COMPACTION_PLAN,
    (Action.CLUSTERING, State.REQUESTED): PlanKind.REQUESTED_REPLACE,
    (Action.REPLACECOMMIT, State.REQUESTED): PlanKind.REQUESTED_REPLACE,
}


def open_timeline(path):
    storage = LocalStorage(str(path))
    return Timeline.load(storage, load_table_config(storage))


def tables(golden, name):
    """The table and its metadata table."""
    path = Path(golden(name).path)
    return [open_timeline(path), open_timeline(path / ".hoodie/metadata")]


@pytest.mark.parametrize("name", GOLDEN)
def test_every_file_name_is_understood(golden, name):
    table = golden(name)
    layout = 1 if table.expected["table_version"] == "6" else 2
    for entry in table.expected["timeline"]:
        instant = parse_instant_file(entry["file"], layout)
        assert instant is not None
        assert instant.requested_time == entry["instant"]
        assert instant.completion_time == entry["completion"]
        assert instant.action.value == entry["action"]
        assert instant.state.name.lower() == entry["state"]
        assert file_name(instant, layout) == entry["file"]


@pytest.mark.parametrize("name", GOLDEN)
def test_completed_instants_are_those_that_hudi_lists(golden, name):
    table = golden(name)
    timeline = open_timeline(table.path)
    listed = {
        (entry["instant"], entry["action"], entry["completion"])
        for entry in table.expected["timeline"]
        if entry["state"] == "completed"
    }
    found = {(i.requested_time, i.action.value, i.completion_time) for i in timeline.completed()}
    assert found == listed
    assert timeline.pending() == ()
    times = {entry["instant"] for entry in table.expected["timeline"]}
    assert {i.requested_time for i in timeline.instants} == times
    last = timeline.last_completed
    assert last is not None
    writes = {"commit", "deltacommit", "replacecommit"}
    assert last.requested_time == max(time for time, action, _ in listed if action in writes)


@pytest.mark.parametrize("name", GOLDEN)
def test_every_instant_file_decodes_and_survives_a_round_trip(golden, name):
    for timeline in tables(golden, name):
        storage, config = timeline.storage, timeline.config
        for info in storage.list(config.timeline_folder):
            file = info.path.rpartition("/")[2]
            instant = parse_instant_file(file, config.timeline_layout)
            data = storage.read(info.path)
            if instant is None or not data:
                assert instant is None or instant.state is not State.COMPLETED
                continue
            kind = PLANS.get((instant.action, instant.state))
            if kind is None:
                check_commit_metadata(data, instant.action, info.path)
            else:
                check_plan(data, kind, info.path)


def check_commit_metadata(data, action, path):
    metadata = decode_commit_metadata(data, path=path)
    again = encode_commit_metadata(metadata, action=action)
    assert decode_commit_metadata(again, path=path) == metadata
    reader = fastavro.reader(io.BytesIO(again))
    assert set(reader.metadata) == {"avro.schema"}
    (theirs,) = reader
    if is_container(data):
        assert theirs == next(fastavro.reader(io.BytesIO(data)))


def check_plan(data, kind, path):
    record = read_plan(kind, data, path=path)
    again = write_plan(kind, record)
    assert read_plan(kind, again, path=path) == record
    (ours,) = fastavro.reader(io.BytesIO(again))
    (theirs,) = fastavro.reader(io.BytesIO(data))
    assert {name: ours[name] for name in theirs} == theirs
    if kind is PlanKind.COMPACTION_PLAN:
        plan = CompactionPlan.decode(data, path=path)
        assert plan.operations
        assert CompactionPlan.decode(plan.encode(), path=path) == plan
    if kind is PlanKind.REQUESTED_REPLACE:
        request = RequestedReplace.decode(data, path=path)
        assert request.clustering is not None
        assert RequestedReplace.decode(request.encode(), path=path) == request
        names = [entry.data_file for group in request.clustering.groups for entry in group.slices]
        assert all(name is None or "/" not in name for name in names)


@pytest.mark.parametrize("name", GOLDEN)
def test_files_of_commits_exist_or_were_cleaned(golden, name):
    table = golden(name)
    timeline = open_timeline(table.path)
    listed = set(table.expected["files"])
    schemas = 0
    for instant in timeline.write_instants():
        metadata = timeline.commit_metadata(instant)
        schemas += metadata.schema_text is not None
        for stat in metadata.stats():
            assert stat.path
            assert timeline.is_committed_write(instant.requested_time)
            if stat.path in listed:
                size = (Path(table.path) / stat.path).stat().st_size
                assert size == stat.file_size_bytes
    assert schemas
    last = timeline.last_completed
    assert last is not None
    assert all(stat.path in listed for stat in timeline.commit_metadata(last).stats())


def test_compaction_shows_as_commit_with_its_plan(golden):
    timeline = open_timeline(golden("v8_mor").path)
    (commit,) = [i for i in timeline.completed() if i.action is Action.COMMIT]
    assert timeline.requested_action(commit.requested_time) is Action.COMPACTION
    assert timeline.compaction_plan(commit.requested_time).operations
    metadata = timeline.commit_metadata(commit)
    assert metadata.compacted
    assert metadata.operation_type == "COMPACT"


@pytest.mark.parametrize("name", ["clustered", "bucket_consistent_split"])
def test_clustering_replaces_the_groups_of_its_plan(golden, name):
    timeline = open_timeline(golden(name).path)
    (replace,) = [i for i in timeline.completed() if i.action is Action.REPLACECOMMIT]
    assert timeline.requested_action(replace.requested_time) is Action.CLUSTERING
    plan = timeline.requested_replace(replace.requested_time).clustering
    assert plan is not None
    planned = {s.file_id for group in plan.groups for s in group.slices}
    replaced = timeline.replaced_file_ids()
    assert {file_id for ids in replaced.values() for file_id in ids} == planned
    before = timeline.as_of(str(int(replace.requested_time) - 1))
    assert before.replaced_file_ids() == {}


def test_v6_metadata_table_instants_are_committed(golden):
    timeline = open_timeline(Path(golden("v6_mor").path) / ".hoodie/metadata")
    assert timeline.is_committed_write("00000000000000010")
    assert timeline.first_active is not None
    assert timeline.first_active.requested_time == "00000000000000010"


def test_commit_metadata_of_another_action_is_refused(golden):
    timeline = open_timeline(golden("archived").path)
    (clean, *_) = [i for i in timeline.completed() if i.action is Action.CLEAN]
    with pytest.raises(InvalidInput, match=clean.requested_time):
        timeline.commit_metadata(clean)
