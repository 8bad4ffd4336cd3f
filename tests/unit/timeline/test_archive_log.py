"""The archive of layout 1, made with our own log writer in the form that Hudi 0.15 has."""

from __future__ import annotations

import io
import json
import struct

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.config import TableConfig
from lakedex.errors import CorruptFile, LakedexError
from lakedex.format.logfile import BlockKind, HeaderKey, encode_block
from lakedex.storage.local import LocalStorage
from lakedex.timeline import (
    Action,
    ArchivedTimeline,
    CompactionPlan,
    PlanKind,
    Timeline,
    decode_commit_metadata,
    read_plan,
)
from lakedex.timeline.container import known_schema_text

CONFIG = TableConfig.from_properties(
    {
        "hoodie.table.name": "t",
        "hoodie.table.version": "6",
        "hoodie.table.timeline.timezone": "UTC",
    },
    "p",
)
FIRST = ".hoodie/archived/.commits_.archive.1_1-0-1"
KINDS = {
    "hoodieCommitMetadata": "HoodieCommitMetadata",
    "hoodieCleanMetadata": "HoodieCleanMetadata",
    "hoodieCompactionPlan": "HoodieCompactionPlan",
    "hoodieCleanerPlan": "HoodieCleanerPlan",
}


def day(number: int) -> str:
    return f"202611{number:02d}120000000"


def entry_schema():
    text = {"type": "string", "avro.java.string": "String"}
    names = ("commitTime", "actionType", "actionState", "stateTransitionTime")
    fields = [{"name": name, "type": ["null", text], "default": None} for name in names]
    fields += [
        {"name": field, "type": ["null", json.loads(known_schema_text(name))], "default": None}
        for field, name in KINDS.items()
    ]
    return {
        "type": "record",
        "name": "HoodieArchivedMetaEntry",
        "namespace": "org.apache.hudi.avro.model",
        "fields": fields,
    }


def content(entries, schema):
    parsed = fastavro.parse_schema(schema)
    out = [struct.pack(">ii", 3, len(entries))]
    for entry in entries:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, entry)
        out.append(struct.pack(">i", len(stream.getvalue())) + stream.getvalue())
    return b"".join(out)


def block(entries):
    schema = entry_schema()
    header = {HeaderKey.SCHEMA: json.dumps(schema)}
    return encode_block(BlockKind.AVRO_DATA, header, content(entries, schema))


def states(number, action, requested=None, completed=None, completed_action=None):
    base = {"commitTime": day(number), "stateTransitionTime": day(number + 1)}
    return [
        base | {"actionType": action, "actionState": "REQUESTED"} | (requested or {}),
        base | {"actionType": action, "actionState": "INFLIGHT"},
        base
        | {"actionType": completed_action or action, "actionState": "COMPLETED"}
        | (completed or {}),
    ]


COMMIT = {"operationType": "INSERT", "partitionToWriteStats": {"p": [{"fileId": "f-0"}]}}
OPERATION = {"baseInstantTime": day(1), "fileId": "f-0", "partitionPath": "p"}
CLEAN = {
    "startCleanTime": day(5),
    "timeTakenInMillis": 1,
    "totalFilesDeleted": 0,
    "earliestCommitToRetain": day(1),
    "partitionMetadata": {},
}


@pytest.fixture
def storage(tmp_path):
    made = LocalStorage(str(tmp_path))
    first = block(states(1, "deltacommit", completed={"hoodieCommitMetadata": COMMIT}))
    first += block(
        states(
            3,
            "compaction",
            requested={"hoodieCompactionPlan": {"operations": [OPERATION]}},
            completed={"hoodieCommitMetadata": COMMIT | {"operationType": "COMPACT"}},
            completed_action="commit",
        )
    )
    second = block(
        states(
            5,
            "clean",
            requested={"hoodieCleanerPlan": {"policy": "KEEP_LATEST_COMMITS"}},
            completed={"hoodieCleanMetadata": CLEAN},
        )
        + states(7, "deltacommit")[:2]
    )
    made.create(FIRST, first)
    made.create(".hoodie/archived/.commits_.archive.10_1-0-1", second)
    made.create(".hoodie/archived/mergeArchivePlan", b"not a log")
    return made


def test_completed_instants_come_in_order_under_their_completed_action(storage):
    found = ArchivedTimeline.load(storage, CONFIG).instants()
    assert [(i.requested_time, i.action) for i in found] == [
        (day(1), Action.DELTACOMMIT),
        (day(3), Action.COMMIT),
        (day(5), Action.CLEAN),
    ]
    assert all(i.completion_time is None for i in found)


def test_metadata_and_plans_are_handed_out_as_instant_files(storage):
    archived = ArchivedTimeline.load(storage, CONFIG)
    metadata = decode_commit_metadata(archived.metadata(day(3)), path="x")
    assert metadata.operation_type == "COMPACT"
    assert [stat.file_id for stat in metadata.stats()] == ["f-0"]
    plan = CompactionPlan.decode(archived.plan(day(3)), path="x")
    assert [operation.file_id for operation in plan.operations] == ["f-0"]
    clean = read_plan(PlanKind.CLEAN_METADATA, archived.metadata(day(5)))
    assert clean["startCleanTime"] == day(5)
    assert archived.plan(day(1)) is None
    assert archived.metadata(day(9)) is None


def test_a_range_of_requested_times_is_kept(storage):
    archived = ArchivedTimeline.load(storage, CONFIG)
    assert [i.requested_time for i in archived.instants(day(2), day(4))] == [day(3)]
    assert archived.find(day(7)) is None


def test_changes_from_the_start_include_archived_writes(storage):
    storage.create(f".hoodie/{day(9)}.deltacommit", b'{"operationType": "UPSERT"}')
    timeline = Timeline.load(storage, CONFIG)
    found = timeline.between(None)
    assert [i.requested_time for i in found] == [day(1), day(3), day(9)]
    operations = [timeline.commit_metadata(i).operation_type for i in found]
    assert operations == ["INSERT", "COMPACT", "UPSERT"]
    assert [i.requested_time for i in timeline.between(day(2))] == [day(3), day(9)]
    assert timeline.is_committed_write(day(1))


def test_an_entry_without_a_state_is_completed(tmp_path):
    storage = LocalStorage(str(tmp_path))
    storage.create(FIRST, block([{"commitTime": day(1), "actionType": "commit"}]))
    archived = ArchivedTimeline.load(storage, CONFIG)
    assert [i.requested_time for i in archived.instants()] == [day(1)]
    assert archived.metadata(day(1)) is None


@pytest.mark.parametrize(
    "entry",
    [
        {"commitTime": "soon", "actionType": "commit"},
        {"commitTime": day(1), "actionType": "conquest"},
        {"actionType": "commit"},
    ],
)
def test_entries_that_are_no_instants_are_corrupt(tmp_path, entry):
    storage = LocalStorage(str(tmp_path))
    storage.create(FIRST, block([entry]))
    with pytest.raises(CorruptFile):
        ArchivedTimeline.load(storage, CONFIG).instants()


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0\3", struct.pack(">iii", 3, 1, 99), struct.pack(">ii", 3, 1 << 30)]
)
def test_blocks_that_promise_more_than_they_hold_are_corrupt(tmp_path, data):
    storage = LocalStorage(str(tmp_path))
    header = {HeaderKey.SCHEMA: json.dumps(entry_schema())}
    storage.create(FIRST, encode_block(BlockKind.AVRO_DATA, header, data))
    with pytest.raises(CorruptFile):
        ArchivedTimeline.load(storage, CONFIG).instants()


@given(st.data())
def test_damaged_archives_give_a_result_or_our_error(tmp_path_factory, data):
    original = bytearray(block(states(1, "commit", completed={"hoodieCommitMetadata": COMMIT})))
    at = data.draw(st.integers(0, len(original) - 1))
    original[at] = data.draw(st.integers(0, 255))
    storage = LocalStorage(str(tmp_path_factory.mktemp("archive")))
    storage.create(FIRST, bytes(original))
    archived = ArchivedTimeline.load(storage, CONFIG)
    try:
        for instant in archived.instants():
            archived.metadata(instant.requested_time)
    except LakedexError:
        return
