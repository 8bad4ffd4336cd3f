"""Clustering: the same rows and keys in other files, so that filters read few of them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.services.clustering import cluster_table
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import TableSpec, create_table
from lakedex.timeline import Action
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.history import Commit, History, create, writer_of
from tests.support.row_model import assert_holds
from tests.support.write_shapes import Shape

ROWS = 16_000
FILES = 64
SCHEMA = pa.schema(
    [("id", pa.string()), ("x", pa.int64()), ("y", pa.decimal128(12, 4)), ("s", pa.string())]
)
ONE_FILE_SIZE = "hoodie.clustering.plan.strategy.target.file.max.bytes"
ALL_INDEXES = {
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
}


@cache
def shuffled_rows() -> pa.Table:
    """Rows of which every file holds the whole range of every column."""
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "id": [f"k{number:05d}" for number in rng.permutation(ROWS)],
            "x": rng.permutation(ROWS),
            "y": pa.array(rng.random(ROWS).round(4)).cast(pa.decimal128(12, 4)),
            "s": [f"customer-{number:04d}" for number in rng.integers(0, 2000, ROWS)],
        },
        schema=SCHEMA,
    )


@pytest.fixture(scope="module")
def spread_table(tmp_path_factory) -> tuple[str, int]:
    """A table of 64 files and the size of one."""
    path = str(tmp_path_factory.mktemp("spread") / "table")
    address = StorageAddress.of(path)
    create_table(
        address.open(),
        TableSpec(name="spread", schema=SCHEMA, record_key="id", properties=ALL_INDEXES),
    )
    writer = TableWriter(address, LocalEngine(2), {"hoodie.parquet.max.file.size": "7900"})
    writer.bulk_insert(ArrowRowSource(shuffled_rows()))
    files = lakedex.open(path).files()
    assert len(files) >= FILES
    return path, sum(file.size_bytes for file in files) // FILES


def files_read(table: lakedex.Table, question: str) -> int:
    """How many files a question reads; the answer is that of a full scan."""
    found = table.to_arrow(question)["id"].to_pylist()
    whole = lakedex.open(table.path, options=lakedex.ReadOptions(without_indexes=["all"])).to_arrow(
        question
    )["id"]
    assert Counter(found) == Counter(whole.to_pylist()), question
    assert found, question
    return len(table.files(question))


RANGES = ("x >= 4000 and x < 4160", "y > 0.40 and y < 0.41")


@pytest.mark.parametrize(
    ("by", "strategy", "questions"),
    [
        (("x",), "linear", {"x = 4711": 1, RANGES[0]: 2, "x in (3, 15000)": 2}),
        (("s", "x"), "linear", {"s = 'customer-0123'": 2, "s like 'customer-199%'": 2}),
        (("x", "y"), "zorder", {RANGES[0]: 20, RANGES[1]: 20, f"{RANGES[0]} and {RANGES[1]}": 4}),
        (("x", "y"), "hilbert", {RANGES[0]: 16, RANGES[1]: 16}),
        (("x", "y", "s"), "hilbert", {RANGES[0]: 32, RANGES[1]: 32, "s = 'customer-0123'": 32}),
    ],
)
def test_filters_read_few_files_after(by, strategy, questions, spread_table):
    path, size = spread_table
    rows = lakedex.open(path).to_arrow()
    result = cluster_table(
        TableWriter(StorageAddress.of(path), options={ONE_FILE_SIZE: str(size)}), by, strategy
    )
    table = lakedex.open(path)
    files = table.files()
    assert FILES * 0.9 <= len(files) == result.files <= FILES * 1.2
    for question, most in questions.items():
        read = files_read(table, question)
        assert read <= most, table.explain(question)
    assert_same_rows(rows, table.to_arrow())
    assert table.verify().ok, table.verify()


def assert_same_rows(before: pa.Table, after: pa.Table) -> None:
    """Every column is as it was but for the file name."""
    names = [name for name in before.column_names if name != "_hoodie_file_name"]
    order = [("_hoodie_partition_path", "ascending"), ("_hoodie_record_key", "ascending")]
    by_key = [rows.select(names).sort_by(order) for rows in (before, after)]
    assert by_key[0].equals(by_key[1])


def test_files_are_sorted_and_of_the_size_that_was_asked_for(spread_table):
    path, size = spread_table
    options = {ONE_FILE_SIZE: str(size * 8)}
    cluster_table(TableWriter(StorageAddress.of(path), options=options), "y", "linear")
    rows = lakedex.open(path).to_arrow()
    sizes = [file.size_bytes for file in lakedex.open(path).files()]
    assert len(sizes) in (7, 8, 9)
    assert max(sizes) < size * 8 * 1.2
    for file in lakedex.open(path).files():
        own = rows.filter(pa.compute.equal(rows["_hoodie_file_name"], file.base.name))
        assert own["y"].to_pylist() == sorted(own["y"].to_pylist())


SHAPES = [
    Shape("cow", "GLOBAL_RECORD_LEVEL_INDEX", "simple"),
    Shape("mor", "RECORD_LEVEL_INDEX", "hive"),
    Shape("mor", "GLOBAL_BLOOM", "nonpartitioned"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_history_goes_on_as_if_nothing_had_happened(shape, tmp_path):
    """Logs are merged in; a second clustering, other writes and time travel are right."""
    path = tmp_path / "table"
    history = History(shape, rows=100)
    indexes = {"hoodie.metadata.index.bloom.filter.enable": "true"}
    writer = writer_of(create(shape, path, indexes))
    for make in (history.insert, history.updates, history.deletes, history.moves):
        history.apply(make(60)).write(shape, writer)
    past, model = lakedex.open(str(path)), history.model.copy()
    small = writer.with_options({ONE_FILE_SIZE: "5000"})
    result = cluster_table(small, ["n", "name"], "zorder")
    assert result.rows_in == len(model.live)
    assert result.file_groups_replaced == len(past.files())
    assert_holds(str(path), history.model)
    table = lakedex.open(str(path))
    assert not any(file.logs for file in table.files())
    for verb in (history.updates, history.mixture, history.cluster, history.overwrite):
        history.apply(verb(24)).write(shape, small)
        assert_holds(str(path), history.model, verify=verb == history.overwrite)
    then = lakedex.open(str(path)).to_arrow(as_of=past.timeline.last_completed.requested_time)
    assert_same_rows(past.to_arrow(), then)
    assert Counter(then["id"].to_pylist()) == Counter(row.id for row in model.live.values())


def test_what_the_timeline_says(tmp_path):
    shape = SHAPES[0]
    path = tmp_path / "table"
    history = History(shape, rows=120)
    writer = writer_of(create(shape, path))
    history.apply(history.insert(120)).write(shape, writer)
    before = lakedex.open(str(path))
    result = cluster_table(writer, ["n", "price"], "hilbert")
    timeline = lakedex.open(str(path)).timeline
    done = timeline.find(result.instant)
    assert done.action is Action.REPLACECOMMIT
    assert timeline.requested_action(result.instant) is Action.CLUSTERING
    plan = timeline.requested_replace(result.instant)
    assert plan.operation_type == "CLUSTER"
    assert plan.clustering.strategy_class.endswith("SparkSortAndSizeExecutionStrategy")
    sort_columns = "hoodie.clustering.plan.strategy.sort.columns"
    assert plan.clustering.strategy_params == {sort_columns: "n,price"}
    planned = {(s.partition_path, s.data_file) for g in plan.clustering.groups for s in g.slices}
    assert planned == {(file.partition, file.base.name) for file in before.files()}
    for group in plan.clustering.groups:
        for entry in group.slices:
            assert Path(entry.data_file_address).is_file()
    metadata = timeline.commit_metadata(done)
    assert metadata.is_clustering
    replaced = {(p, i) for p, ids in metadata.replaced_file_ids.items() for i in ids}
    assert replaced == {(file.partition, file.file_id) for file in before.files()}
    assert sum(stat.num_writes for stat in metadata.stats()) == 120
    # Rows were not changed, so nobody who follows changes gets them again.
    last = before.timeline.last_completed
    assert lakedex.open(str(path)).changes(last.completion_time).num_rows == 0


def test_only_the_partitions_of_a_condition_are_clustered(tmp_path):
    shape = Shape("cow", "GLOBAL_RECORD_LEVEL_INDEX", "hive")
    path = tmp_path / "table"
    history = History(shape, rows=120)
    writer = writer_of(create(shape, path))
    history.apply(history.insert(120)).write(shape, writer)
    before = {file.id for file in lakedex.open(str(path)).files()}
    cluster_table(writer, "n", where="city = 'oslo'")
    after = {file.id for file in lakedex.open(str(path)).files()}
    assert {each.partition for each in before - after} == {"city=oslo"}
    assert {each.partition for each in after - before} == {"city=oslo"}
    assert_holds(str(path), history.model)
    selected = {"hoodie.clustering.plan.strategy.partition.selected": "city=São Paulo"}
    cluster_table(writer.with_options(selected), "n")
    last = {file.id for file in lakedex.open(str(path)).files()}
    assert {each.partition for each in after - last} == {"city=São Paulo"}
    assert_holds(str(path), history.model)
    cluster_table(writer, "n", where="city is null")
    nulls = {file.id for file in lakedex.open(str(path)).files()}
    assert {each.partition for each in last - nulls} == {"city=__HIVE_DEFAULT_PARTITION__"}
    nothing = cluster_table(writer, "n", where="city = 'nowhere'")
    assert nothing.instant is None
    assert {file.id for file in lakedex.open(str(path)).files()} == nulls


def test_only_small_files_are_clustered_where_a_limit_says_so(tmp_path):
    shape = SHAPES[0]
    path = tmp_path / "table"
    history = History(shape, rows=300)
    small = {"hoodie.parquet.small.file.limit": "0"}
    writer = writer_of(create(shape, path), small)
    history.apply(history.insert(300)).write(shape, writer)
    for _ in range(3):
        history.apply(history.insert(6)).write(shape, writer)
    sizes = {file.id: file.size_bytes for file in lakedex.open(str(path)).files()}
    limit = sorted(sizes.values())[len(sizes) // 2]
    chosen = writer.with_options({"hoodie.clustering.plan.strategy.small.file.limit": str(limit)})
    result = cluster_table(chosen, "n")
    left = {file.id for file in lakedex.open(str(path)).files()}
    assert {each for each, size in sizes.items() if size >= limit} == left & set(sizes)
    assert 0 < result.file_groups_replaced == len(set(sizes) - left)
    assert_holds(str(path), history.model)


def test_a_key_in_two_partitions_keeps_its_place_in_the_index(tmp_path):
    shape = SHAPES[0]
    path = str(tmp_path / "table")
    history = History(shape, rows=30)
    writer = writer_of(create(shape, path))
    first = history.insert(30)
    first.write(shape, writer)
    oslo = next(row for row in first.rows if row.path == "oslo")
    rio = next(place for place in shape.places if place.path == "rio")
    again = oslo.moved_to(rio, oslo.ts)._replace(ver=oslo.ver + 1)
    type(first)("insert", (again,)).write(shape, writer)
    cluster_table(writer, "n", where="city = 'oslo'")
    places = lakedex.open(path).metadata("record_index", keys=[oslo.id])
    assert places.column("recordIndexMetadata")[0].as_py()["partitionName"] == "rio"


def test_bad_orders_leave_the_table_as_it_was(tmp_path):
    shape = SHAPES[0]
    path = tmp_path / "table"
    history = History(shape, rows=40)
    writer = writer_of(create(shape, path))
    history.apply(history.insert(40)).write(shape, writer)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for by, strategy, where, part in (
        ((), None, None, "at least one column"),
        ("nobody", None, None, "no column 'nobody'"),
        (3, None, None, "a column or a list of columns, not 3"),
        (["n", 3], None, None, "no column 3"),
        ("n", "peano", None, "one of linear, zorder, hilbert"),
        ("n", None, "n > 3", "'n' is no partition column"),
        ("n", None, "city =", "condition|expected|ends|missing"),
        ("n", None, 3, "SQL condition"),
    ):
        with pytest.raises(LakedexError, match=part):
            cluster_table(writer, by, strategy, where)
    unknown = {"hoodie.clustering.plan.strategy.partition.selected": "paris"}
    with pytest.raises(InvalidInput, match="no partition 'paris'"):
        cluster_table(writer.with_options(unknown), "n")
    rewriting = {"hoodie.clustering.preserve.commit.metadata": "false"}
    with pytest.raises(UnsupportedFeature, match="preserve"):
        cluster_table(writer.with_options(rewriting), "n")
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_the_columns_of_the_options_are_taken(tmp_path):
    shape = SHAPES[0]
    path = tmp_path / "table"
    history = History(shape, rows=60)
    options = {
        "hoodie.clustering.plan.strategy.sort.columns": "price,n",
        "hoodie.layout.optimize.strategy": "z-order",
    }
    writer = writer_of(create(shape, path, options))
    history.apply(history.insert(60)).write(shape, writer)
    result = cluster_table(writer)
    plan = lakedex.open(str(path)).timeline.requested_replace(result.instant)
    assert list(plan.clustering.strategy_params.values()) == ["price,n"]
    assert_holds(str(path), history.model)


def test_a_table_without_rows_is_left_alone(tmp_path):
    path = tmp_path / "table"
    writer = writer_of(create(SHAPES[0], path))
    assert cluster_table(writer, "n").instant is None
    assert not lakedex.open(str(path)).timeline.instants


def test_a_partition_whose_rows_are_all_deleted_is_emptied(tmp_path):
    shape = Shape("mor", "GLOBAL_RECORD_LEVEL_INDEX", "simple")
    path = tmp_path / "table"
    history = History(shape, rows=60)
    writer = writer_of(create(shape, path))
    history.apply(history.insert(60)).write(shape, writer)
    gone = tuple(row for row in history.model.live.values() if row.path == "oslo")
    history.apply(Commit("delete", gone, ("id", "city"))).write(shape, writer)
    assert any(file.partition == "oslo" for file in lakedex.open(str(path)).files())
    cluster_table(writer, "n")
    assert not any(file.partition == "oslo" for file in lakedex.open(str(path)).files())
    assert_holds(str(path), history.model)
    history.apply(history.mixture(20)).write(shape, writer)
    assert_holds(str(path), history.model)


def test_files_from_before_a_column_was_added_get_it(tmp_path):
    path = str(tmp_path / "table")
    address = StorageAddress.of(path)
    old = pa.schema([("id", pa.string()), ("n", pa.int32())])
    create_table(address.open(), TableSpec("t", old, "id", properties=ALL_INDEXES))
    writer = TableWriter(address, LocalEngine(1))
    first = {"id": [f"a{number}" for number in range(20)], "n": range(20)}
    writer.bulk_insert(ArrowRowSource(pa.table(first, schema=old)))
    new = pa.schema([("id", pa.string()), ("n", pa.int64()), ("s", pa.string())])
    more = {"id": [f"b{number}" for number in range(20)], "n": range(20), "s": ["x"] * 20}
    writer.bulk_insert(ArrowRowSource(pa.table(more, schema=new)))
    before = lakedex.open(path).to_arrow()
    cluster_table(writer, ["s", "n"], "zorder")
    table = lakedex.open(path)
    assert_same_rows(before, table.to_arrow())
    (file,) = table.files()
    assert table.to_arrow("s is null").num_rows == 20
    stored = pq.read_schema(f"{path}/{file.base.name}")
    assert stored.field("s").type == pa.string()
    assert stored.field("n").type == pa.int64()
    assert table.verify().ok
