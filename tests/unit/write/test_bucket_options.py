"""The options of a bucket index: chosen once, kept by the table, and never silently others."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import InvalidInput, LakedexError
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.own_properties import read_own_properties
from lakedex.table.spec import TableSpec
from lakedex.write.verbs import TableWriter
from tests.support.buckets import assert_in_buckets, simple_bucket
from tests.support.write_lab import Lab, row, source

COUNT = "hoodie.bucket.index.num.buckets"
ENGINE = "hoodie.index.bucket.engine"
FIELDS = "hoodie.bucket.index.hash.field"
EXPRESSIONS = "hoodie.bucket.index.partition.expressions"
RULE = "hoodie.bucket.index.partition.rule.type"
MOST, LEAST = "hoodie.bucket.index.max.num.buckets", "hoodie.bucket.index.min.num.buckets"
SPLIT, MERGE = "hoodie.bucket.index.split.threshold", "hoodie.bucket.index.merge.threshold"
SCHEMA = pa.schema([("id", pa.string()), ("sub", pa.int32()), ("ver", pa.int64())])
ROWS = [row(f"k{number}", "ab"[number % 2], 1) for number in range(40)]
WRONG = [
    ({COUNT: "0"}, COUNT),
    ({COUNT: "1000000000"}, COUNT),
    ({COUNT: "four"}, COUNT),
    ({FIELDS: "ver"}, FIELDS),
    ({FIELDS: "id,nothing"}, "nothing"),
    ({ENGINE: "LINEAR"}, "EXTENDIBLE_HASHING"),
    ({ENGINE: "EXTENDIBLE_HASHING", COUNT: "6"}, "power of two"),
    ({ENGINE: "CONSISTENT_HASHING", EXPRESSIONS: "a,4"}, EXPRESSIONS),
    ({EXPRESSIONS: "a.*"}, "pattern and a number"),
    ({EXPRESSIONS: "a.*,0"}, "pattern and a number"),
    ({EXPRESSIONS: "a.*,4", RULE: "MODULO"}, "MODULO"),
    ({LEAST: "8", MOST: "4"}, MOST),
    ({SPLIT: "0.5"}, SPLIT),
    ({MERGE: "2"}, MERGE),
]


def content(path: str | Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in Path(path).rglob("*") if each.is_file()}


def kept(lab: Lab) -> dict[str, str]:
    return read_own_properties(lab.address.open())


@pytest.mark.parametrize(("options", "named"), WRONG, ids=str)
def test_wrong_values_are_refused_by_name_and_nothing_is_written(options, named, tmp_path):
    given = {"hoodie.index.type": "BUCKET", **options}
    path = tmp_path / "new"
    spec = TableSpec("t", SCHEMA, ("id", "sub"), "ver", (), "mor", given)
    with pytest.raises(LakedexError, match=named.replace(".", r"\.")):
        create_table(StorageAddress.of(str(path)).open(), spec)
    assert not content(path)


def test_a_table_without_a_record_key_has_no_buckets(tmp_path):
    spec = TableSpec("t", SCHEMA, (), "ver", (), "cow", {"hoodie.index.type": "BUCKET"})
    with pytest.raises(InvalidInput, match="record key"):
        create_table(StorageAddress.of(str(tmp_path / "new")).open(), spec)


# case B46
@pytest.mark.parametrize(
    "other",
    [
        {COUNT: "8"},
        {ENGINE: "CONSISTENT_HASHING"},
        {EXPRESSIONS: "p=a,8"},
        {"hoodie.index.type": "BLOOM"},
        {"BUCKET_INDEX_NUM_BUCKETS": "8"},
    ],
    ids=str,
)
def test_a_writer_with_other_parameters_is_refused(other, tmp_path):
    lab = Lab(tmp_path, "mor", "BUCKET", properties={COUNT: "4"})
    lab.writer.upsert(source(ROWS))
    before = content(lab.path)
    with pytest.raises(InvalidInput, match="contradicts table t"):
        TableWriter(lab.address, options=other).upsert(source(ROWS))
    assert content(lab.path) == before


def test_a_writer_with_the_same_parameters_or_none_continues(tmp_path):
    properties = {ENGINE: "consistent_hashing", "BUCKET_INDEX_NUM_BUCKETS": "4", FIELDS: "id"}
    lab = Lab(tmp_path, "cow", "BUCKET", properties=properties)
    assert kept(lab)[ENGINE] == "CONSISTENT_HASHING"
    assert kept(lab)[COUNT] == "4"
    for options in (
        {},
        {"hoodie.index.type": "bucket", COUNT: "04", ENGINE: "Consistent_Hashing"},
        {FIELDS: " id ", "BUCKET_INDEX_ENGINE": "CONSISTENT_HASHING"},
    ):
        TableWriter(lab.address, options=options).upsert(source(ROWS))
        assert len(lakedex.open(lab.path).files()) <= 8
    lab.holds(ROWS)
    assert_in_buckets(lab.path, ["id"])


def test_names_of_the_design_are_understood(tmp_path):
    properties = {"BUCKET_INDEX_ENGINE": "SIMPLE_HASHING", "BUCKET_INDEX_NUM_BUCKETS": "3"}
    lab = Lab(tmp_path, "cow", "BUCKET", properties=properties)
    lab.writer.upsert(source(ROWS))
    assert (kept(lab)[ENGINE], kept(lab)[COUNT]) == ("SIMPLE", "3")
    assert_in_buckets(lab.path, ["id"], 3)
    lab.writer.upsert(source(ROWS))
    assert len(lakedex.open(lab.path).files()) == 6


def test_an_empty_table_gets_the_bucket_index_of_its_first_writer(tmp_path):
    """As a table of Hudi's of which only the catalog knew until now."""
    lab = Lab(tmp_path, "cow")
    for name in ("lakedex.properties", ".lakedex/lakedex.properties"):
        Path(lab.path, ".hoodie", name).unlink()
    options = {"hoodie.index.type": "BUCKET", COUNT: "5"}
    TableWriter(lab.address, options=options).upsert(source(ROWS))
    lab.writer.upsert(source(ROWS))
    lab.holds(ROWS)
    assert_in_buckets(lab.path, ["id"], 5)


def test_a_table_with_another_write_index_gets_no_buckets(tmp_path):
    lab = Lab(tmp_path, "cow", "SIMPLE")
    lab.writer.upsert(source(ROWS))
    with pytest.raises(InvalidInput, match="contradicts table t, which keeps 'SIMPLE'"):
        TableWriter(lab.address, options={"hoodie.index.type": "BUCKET"}).upsert(source(ROWS))


def test_hash_fields_may_be_some_of_the_key(tmp_path):
    schema = pa.schema([("id", pa.string()), ("sub", pa.int32()), ("ver", pa.int64())])
    path = str(tmp_path / "t")
    properties = {"hoodie.index.type": "BUCKET", COUNT: "4", FIELDS: "id"}
    spec = TableSpec("t", schema, ("id", "sub"), "ver", (), "cow", properties)
    create_table(StorageAddress.of(path).open(), spec)
    rows = [{"id": f"a:{n % 9},b", "sub": n, "ver": 1} for n in range(60)]
    writer = TableWriter(StorageAddress.of(path))
    for _ in range(2):
        writer.upsert(source(rows, schema))
    assert lakedex.open(path).to_arrow().num_rows == 60
    assert_in_buckets(path, ["id"])
    with pytest.raises(InvalidInput, match=FIELDS):
        TableWriter(StorageAddress.of(path), options={FIELDS: "id,sub"}).upsert(
            source(rows, schema)
        )


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_partitions_may_differ_in_their_number_of_buckets(kind, tmp_path):  # case B75
    properties = {COUNT: "3", EXPRESSIONS: "p=a.*,7;p=b,1", RULE: "regex"}
    lab = Lab(tmp_path, kind, "BUCKET", properties=properties)
    folder = Path(lab.path, ".hoodie/.bucket_index/partition_bucket_index_meta/configs")
    (stored,) = folder.iterdir()
    assert stored.name == "00000000000000.hashing_config"
    said = json.loads(stored.read_text())
    assert (said["expressions"], said["defaultBucketNumber"]) == ("p=a.*,7;p=b,1", 3)
    assert said["rule"].upper() == "REGEX"
    rows = [row(f"k{number}", ("a1", "b", "c")[number % 3], 1) for number in range(90)]
    for version in (1, 2):
        lab.writer.upsert(source([{**each, "ver": version} for each in rows]))
    lab.holds([{**each, "ver": 2} for each in rows])
    counts = {"p=a1": 7, "p=b": 1, "p=c": 3}
    numbers: dict[str, set[int]] = {}
    for each in lakedex.open(lab.path).files():
        numbers.setdefault(each.partition, set()).add(int(each.file_id[:8]))
    for partition, count in counts.items():
        keys = [each["id"] for each in rows if f"p={each['p']}" == partition]
        assert numbers[partition] == {simple_bucket(key, ["id"], count) for key in keys}
    lab.writer.insert_overwrite(source([row("k0", "a1", 1)]))
    lab.writer.upsert(source([row("k3", "a1", 1), row("k0", "a1", 2)]))
    assert [each for each in lab.rows() if each["p"] == "a1"] == [
        row("k0", "a1", 2),
        row("k3", "a1", 1),
    ]


def test_options_of_resizing_are_kept_and_may_change(tmp_path):
    properties = {ENGINE: "CONSISTENT_HASHING", COUNT: "4", MOST: "64", SPLIT: "3"}
    lab = Lab(tmp_path, "mor", "BUCKET", properties=properties)
    resizing = TableWriter(lab.address).target().options.resizing
    assert (resizing.most, resizing.least, resizing.split_threshold) == (64, None, 3.0)
    options = {MOST: "32", LEAST: "2", MERGE: "0.1"}
    TableWriter(lab.address, options=options).upsert(source(ROWS))
    resizing = TableWriter(lab.address).target().options.resizing
    assert (resizing.most, resizing.least) == (32, 2)
    assert (resizing.split_threshold, resizing.merge_threshold) == (3.0, 0.1)
