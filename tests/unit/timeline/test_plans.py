"""Plans and outcomes: every kind can be written and read, and nothing else gets through."""

from __future__ import annotations

import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile, InvalidInput, LakedexError, UnsafePath
from lakedex.timeline import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    CompactionOperation,
    CompactionPlan,
    PlanKind,
    RequestedReplace,
    read_plan,
    write_plan,
)
from lakedex.timeline.container import MAGIC

T = "20261115183054119"
INFO = {"commitTime": T, "action": "commit"}
ROLLBACK = {
    "startRollbackTime": T,
    "timeTakenInMillis": 5,
    "totalFilesDeleted": 1,
    "commitsRollback": [T],
    "partitionMetadata": {
        "p": {
            "partitionPath": "p",
            "successDeleteFiles": ["a"],
            "failedDeleteFiles": [],
            "rollbackLogFiles": {"l": 3},
            "logFilesFromFailedCommit": None,
        }
    },
    "version": 1,
    "instantsRollback": [INFO],
}
RECORDS = {
    PlanKind.COMPACTION_PLAN: {},
    PlanKind.REQUESTED_REPLACE: {"operationType": "DELETE_PARTITION", "extraMetadata": {}},
    PlanKind.CLEANER_PLAN: {
        "policy": "KEEP_LATEST_COMMITS",
        "earliestInstantToRetain": {"timestamp": T, "action": "commit", "state": "COMPLETED"},
        "filePathsToBeDeletedPerPartition": {"p": [{"filePath": "file:/x/p/a"}]},
    },
    PlanKind.CLEAN_METADATA: {
        "startCleanTime": T,
        "timeTakenInMillis": 5,
        "totalFilesDeleted": 1,
        "earliestCommitToRetain": T,
        "partitionMetadata": {},
    },
    PlanKind.ROLLBACK_PLAN: {"instantToRollback": INFO, "RollbackRequests": []},
    PlanKind.ROLLBACK_METADATA: ROLLBACK,
    PlanKind.RESTORE_PLAN: {"instantsToRollback": [INFO], "savepointToRestoreTimestamp": T},
    PlanKind.RESTORE_METADATA: {
        "startRestoreTime": T,
        "timeTakenInMillis": 5,
        "instantsToRollback": [T],
        "hoodieRestoreMetadata": {T: [ROLLBACK]},
        "restoreInstantInfo": [INFO],
    },
    PlanKind.SAVEPOINT_METADATA: {
        "savepointedBy": "me",
        "savepointedAt": 1794767405287,
        "comments": "",
        "partitionMetadata": {"p": {"partitionPath": "p", "savepointDataFile": ["a"]}},
    },
    PlanKind.INDEX_PLAN: {"indexPartitionInfos": [{"metadataPartitionPath": "record_index"}]},
    PlanKind.INDEX_COMMIT_METADATA: {"operationType": "INDEX"},
}


@pytest.mark.parametrize("kind", PlanKind)
def test_every_kind_survives_a_round_trip_with_its_defaults(kind):
    data = write_plan(kind, RECORDS[kind])
    record = read_plan(kind, data)
    assert record["version"] == (2 if kind is PlanKind.RESTORE_PLAN else 1)
    assert write_plan(kind, record) == data
    assert list(fastavro.reader(io.BytesIO(data))) == [record]
    for name, value in RECORDS[kind].items():
        assert isinstance(record[name], type(value))


def test_a_record_of_another_kind_is_corrupt():
    data = write_plan(PlanKind.INDEX_PLAN, {})
    with pytest.raises(CorruptFile, match="HoodieCleanerPlan"):
        read_plan(PlanKind.CLEANER_PLAN, data, path="x")


def test_an_empty_rollback_plan_is_corrupt_not_silent():  # case B38: unreadable plan
    with pytest.raises(CorruptFile, match="no bytes"):
        read_plan(PlanKind.ROLLBACK_PLAN, b"", path="x")


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        (PlanKind.CLEAN_METADATA, {}),
        (PlanKind.INDEX_PLAN, {"version": "one"}),
        (PlanKind.INDEX_PLAN, {"indexPartitionInfos": 5}),
        (PlanKind.RESTORE_PLAN, {"instantsToRollback": [{}]}),
    ],
)
def test_records_that_do_not_fit_are_not_written(kind, record):
    with pytest.raises(InvalidInput, match=kind.value):
        write_plan(kind, record)


def test_a_compaction_plan_survives_a_round_trip():
    operation = CompactionOperation("f-0", "p=1", T, "f-0_0-0-0_1.parquet", (".f-0_1.log.1_0-0-0",))
    plan = CompactionPlan((operation,), extra={"a": "b"}, missing_partitions=("q",))
    assert CompactionPlan.decode(plan.encode(), path="x") == plan


def test_a_clustering_plan_survives_a_round_trip():
    entry = ClusteringSlice("f-0", "p=1", "file:/t/p=1/f.parquet", ("file:/t/p=1/.f.log.1",))
    plan = ClusteringPlan((ClusteringGroup((entry,), 2, {"M": 1.5}),), "x.Strategy", {"a": "b"})
    request = RequestedReplace("CLUSTER", plan)
    again = RequestedReplace.decode(request.encode(), path="x")
    assert again == request
    assert again.clustering is not None
    found = again.clustering.groups[0].slices[0]
    assert (found.data_file, found.log_files) == ("f.parquet", (".f.log.1",))


def test_an_empty_replace_request_has_no_plan():
    assert RequestedReplace.decode(b"", path="x").clustering is None


@pytest.mark.parametrize(
    "entry",
    [
        {"partitionPath": "../p", "fileId": "f", "baseInstantTime": T},
        {"dataFilePath": "..", "fileId": "f", "baseInstantTime": T},
        {"deltaFilePaths": ["a/.."], "fileId": "f", "baseInstantTime": T},
        {"deltaFilePaths": [""], "fileId": "f", "baseInstantTime": T},
    ],
)
def test_compaction_plans_cannot_name_places_outside(entry):
    data = write_plan(PlanKind.COMPACTION_PLAN, {"operations": [entry]})
    with pytest.raises(UnsafePath):
        CompactionPlan.decode(data, path="x")


@given(st.sampled_from(PlanKind), st.binary(max_size=200), st.data())
def test_damaged_plans_give_a_result_or_our_error(kind, noise, data):
    original = bytearray(write_plan(kind, RECORDS[kind]))
    at = data.draw(st.integers(0, len(original) - 1))
    original[at : at + len(noise)] = noise
    for damaged in (bytes(original), MAGIC + noise):
        try:
            read_plan(kind, damaged, path="x")
        except LakedexError:
            continue
