"""Indexes that another engine dropped: who did it is told, and they are built again on request."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lakedex.config import keys
from lakedex.errors import InvalidInput
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.timeline import load_table_config
from lakedex.timeline.properties_file import update_properties
from tests.support.secondary import Trips

ROWS = tuple((f"k{n}", 1, f"r{n % 3}", "oslo") for n in range(6))
FIND_BY_SCAN = {"hoodie.index.type": "GLOBAL_SIMPLE"}
SECONDARY = "secondary_index_idx_rider"


def drop_as_hudi_does(trips: Trips, *names: str) -> None:
    """The partition and its name in the properties go; the definition stays (case B62)."""
    storage = trips.address.open()
    left = [each for each in load_table_config(storage).metadata_partitions if each not in names]
    for name in names:
        shutil.rmtree(Path(trips.path) / ".hoodie/metadata" / name)
    update_properties(storage, {keys.METADATA_PARTITIONS: ",".join(left)})


@pytest.fixture
def trips(tmp_path) -> Trips:
    """A table that does not need its record index for writing."""
    made = Trips(tmp_path / "t", "mor", properties=FIND_BY_SCAN)
    made.writer.insert(made.rows(*ROWS))
    create_index(made.writer, "record_index", "uuid")
    made.index("rider")
    made.writer.upsert(made.rows(("k1", 2, "r7", "oslo"), ("k6", 1, "r6", "oslo")))
    return made


def write_without_index(trips: Trips, *rows: tuple[object, ...]) -> str:
    off = {"hoodie.metadata.global.record.level.index.enable": "false"}
    result = trips.writer.with_options(off).upsert(trips.rows(*rows))
    assert result.instant is not None
    return result.instant


def state(trips: Trips, name: str) -> tuple[str, str]:
    found = next(each for each in trips.table().indexes() if each.name == name)
    return found.state, found.problem or ""


# case B62: index dropped by an INSERT
def test_the_write_that_dropped_an_index_is_named(trips):
    drop_as_hudi_does(trips, SECONDARY, "record_index")
    assert state(trips, SECONDARY)[1].startswith("another engine dropped it after 2")
    instant = write_without_index(trips, ("k8", 1, "r1", "oslo"))
    write_without_index(trips, ("k9", 1, "r1", "oslo"))
    for name in ("record_index", SECONDARY):
        said, problem = state(trips, name)
        assert said == "dropped"
        assert problem.startswith(f"another engine dropped it with the write {instant}; REFRESH")
    report = trips.table().explain("rider = 'r1'")
    steps = {step.index: step for step in report.steps if not step.used}
    assert instant in steps[SECONDARY].reason
    assert instant in str(report)
    assert trips.found("rider = 'r1'") == ["k4", "k8", "k9"]


def test_of_writes_that_tell_no_index_anything_none_is_blamed_alone(trips):
    drop_as_hudi_does(trips, SECONDARY, "record_index")
    first = write_without_index(trips, ("k1", 3, "r7", "oslo"))
    last = write_without_index(trips, ("k9", 1, "r1", "oslo"))
    _, problem = state(trips, "record_index")
    assert problem.startswith(f"another engine dropped it with one of the writes {first} to {last}")


def test_an_index_that_never_was_is_not_called_dropped(trips):
    # case B66: leftovers of a failed CREATE INDEX of another engine
    path = Path(trips.path) / ".hoodie/.index_defs/index.json"
    text = path.read_text()
    entry = json.loads(text)
    made = entry["indexDefinitions"]
    made["secondary_index_never"] = made[SECONDARY] | {"indexName": "secondary_index_never"}
    path.write_text(json.dumps(entry))
    assert state(trips, "secondary_index_never") == ("defined", "")


# case B62: index dropped by an INSERT
@pytest.mark.parametrize("again", ["create", "refresh"])
def test_dropped_indexes_are_built_again_on_request(trips, again):
    drop_as_hudi_does(trips, SECONDARY, "record_index")
    write_without_index(trips, ("k8", 1, "r1", "oslo"), ("k1", 9, "r1", "oslo"))
    if again == "create":
        create_index(trips.writer, "record_index", "uuid")
        trips.index("rider")
    else:
        with pytest.raises(InvalidInput, match="needs a record index"):
            refresh_index(trips.writer, "idx_rider")
        refresh_index(trips.writer, "record_index")
        refresh_index(trips.writer, "idx_rider")
    assert state(trips, "record_index") == state(trips, SECONDARY) == ("live", "")
    assert trips.found("rider = 'r1'") == ["k1", "k4", "k8"]
    trips.writer.upsert(trips.rows(("k8", 5, "r2", "oslo")))
    trips.assert_whole()
    trips.entries("rider")


def test_what_is_left_of_a_dropped_index_can_be_dropped(trips):
    drop_as_hudi_does(trips, SECONDARY)
    drop_index(trips.address, "idx_rider", trips.writer.target().patience)
    table = trips.table()
    assert SECONDARY not in {*table.snapshot.definitions, *(each.name for each in table.indexes())}
    with pytest.raises(InvalidInput, match="has no index"):
        drop_index(trips.address, "idx_rider", trips.writer.target().patience)
    trips.index("rider")
    trips.assert_whole()


def test_a_name_that_nobody_knows_is_refused_as_before(trips):
    with pytest.raises(InvalidInput, match="no index 'idx_city'"):
        refresh_index(trips.writer, "idx_city")
