"""CREATE INDEX without Spark: what is refused, what a failure leaves, and how it is dropped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex.config.write_option_names import GLOBAL_RECORD_INDEX
from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.indexing.claims import give_up, start_build
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant, State, update_properties, write_instant
from lakedex.write.verbs import TableWriter
from tests.support.killing import changes_of, finish_killed
from tests.support.secondary import Trips, pairs

NO_RECORD_INDEX = {"hoodie.index.type": "SIMPLE"}
BUILD_BOTH = {"hoodie.metadata.global.record.level.index.enable": "true"}
SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("ts", pa.int64()),
        ("rider", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("city", pa.string()),
    ]
)
ROWS = [(f"k{n}", 1, f"r{n % 3}", [], "oslo" if n % 2 else "rio") for n in range(9)]


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Trips:
    made = Trips(tmp_path_factory.mktemp("made") / "t", "mor", schema=SCHEMA)
    made.writer.insert(made.rows(*ROWS))
    return made


@pytest.fixture
def trips(template, tmp_path) -> Trips:
    return template.copied(tmp_path / "t")


def files_of(path: str) -> dict[str, bytes]:
    """All files of a table, help files of locks aside."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in Path(path).rglob("*")
        if file.is_file() and "lock" not in file.name
    }


@pytest.mark.parametrize(
    ("name", "columns", "options", "error", "message"),
    [
        ("idx", "nothing", {}, InvalidInput, "no column 'nothing'"),
        ("idx", "tags", {}, InvalidInput, "cannot have a secondary index"),
        ("idx", "_hoodie_record_key", {}, InvalidInput, "meta column"),
        ("idx-a", "rider", {}, InvalidInput, "no name for an index"),
        ("../idx", "rider", {}, InvalidInput, "no name for an index"),
        ("", "rider", {}, InvalidInput, "no name for an index"),
        ("i" * 101, "rider", {}, InvalidInput, "no name for an index"),
        ("secondary_index_a", "rider", {}, InvalidInput, "means something else"),
        ("idx", "rider", {"using": "hash"}, UnsupportedFeature, "of kind 'hash'"),
        ("idx", "nothing", {"wait": False}, InvalidInput, "no column .nothing."),
        ("idx", "rider", {"options": {"expr": "rand"}}, UnsupportedFeature, "function .rand."),
        ("idx", "rider", {"options": {"hoodie.nonsense": "1"}}, InvalidInput, "hoodie.nonsense"),
    ],
)
def test_what_is_wrong_is_told_and_leaves_the_table_as_it_was(
    template, name, columns, options, error, message
):
    before = files_of(template.path)
    with pytest.raises(error, match=message):
        create_index(template.writer, name, columns, **options)
    assert files_of(template.path) == before


# case B17: secondary index without record index
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("wait", [True, False], ids=["inline", "background"])
def test_the_record_index_that_a_secondary_index_needs_is_built_with_it(tmp_path, kind, wait):
    trips = without_record_index(tmp_path / "t", kind)
    before = trips.table().snapshot
    made = create_index(trips.writer, "idx_rider", "rider", wait=wait)
    if not wait:
        assert made.wait()
    assert {*made.indexes} == {"record_index", "secondary_index_idx_rider"}
    if wait:
        assert "built record_index, secondary_index_idx_rider" in str(made)
        assert len(trips.table().timeline.completed()) == len(before.timeline.completed()) + 1
    assert trips.found("rider = 'r1'") == ["k1", "k4", "k7"]
    assert len(trips.table().explain("uuid = 'k1'").files) == 1
    report = trips.table().explain("rider = 'r1' and uuid = 'k1'")
    assert len(report.files) == 1, report
    trips.writer.upsert(trips.rows(("k1", 2, "new", [], "oslo"), ("k9", 2, "r1", [], "oslo")))
    assert trips.found("rider = 'new'") == ["k1"]
    assert trips.found("rider = 'r1'") == ["k4", "k7", "k9"]
    trips.assert_whole()
    drop_index(trips.address, "idx_rider", trips.writer.target().patience)
    left = trips.table().snapshot.config.metadata_partitions
    assert "record_index" in left
    assert "secondary_index_idx_rider" not in left
    trips.writer.upsert(trips.rows(("k2", 3, "newer", [], "rio")))
    assert trips.found("rider = 'newer'") == ["k2"]
    trips.assert_whole()


def without_record_index(path: Path, kind: str = "cow") -> Trips:
    trips = Trips(path, kind, schema=SCHEMA, properties=NO_RECORD_INDEX)
    trips.writer.insert(trips.rows(*ROWS))
    return trips


# case B17: secondary index without record index
@pytest.mark.parametrize("wait", [True, False], ids=["inline", "background"])
@pytest.mark.parametrize("name", sorted(GLOBAL_RECORD_INDEX.names))
def test_an_option_forbids_the_record_index_and_the_error_names_the_statement(tmp_path, name, wait):
    trips = without_record_index(tmp_path / "t")
    before = files_of(trips.path)
    with pytest.raises(InvalidInput, match=r"first CREATE INDEX record_index ON trips \(uuid\)"):
        create_index(trips.writer, "idx_rider", "rider", options={name: "false"}, wait=wait)
    assert files_of(trips.path) == before
    made = create_index(trips.writer, "idx_rider", "rider", options={name: "true"}, wait=wait)
    assert wait or made.wait()
    assert trips.found("rider = 'r1'") == ["k1", "k4", "k7"]
    trips.assert_whole()


def test_a_record_index_in_the_making_is_waited_for(tmp_path):
    trips = without_record_index(tmp_path / "t")
    claim = start_build(trips.writer, BUILD_BOTH)
    try:
        for wait in (True, False):
            with pytest.raises(InvalidInput, match="being built; wait"):
                create_index(trips.writer, "idx_rider", "rider", wait=wait)
    finally:
        give_up(claim)
    trips.index("rider")
    trips.assert_whole()


@pytest.mark.parametrize("has_record_index", [True, False])
def test_the_record_key_gets_no_secondary_index(template, tmp_path, has_record_index):
    trips = template.copied(tmp_path / "t") if has_record_index else None
    trips = trips or without_record_index(tmp_path / "t")
    before = files_of(trips.path)
    advice = "has record_index" if has_record_index else r"INDEX record_index ON trips \(uuid\)"
    for wait in (True, False):
        with pytest.raises(InvalidInput, match=f"record key of table trips.*{advice}"):
            create_index(trips.writer, "my_key", "UUID", wait=wait)
    assert files_of(trips.path) == before


def test_an_index_of_each_partition_is_not_enough(tmp_path):
    properties = {
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "hoodie.metadata.record.level.index.enable": "true",
    }
    trips = Trips(tmp_path / "t", "cow", schema=SCHEMA, properties=properties)
    trips.writer.insert(trips.rows(*ROWS))
    with pytest.raises(InvalidInput, match="over the whole table"):
        trips.index("rider")


# cases B41, B42: CREATE INDEX after a failure; second index of the same kind
def test_the_same_name_twice(trips):
    trips.index("rider")
    with pytest.raises(InvalidInput, match="has the index secondary_index_idx_rider already"):
        trips.index("city", "idx_rider")
    before = files_of(trips.path)
    assert create_index(trips.writer, "idx_rider", "city", if_missing=True) is None
    assert files_of(trips.path) == before
    trips.index("CITY", "idx_city")
    assert trips.table().snapshot.definitions["secondary_index_idx_city"].source_fields == ("city",)


def test_definitions_properties_and_groups_are_those_of_hudi(trips, golden):
    trips.index("rider")
    theirs = golden("two_secondary_mor").path
    name = "secondary_index_idx_rider"
    own, other = (
        json.loads((Path(path) / ".hoodie/.index_defs/index.json").read_bytes())
        for path in (trips.path, theirs)
    )
    assert own["indexDefinitions"][name] == other["indexDefinitions"][name]
    raw = trips.table().snapshot.config.raw
    listed = raw["hoodie.table.metadata.partitions"].split(",")
    assert listed == sorted(listed)
    assert name in listed
    assert raw["hoodie.table.metadata.partitions.inflight"] == ""
    ids = [group.file_id for group in trips.table().snapshot.metadata.groups(name)]
    assert ids == ["secondary-index-idx-rider-0000-0", "secondary-index-idx-rider-0001-0"]
    records = trips.table().metadata(name)
    golden_records = lakedex.open(theirs).metadata(name)
    assert records.schema == golden_records.schema
    assert set(records["type"].to_pylist()) == {7}


def test_an_empty_table_can_be_indexed(tmp_path):
    trips = Trips(tmp_path / "t", "mor", schema=SCHEMA)
    trips.index("rider")
    assert trips.entries("rider") == []
    trips.writer.insert(trips.rows(*ROWS))
    trips.writer.upsert(trips.rows(("k1", 2, "new", [], "oslo")))
    assert trips.found("rider in ('new', 'r1')") == ["k1", "k4", "k7"]
    trips.assert_whole()


# case B62: index dropped by an INSERT
def test_dropped_indexes_are_gone_and_the_record_index_is_needed(trips):
    trips.index("rider")
    patience = trips.writer.target().patience
    with pytest.raises(InvalidInput, match="need the record index"):
        drop_index(trips.address, "record_index", patience)
    trips.writer.insert(trips.rows(("n1", 1, "new", [], "oslo")))
    assert "record_index" in trips.table().snapshot.config.metadata_partitions
    drop_index(trips.address, "idx_rider", patience)
    snapshot = trips.table().snapshot
    assert "secondary_index_idx_rider" not in snapshot.config.metadata_partitions
    assert "secondary_index_idx_rider" not in snapshot.definitions
    assert not (Path(trips.path) / ".hoodie/metadata/secondary_index_idx_rider").exists()
    with pytest.raises(InvalidInput, match="no index 'idx_rider'"):
        drop_index(trips.address, "idx_rider", patience)
    trips.index("rider")
    assert trips.found("rider = 'new'") == ["n1"]
    trips.assert_whole()


def test_a_script_of_hudi_drops_what_an_index_needs_before_the_index(tmp_path):
    trips = Trips(tmp_path / "t", properties={"hoodie.metadata.record.index.enable": "true"})
    trips.writer.insert(trips.rows(("k1", 1, "r1", "oslo")))
    trips.index("rider")
    patience = trips.writer.target().patience
    for name in ("record_index", "idx_rider", "column_stats", "partition_stats"):
        drop_index(trips.address, name, patience, with_dependents=True)
    snapshot = trips.table().snapshot
    assert snapshot.config.metadata_partitions == ("files",)
    assert not snapshot.definitions
    with pytest.raises(InvalidInput, match="no index 'bloom_filters'"):
        drop_index(trips.address, "bloom_filters", patience, with_dependents=True)
    trips.writer.insert(trips.rows(("k2", 1, "r2", "oslo")))
    assert trips.found("rider = 'r2'") == ["k2"]
    trips.assert_whole()


def test_refreshing_builds_anew(trips):
    with pytest.raises(InvalidInput, match="no index 'idx_rider'"):
        refresh_index(trips.writer, "idx_rider")
    trips.index("rider")
    refresh_index(trips.writer, "idx_rider")
    assert trips.entries("rider") == pairs({row[0]: row[2] for row in ROWS})
    refresh_index(trips.writer, "record_index")
    trips.assert_whole()


INFLIGHT = "hoodie.table.metadata.partitions.inflight"


# cases B40, B43: rollback of a running writer; index with a pending instant
def test_an_index_that_another_engine_builds_is_left_to_it(trips):
    storage = trips.address.open()
    update_properties(storage, {INFLIGHT: "secondary_index_idx_rider"})
    pending = Instant("20250101000000000", Action.INDEXING, State.REQUESTED)
    write_instant(storage, trips.table().snapshot.config, pending, b"")
    with pytest.raises(InvalidInput, match="idx_rider of table trips is being built already"):
        trips.index("city", "idx_rider")
    with pytest.raises(UnsupportedFeature, match="while another engine builds"):
        trips.writer.upsert(trips.rows(("k1", 2, "new", [], "oslo")))
    assert trips.found("rider = 'r1'") == ["k1", "k4", "k7"]


# cases B41, B66: CREATE INDEX after a failure; leftovers of a failed CREATE INDEX
def test_what_a_failed_statement_of_another_engine_left_is_no_index(trips):
    name = "secondary_index_idx_rider"
    update_properties(trips.address.open(), {INFLIGHT: name})
    folder = Path(trips.path) / ".hoodie/metadata" / name
    folder.mkdir()
    (folder / ".secondary-index-idx-rider-0000-0_00000000000000009.log.1_0-0-0").write_bytes(b"x")
    trips.index("rider")
    assert trips.table().snapshot.config.metadata_partitions_inflight == ()
    assert trips.found("rider = 'r1'") == ["k1", "k4", "k7"]
    trips.assert_whole()


class Failing(LocalEngine):
    """Breaks when a piece of work with some text in its label is asked for."""

    def __init__(self, text: str) -> None:
        super().__init__(1)
        self._text = text

    def map(self, label, worker, tasks):
        answers = super().map(label, worker, tasks)
        if self._text in label:
            raise LakedexError("the cluster is gone")
        return answers


# case B66: leftovers of a failed CREATE INDEX
@pytest.mark.parametrize("has_record_index", [True, False])
@pytest.mark.parametrize("text", ["read the data", "build the index"])
def test_a_build_that_fails_leaves_no_trace(template, tmp_path, text, has_record_index):
    trips = template.copied(tmp_path / "t") if has_record_index else None
    trips = trips or without_record_index(tmp_path / "t", "mor")
    before = files_of(trips.path)
    with pytest.raises(LakedexError, match="the cluster is gone"):
        create_index(TableWriter(trips.address, Failing(text)), "idx_rider", "rider")
    after = files_of(trips.path)
    changed = {name for name in after.keys() | before.keys() if before.get(name) != after.get(name)}
    assert all(".hoodie/timeline/" in f"/{name}" for name in changed), changed
    assert not [name for name in after if "secondary_index" in name]
    assert has_record_index or not [name for name in after if "record_index" in name]
    failing = TableWriter(trips.address, Failing(text))
    with pytest.raises(LakedexError, match="the cluster is gone"):
        create_index(failing, "idx_rider", "rider", wait=False).wait()
    after = files_of(trips.path)
    assert not [name for name in after if "secondary_index" in name]
    assert has_record_index or not [name for name in after if "record_index" in name]
    trips.index("rider")
    trips.assert_whole()


def make_index(path: str) -> None:
    """A job for a process of its own."""
    writer = TableWriter(StorageAddress.of(path), LocalEngine(1))
    create_index(writer, "idx_rider", "rider")


# cases B39, B41, B66
def test_a_build_that_is_killed_is_whole_or_leaves_no_trace_after_the_next_write(trips, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(trips.path, copy)
    changes = changes_of(make_index, str(copy), result=tmp_path / "seen")
    texts = ("secondary_index_idx_rider", "index.json", "hoodie.properties", "deltacommit")
    points = [at for at, change in enumerate(changes) if any(text in change for text in texts)]
    first, last = points[0], points[-1]
    chosen = sorted({*range(first, last, max(1, (last - first) // 4)), last})
    for number, point in enumerate(chosen):
        where = f"{number}: {changes[point]}"
        killed = trips.copied(tmp_path / f"killed-{point}")
        after = number % 2 == 0
        finish_killed(make_index, killed.path, at=point, after=after, result=tmp_path / "end")
        assert killed.found("rider = 'r1'") == ["k1", "k4", "k7"], where
        killed.writer.upsert(killed.rows(("k1", 2, "new", [], "oslo")))
        assert killed.found("rider in ('new', 'r1')") == ["k1", "k4", "k7"], where
        killed.assert_whole()
        snapshot = Snapshot.open(killed.address.open())
        name = "secondary_index_idx_rider"
        is_live = name in snapshot.config.metadata_partitions
        folder = Path(killed.path) / ".hoodie/metadata" / name
        assert is_live == (name in snapshot.definitions) == folder.exists(), where
        create_index(killed.writer, "idx_rider", "rider", if_missing=True)
        assert killed.entries("rider") == pairs(
            {row[0]: "new" if row[0] == "k1" else row[2] for row in ROWS}
        ), where
