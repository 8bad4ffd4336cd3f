"""The parameters of bucket indexes that exist: kept ones, stored ones, and those that keys tell."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.config.bucket_options import BucketEngineType, BucketOptions, BucketProperties
from lakedex.errors import IndexUnusable, InvalidInput
from lakedex.index.kinds.bucket.engine import RingBuckets, SimpleBuckets
from lakedex.index.kinds.bucket.hashes import hash_keys
from lakedex.index.kinds.bucket.partition_counts import PartitionCounts, store_partition_counts
from lakedex.index.kinds.bucket.table import BucketSource, load_bucket_table
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.bucket_index import find_bucket_index
from lakedex.table.own_properties import read_own_properties
from tests.support.bucket_slices import BucketFiles
from tests.support.golden import golden_names

SIMPLE, RING, PREFIXES = BucketEngineType
COUNT = "hoodie.bucket.index.num.buckets"
FIELDS = "hoodie.bucket.index.hash.field"
ENGINE = "hoodie.index.bucket.engine"


def source_of(snapshot):
    kept = read_own_properties(snapshot.storage)
    return BucketSource(snapshot.read_context, snapshot.timeline, lambda: snapshot.slices, kept)


def numbered(count, start=0):
    return [f"key-{number:05d}" for number in range(start, start + count)]


def composite(count, *, tenants=7):
    return [f"tenant:t{number % tenants},id:{number}" for number in range(count)]


@pytest.mark.parametrize("name", [each for each in golden_names() if each.startswith("bucket_")])
def test_the_parameters_of_hudis_tables_are_found(name, golden):
    snapshot = Snapshot.open(StorageAddress.of(golden(name).path).open())
    found = load_bucket_table(source_of(snapshot), find_bucket_index(snapshot).engine)
    engine = SIMPLE if "simple" in name else RING
    assert found.options == BucketOptions(engine, 4, ("id",))
    told = {COUNT: "4", FIELDS: "id", ENGINE: engine.value}
    again = load_bucket_table(source_of(snapshot), engine, told)
    assert again.options == found.options


@pytest.mark.parametrize("name", ["bucket_simple_cow", "bucket_simple_mor", "bucket_consistent"])
@pytest.mark.parametrize(
    "given", [{COUNT: "8"}, {COUNT: "3"}, {COUNT: "2"}, {FIELDS: "txt"}, {ENGINE: "other"}], ids=str
)
def test_options_that_are_not_those_of_the_table_are_refused(name, given, golden):  # case B46
    snapshot = Snapshot.open(StorageAddress.of(golden(name).path).open())
    (value,) = given.values()
    with pytest.raises((InvalidInput, IndexUnusable), match=value):
        load_bucket_table(source_of(snapshot), find_bucket_index(snapshot).engine, given)


def test_a_ring_is_not_taken_for_another_engine(golden):
    snapshot = Snapshot.open(StorageAddress.of(golden("bucket_consistent").path).open())
    with pytest.raises(InvalidInput, match="SIMPLE is not that of the table"):
        load_bucket_table(source_of(snapshot), RING, {ENGINE: "SIMPLE"})
    files = BucketFiles.empty(("id",), BucketOptions(RING, 4, ("id",)), {ENGINE: "SIMPLE"})
    with pytest.raises(IndexUnusable, match=f"keeps {ENGINE}=SIMPLE"):
        load_bucket_table(files.source, RING)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 16, 30, 97, 256, 1000])
def test_the_number_of_simple_buckets_follows_from_the_keys(count):
    files = BucketFiles.empty(("id",), BucketOptions(SIMPLE, count, ("id",)))
    files.add("a", numbered(6 * count))
    files.add("b", numbered(3, start=7000))
    found = load_bucket_table(files.source, SIMPLE)
    assert found.options == files.options
    assert isinstance(found.engine.buckets("b", []), SimpleBuckets)
    assert "keys" in found.evidence


@pytest.mark.parametrize("fields", [("tenant", "id"), ("tenant",), ("id",)], ids=",".join)
@pytest.mark.parametrize("engine", [SIMPLE, RING], ids=str)
def test_the_hash_fields_of_composite_keys_follow_from_the_keys(engine, fields):
    files = BucketFiles.empty(("tenant", "id"), BucketOptions(engine, 8, fields))
    files.add("a", composite(500, tenants=100))
    assert load_bucket_table(files.source, files.engine).options == files.options


def test_the_ring_of_prefixes_is_what_the_table_keeps():
    options = BucketOptions(PREFIXES, 8, ("id",))
    kept = {ENGINE: "EXTENDIBLE_HASHING", COUNT: "8", FIELDS: "id", "hoodie.index.type": "BUCKET"}
    files = BucketFiles.empty(("id",), options, kept)
    files.add("a", numbered(100))
    found = load_bucket_table(files.source, files.engine)
    assert found.options == options
    assert found.evidence == "the settings of the table"
    buckets = found.engine.buckets("a", files.slices)
    assert isinstance(buckets, RingBuckets)
    assert buckets.is_of_prefixes


@pytest.mark.parametrize("engine", BucketEngineType, ids=str)
def test_a_table_without_files_is_as_it_keeps(engine):
    kept = {ENGINE: engine.value, COUNT: "8", FIELDS: "id"}
    files = BucketFiles.empty(("id",), BucketOptions(engine, 8, ("id",)), kept)
    assert load_bucket_table(files.source, None).options == files.options
    with pytest.raises(InvalidInput, match=f"{COUNT}=9 is not that of the table, which is 8"):
        load_bucket_table(files.source, None, {COUNT: "9"})


def test_too_few_keys_leave_it_to_an_option():
    files = BucketFiles.empty(("id",), BucketOptions(SIMPLE, 64, ("id",)))
    files.add("a", ["1", "2"])
    with pytest.raises(IndexUnusable, match=f"2 keys of table t .* give {COUNT}"):
        load_bucket_table(files.source, SIMPLE)
    assert load_bucket_table(files.source, SIMPLE, {COUNT: "64"}).options == files.options
    # With 17 buckets one of them would be in another one.
    with pytest.raises(IndexUnusable, match=f"not in the buckets of {COUNT}=17"):
        load_bucket_table(files.source, SIMPLE, {COUNT: "17"})


def test_no_file_at_all_leaves_it_to_options():
    files = BucketFiles.empty(("id",), BucketOptions(SIMPLE, 64, ("id",)))
    with pytest.raises(IndexUnusable, match=COUNT):
        load_bucket_table(files.source, SIMPLE)
    with pytest.raises(IndexUnusable, match=ENGINE):
        load_bucket_table(files.source, None)
    assert load_bucket_table(files.source, SIMPLE, {COUNT: "64"}).options == files.options


def test_one_constant_field_leaves_the_hash_fields_to_an_option():
    """31 is 1 modulo 2, so that a constant first field whose hash is even moves no key."""
    files = BucketFiles.empty(("tenant", "id"), BucketOptions(SIMPLE, 2, ("id",)))
    files.add("a", composite(200, tenants=1))
    with pytest.raises(IndexUnusable, match=FIELDS):
        load_bucket_table(files.source, SIMPLE)
    assert load_bucket_table(files.source, SIMPLE, {FIELDS: "id"}).options == files.options
    files.add("b", composite(200, tenants=2))
    assert load_bucket_table(files.source, SIMPLE).options == files.options


def test_rows_in_wrong_buckets_are_no_other_number_of_buckets():
    files = BucketFiles.empty(("id",), BucketOptions(SIMPLE, 8, ("id",)))
    files.add("a", numbered(50))
    # Many other keys decide before these are read; `verify` names them.
    files.put("b", files.slices[0].file_id, pa.array(numbered(500, start=50)))
    assert load_bucket_table(files.source, SIMPLE).options.count == 8
    files.put("c", files.slices[0].file_id, pa.array(["key-00051", "key-00052"]))
    with pytest.raises(IndexUnusable, match="verify"):
        load_bucket_table(files.source, SIMPLE)


def test_a_file_group_that_is_no_bucket_is_named():
    files = BucketFiles.empty(("id",), BucketOptions(SIMPLE, 8, ("id",)))
    files.add("a", numbered(50))
    files.put("a", "6ddb4dff-83ee-36af-5292-a301a301a301-0", pa.array(["x"]))
    with pytest.raises(IndexUnusable, match="6ddb4dff"):
        load_bucket_table(files.source, SIMPLE)


def test_numbers_by_partition_are_honoured():
    options = BucketOptions(SIMPLE, 4, ("id",), "a.*,16")
    files = BucketFiles.empty(("tenant", "id"), options)
    store_partition_counts(files.storage, PartitionCounts("a.*,16", 4))
    for partition in ("a1", "b1"):
        files.add(partition, composite(200))
    found = load_bucket_table(files.source, SIMPLE)
    assert found.options == options
    assert [found.engine.buckets(each, []).count for each in ("a1", "b1")] == [16, 4]
    with pytest.raises(InvalidInput, match="expressions"):
        load_bucket_table(
            files.source, SIMPLE, {"hoodie.bucket.index.partition.expressions": "b.*,16"}
        )


texts = st.text("ab1:,_", min_size=1, max_size=6)


@given(
    engine=st.sampled_from([SIMPLE, RING]),
    count=st.integers(1, 40),
    values=st.lists(st.tuples(texts, texts), unique=True, max_size=60),
    chosen=st.sampled_from([("x",), ("y",), ("x", "y")]),
)
def test_what_is_found_is_never_wrong(engine, count, values, chosen):  # case B51
    """Whatever the keys: the parameters of the writer, others with the same buckets, or none."""
    files = BucketFiles.empty(("x", "y"), BucketOptions(engine, count, chosen))
    keys = [f"x:{x},y:{y}" for x, y in values]
    files.add("p", keys)
    try:
        found = load_bucket_table(files.source, files.engine)
    except IndexUnusable:
        told = {FIELDS: ",".join(chosen), COUNT: str(count)}
        assert load_bucket_table(files.source, files.engine, told).options == files.options
        return
    assert found.options.count == count
    buckets = found.engine.buckets("p", files.slices)
    for (_, file_id), own in files.keys.items():
        ids = buckets.file_ids(hash_keys(own, found.options.fields))
        assert set(ids.to_pylist()) == {file_id}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({COUNT: "0"}, "0"),
        ({COUNT: "-1"}, "-1"),
        ({COUNT: "4.5"}, "4.5"),
        ({COUNT: "9" * 30}, "999"),
        ({ENGINE: "NONE"}, "NONE"),
    ],
)
def test_wrong_values_are_named(settings, named):
    with pytest.raises(InvalidInput, match=named):
        BucketProperties.of(settings)
