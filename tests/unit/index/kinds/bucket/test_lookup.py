"""Pruning by bucket: what is kept has every matching row, and little else."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakedex
from lakedex import ReadOptions
from lakedex.config.bucket_options import SINCE, BucketEngineType, BucketOptions
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr import normalise, parse_predicate
from lakedex.expr.bind import bind_predicate
from lakedex.expr.evaluate import filter_table
from lakedex.expr.tree import And, Column, Compare, In, IsNull, Literal, Op
from lakedex.filegroup import FileSliceId, Slices
from lakedex.index.contract import Question
from lakedex.index.cost import Estimate
from lakedex.index.kinds.bucket.hashing_metadata import FOLDER
from lakedex.index.kinds.bucket.kind import BucketKind
from lakedex.index.kinds.bucket.lookup import NAME
from lakedex.services.index_dropping import drop_index
from lakedex.storage.open import StorageAddress
from lakedex.storage.paths import join
from lakedex.txn.transaction import TransactionOptions
from tests.support.bucket_slices import BucketFiles
from tests.support.golden import golden_names

KIND = BucketKind()
BUCKETS = [name for name in golden_names() if name.startswith("bucket_")]
ENGINES = list(BucketEngineType)
SIMPLE, RING, PREFIXES = ENGINES
PAIR = pa.schema([("tenant", pa.string()), ("id", pa.int64())])
EAGER = ReadOptions(weighs_cost=False)


def kept_of(options):
    return {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": options.engine.value,
        "hoodie.bucket.index.num.buckets": str(options.count),
        "hoodie.bucket.index.hash.field": ",".join(options.fields),
    }


def files_of(engine, schema, hash_fields, rows, count=8, partitions=("p",)):
    options = BucketOptions(engine, count, tuple(hash_fields))
    files = BucketFiles.empty(schema.names, options, kept_of(options), schema=schema)
    for number, partition in enumerate(partitions):
        own = rows.take(pa.array(range(number, len(rows), len(partitions)), pa.int64()))
        if len(own):
            files.add_rows(partition, own)
    return files


def bound(files, predicate):
    tree = parse_predicate(predicate) if isinstance(predicate, str) else predicate
    return normalise(bind_predicate(tree, files.indexed.read.schema))


def ask(files, predicate):
    table = files.indexed
    assert KIND.names(table) == [NAME]
    question = Question(bound(files, predicate), table.slices, table)
    estimate = KIND.estimate(NAME, question)
    assert isinstance(estimate, Estimate) or estimate == KIND.lookup(NAME, question)
    return KIND.lookup(NAME, question)


def kept_groups(files, answer):
    """The file groups that must be read; all of them where there is no answer."""
    if isinstance(answer, str):
        return set(files.rows)
    return {each.id for each, keep in zip(files.slices, answer.keep, strict=True) if keep}


def matching_groups(files, predicate):
    tree = bound(files, predicate)
    return {place for place, rows in files.rows.items() if filter_table(rows, tree).num_rows}


def pairs(count):
    tenants = [f"t{number % 11}" for number in range(count)]
    return pa.table([pa.array(tenants), pa.array(range(count), pa.int64())], schema=PAIR)


# cases B51, B75
@pytest.mark.parametrize("name", BUCKETS)
def test_every_key_of_hudi_is_found_by_what_is_kept(name, golden):
    table = lakedex.open(golden(name).path, options=EAGER)
    rows = table.to_arrow()
    partitions = len(rows["region"].unique())
    total = len(table.files())
    for key in rows["id"].to_pylist():
        for column in ("id", "_hoodie_record_key"):
            report = table.explain(f"{column} = '{key}'")
            (step,) = [each for each in report.steps if each.kind == NAME]
            assert step.used
            assert (step.before, step.after) == (total, partitions)
        own = rows.filter(pc.equal(rows["id"], key))
        region = own["region"][0].as_py()
        exact = f"id = '{key}' AND region = '{region}'"
        assert len(table.files(exact)) == 1
        assert table.to_arrow(exact).num_rows == own.num_rows
    several = rows["id"].to_pylist()[:3]
    assert table.to_arrow(pc.field("id").isin(several)).num_rows == 3
    assert len(table.files("id <=> 'no such key'")) <= partitions
    for other in ("val > 3", "id > 'key-00012'", "region = 'eu'", "id = 'key-00012' OR val = 3"):
        (step,) = [each for each in table.explain(other).steps if each.kind == NAME]
        assert not step.used


@pytest.mark.parametrize("name", BUCKETS)
def test_it_is_listed_and_can_be_switched_off(name, golden):
    table = lakedex.open(golden(name).path)
    (info,) = [each for each in table.indexes() if each.kind == NAME]
    assert info.columns == ("id",)
    assert info.index_type == ("simple" if "simple" in name else "consistent_hashing")
    assert info.status.endswith("buckets in 3 partitions")
    assert info.file_groups == len(table.files())
    for switch in ("bucket", "bucket_index"):
        options = ReadOptions(weighs_cost=False, without_indexes=[switch])
        off = lakedex.open(golden(name).path, options=options)
        (step,) = [each for each in off.explain("id = 'key-00012'").steps if each.kind == NAME]
        assert step.reason == "switched off by the caller"


@pytest.mark.parametrize("name", ["bucket", "bucket_index", "BUCKET"])
def test_it_is_not_dropped(name, damage):
    path = damage("bucket_simple_cow").path
    with pytest.raises(UnsupportedFeature, match="dropping the index bucket of table"):
        drop_index(StorageAddress.of(str(path)), name, TransactionOptions())
    with pytest.raises(InvalidInput, match="has no index 'idx'"):
        drop_index(StorageAddress.of(str(path)), "idx", TransactionOptions())


@pytest.mark.parametrize("name", ["bucket_consistent_split", "bucket_consistent_merge"])
def test_an_earlier_snapshot_is_pruned_by_the_ring_that_it_had(name, golden):
    table = lakedex.open(golden(name).path, options=EAGER)
    buckets = []
    for instant in table.timeline.write_instants():
        rows = table.to_arrow(as_of=instant.requested_time)
        for key in rows["id"].to_pylist()[::20]:
            report = table.explain(f"id = '{key}'", as_of=instant.requested_time)
            (step,) = [each for each in report.steps if each.kind == NAME]
            assert step.after == 3
            found = table.to_arrow(pc.field("id") == key, as_of=instant.requested_time)
            assert found["id"].to_pylist() == [key]
        buckets.append(step.before)
    assert len(set(buckets)) > 1


def test_without_a_metadata_table_it_is_used_all_the_same(damage):
    path = Path(damage("bucket_simple_mor").path)
    properties = path / ".hoodie/hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("hoodie.table.metadata.partitions=files", ""))
    table = lakedex.open(path, options=EAGER)
    assert table.snapshot.metadata is None
    assert len(table.files("id = 'key-00012'")) == 3
    assert [info.kind for info in table.indexes()] == [NAME]
    report = table.verify()
    assert report.ok
    assert report.checked[NAME] == 65


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_composite_keys_lead_to_one_bucket_each(engine):
    files = files_of(engine, PAIR, ("tenant", "id"), pairs(200), partitions=("a", "b"))
    answer = ask(files, "tenant = 't3' AND id = 3")
    assert len(kept_groups(files, answer)) == 2
    answer = ask(files, "tenant IN ('t3', 't4') AND id IN (3, 4)")
    assert "4 keys asked" in answer.reason
    assert len(kept_groups(files, answer)) <= 8
    assert ask(files, "tenant = 't3'") == (
        "the predicate has no = or IN on the hash fields (tenant, id)"
    )
    either = "(tenant = 't3' AND id = 3) OR (tenant = 't4' AND id = 4)"
    assert "2 keys asked" in ask(files, either).reason


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_the_hash_field_alone_is_enough(engine):
    files = files_of(engine, PAIR, ("tenant",), pairs(200), partitions=("a", "b"))
    assert len(kept_groups(files, ask(files, "tenant = 't3'"))) == 2
    assert len(kept_groups(files, ask(files, "tenant = 't3' AND id > 7"))) == 2
    files = files_of(engine, PAIR, ("id",), pairs(200), partitions=("a", "b"))
    assert len(kept_groups(files, ask(files, "id = 3"))) == 2


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_a_key_that_names_a_hash_field_twice_is_not_lost(engine):  # case B51
    schema = pa.schema([("tenant", pa.string()), ("name", pa.string())])
    rows = [("t1", f"n{number}") for number in range(100)] + [("t1", "x,tenant:t9")]
    table = pa.table([[a for a, _ in rows], [b for _, b in rows]], schema=schema)
    files = files_of(engine, schema, ("tenant",), table)
    answer = ask(files, "tenant = 't1'")
    assert matching_groups(files, "tenant = 't1'") <= kept_groups(files, answer)
    plain = files_of(engine, schema, ("tenant",), table.slice(0, 100))
    assert len(kept_groups(plain, ask(plain, "tenant = 't1'"))) == 1
    if len(matching_groups(files, "tenant = 't1'")) > 1:
        assert "1 with keys that name a hash field twice" in answer.reason


def test_numbers_by_partition_are_used():
    options = BucketOptions(SIMPLE, 4, ("id",), "a.*,16;b.*,2")
    kept = {**kept_of(options), "hoodie.bucket.index.partition.expressions": options.expressions}
    schema = pa.schema([("id", pa.int64())])
    files = BucketFiles.empty(("id",), options, kept, schema=schema)
    for number, partition in enumerate(("a1", "b1", "c1")):
        files.add_rows(partition, pa.table({"id": range(number * 100, number * 100 + 100)}))
    assert len(files.slices) == 16 + 2 + 4
    for key in range(300):
        answer = ask(files, f"id = {key}")
        assert matching_groups(files, f"id = {key}") <= kept_groups(files, answer)
        assert np.count_nonzero(answer.candidates) == 3


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_a_file_group_that_is_no_bucket_is_read(engine):
    files = files_of(engine, PAIR, ("id",), pairs(100))
    stray = "70112233-6ddb-4dff-83ee-36af5292a301-0"
    if engine is not SIMPLE:  # of which all file ids begin with a number
        files.put_rows("p", stray, files.rows[files.slices[0].id])
        answer = ask(files, "id = 3")
        assert FileSliceId("p", stray) in kept_groups(files, answer)
        assert f"1 file groups are read that are no buckets, such as {stray}" in answer.reason
        assert len(kept_groups(files, answer)) == 2
        return
    beyond = "00000008-6ddb-4dff-83ee-36af5292a301-0"
    files.put_rows("p", beyond, files.rows[files.slices[0].id])
    answer = ask(files, "id = 3")
    assert FileSliceId("p", beyond) in kept_groups(files, answer)
    assert len(kept_groups(files, answer)) == 2


@pytest.mark.parametrize("data", [b"", b"{", b'{"version": 0}', None], ids=str)
def test_damaged_hashing_metadata_keep_the_files_of_their_partition(data):
    files = files_of(RING, PAIR, ("id",), pairs(200), partitions=("a", "b"))
    path = join(FOLDER, "a", "00000000000000.hashing_meta")
    if data is None:
        files.storage.delete(path)
    else:
        files.storage.replace(path, data)
    answer = ask(files, "id = 3")
    kept = kept_groups(files, answer)
    assert {each for each in files.rows if each.partition == "a"} <= kept
    assert len([each for each in kept if each.partition == "b"]) == 1
    assert "1 partitions are read whole" in answer.reason
    assert "hashing" in answer.reason


def test_damaged_numbers_by_partition_keep_every_file():
    files = files_of(SIMPLE, PAIR, ("id",), pairs(100))
    path = ".hoodie/.bucket_index/partition_bucket_index_meta/configs/00000000000000.hashing_config"
    files.storage.create(path, b"{")
    assert path in ask(files, "id = 3")


def test_a_number_of_buckets_that_is_younger_than_the_snapshot_is_not_used():
    files = files_of(SIMPLE, PAIR, ("id",), pairs(100))
    files.kept[SINCE] = "20300101000000000"
    assert "20300101000000000" in ask(files, "id = 3")


def test_too_few_keys_of_hudi_keep_every_file():
    files = files_of(SIMPLE, PAIR, ("id",), pairs(2), count=64)
    files.kept.clear()
    assert "hoodie.bucket.index.num.buckets" in ask(files, "tenant = 't1' AND id = 1")


def test_other_tables_have_none(golden):
    for name in golden_names():
        table = lakedex.open(golden(name).path)
        listed = NAME in [info.kind for info in table.indexes()]
        assert listed is name.startswith("bucket_"), name


def test_wrong_names_are_refused():
    with pytest.raises(InvalidInput, match="bucket"):
        ReadOptions(without_indexes=["buckets"])


TYPES = {
    "n": (pa.int32(), st.integers(-3, 40)),
    "s": (
        pa.string(),
        st.text("ab1:,_é", max_size=5) | st.sampled_from(["x,n:1", "x,s:a", "x,t:"]),
    ),
    "t": (pa.string(), st.text("ab1:,_", max_size=5) | st.sampled_from(["__null__", "__empty__"])),
    "d": (pa.date32(), st.dates(date(1969, 12, 1), date(1970, 3, 1))),
    "c": (
        pa.decimal128(6, 2),
        st.sampled_from([Decimal("1.50"), Decimal("-0.01"), Decimal("0.00"), Decimal("7.00")]),
    ),
    "b": (pa.bool_(), st.booleans()),
}


@st.composite
def keyed_tables(draw):
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3, unique=True))
    fields = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    schema = pa.schema([(name, TYPES[name][0]) for name in names])
    values = st.tuples(*(TYPES[name][1] for name in names))
    if len(names) > 1:
        values = st.tuples(*(st.none() | TYPES[name][1] for name in names))
    rows = draw(st.lists(values, min_size=1, max_size=30, unique=True))
    rows = [row for row in rows if any(value not in (None, "") for value in row)]
    table = pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=schema
    )
    return schema, [name for name in names if name in fields], table


@given(
    engine=st.sampled_from(ENGINES),
    power=st.integers(0, 6),
    made=keyed_tables(),
    data=st.data(),
)
def test_what_is_kept_has_every_matching_row(engine, power, made, data):  # case B51
    schema, hash_fields, rows = made
    files = files_of(engine, schema, hash_fields, rows, 2**power, ("p", "q"))
    if not files.slices:
        return
    conditions = []
    for name in data.draw(st.sets(st.sampled_from(schema.names), min_size=1)):
        values = TYPES[name][1]
        column = Column((name,))
        wanted = data.draw(st.lists(st.sampled_from(rows[name].to_pylist()) | values, min_size=1))
        literals = tuple(Literal(value) for value in wanted if value is not None)
        form = data.draw(st.sampled_from(["=", "in", "<=>", "null"]))
        if form == "null" or not literals:
            conditions.append(IsNull(column))
        elif form == "in":
            conditions.append(In(column, literals))
        else:
            op = Op.EQ if form == "=" else Op.EQ_NULL_SAFE
            conditions.append(Compare(op, column, literals[0]))
    predicate = And(tuple(conditions)) if len(conditions) > 1 else conditions[0]
    answer = ask(files, predicate)
    assert matching_groups(files, predicate) <= kept_groups(files, answer)
    if not isinstance(answer, str):
        assert answer.covered.all()
    keys = [key for own in files.keys.values() for key in own.to_pylist()]
    key = data.draw(st.sampled_from(keys))
    stored = Compare(Op.EQ, Column(("_hoodie_record_key",)), Literal(key))
    kept = kept_groups(files, ask(files, stored))
    assert matching_groups(files, stored) <= kept
    assert len(kept) <= 2


def test_slices_without_any_bucket_are_not_asked():
    files = files_of(SIMPLE, PAIR, ("id",), pairs(10))
    files.slices = []
    files.kept = {}
    assert KIND.names(files.indexed) == []
    assert Slices(files.slices) == ()
