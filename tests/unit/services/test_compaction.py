"""Compaction: the same rows and keys in base files, planned, run and told of as Hudi does."""

from __future__ import annotations

import time
import zipfile

import pyarrow as pa
import pytest

import lakedex
from lakedex.config.service_options import SchedulingOptions
from lakedex.engine import LocalEngine
from lakedex.errors import FileMissing, InvalidInput
from lakedex.filegroup import FileSlice, parse_data_file
from lakedex.services.compaction import compact_table, run_compaction, schedule_compaction
from lakedex.services.compaction.scheduling import choose, is_due, operation_of
from lakedex.services.inline import writer_with_services
from lakedex.services.resharding import reshard_index
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import TableSpec, create_table
from lakedex.timeline import Action, CompactionOperation, CompactionPlan, State
from lakedex.write.row_source import ArrowRowSource
from tests.support.compactions import assert_all_agree, begin, logged
from tests.support.golden import GOLDEN_FOLDER
from tests.support.history import Commit, History, create, writer_of
from tests.support.row_model import arrow_rows, assert_holds
from tests.support.write_shapes import WRITE_OPTIONS, Shape

RECORD_INDEX = Shape("mor", "GLOBAL_RECORD_LEVEL_INDEX", "hive")
SHAPES = [RECORD_INDEX, Shape("mor", "BLOOM", "simple")]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_writers_go_on_before_and_after_a_planned_compaction_is_run(shape, tmp_path):
    """Nothing is lost and nothing doubled: log files count for the slice that they complete in."""
    path = str(tmp_path / "t")
    history = begin(shape, path)
    writer = writer_of(StorageAddress.of(path))
    instant = schedule_compaction(writer)
    assert_all_agree(path, history, verify=False)
    for make in (logged, History.deletes, History.reinserts, History.mixture):
        history.apply(make(history, 8)).write(shape, writer)
    if shape.has_record_index:
        # A plan that nobody runs yet is not in the way of other work on the index.
        reshard_index(StorageAddress.of(path), LocalEngine(1), "record_index", 3)
    assert_all_agree(path, history)
    past, model = lakedex.open(path), history.model.copy()
    result = run_compaction(writer, instant)
    assert result.instant == instant
    assert_all_agree(path, history)
    table = lakedex.open(path)
    planned = {operation.file_id for operation in _operations(path, instant)}
    assert planned
    for current in table.files():
        if current.file_id in planned:
            assert current.base_instant >= instant
            assert all(log.instant_time > instant for log in current.logs)
    # Nobody who follows changes gets a row again, and the past stays as it was.
    assert table.changes(past.timeline.write_instants()[-1].completion_time).num_rows == 0
    assert past.to_arrow().sort_by("_hoodie_record_key").num_rows == len(model.live)
    for make in (logged, History.deletes, History.mixture):
        history.apply(make(history, 8)).write(shape, writer)
    assert_all_agree(path, history)
    compact_table(writer)
    assert not any(current.logs for current in lakedex.open(path).files())
    assert_all_agree(path, history)


def _operations(path: str, instant: str):
    return lakedex.open(path).timeline.compaction_plan(instant).operations


def test_what_the_timeline_and_the_metadata_table_say(tmp_path):
    path = str(tmp_path / "t")
    history = begin(RECORD_INDEX, path)
    writer = writer_of(StorageAddress.of(path))
    before = lakedex.open(path)
    places = before.metadata("record_index")
    rows = before.to_arrow()
    instant = schedule_compaction(writer)
    timeline = lakedex.open(path).timeline
    (pending,) = timeline.pending()
    assert (pending.action, pending.state) == (Action.COMPACTION, State.REQUESTED)
    plan = timeline.compaction_plan(instant)
    assert (plan.version, plan.strategy, plan.extra, plan.missing_partitions) == (2, None, {}, ())
    with_logs = {current.file_id: current for current in before.files() if current.logs}
    assert {op.file_id for op in plan.operations} == set(with_logs)
    for op in plan.operations:
        current = with_logs[op.file_id]
        assert op.data_file == current.base.name
        assert op.base_instant_time == current.base.instant_time
        assert op.log_files == tuple(log.name for log in current.logs)
        assert op.metrics["TOTAL_LOG_FILES"] == len(current.logs)
        assert set(op.metrics) == {
            *("TOTAL_LOG_FILES", "TOTAL_LOG_FILES_SIZE", "TOTAL_IO_MB"),
            *("TOTAL_IO_READ_MB", "TOTAL_IO_WRITE_MB"),
        }
    assert schedule_compaction(writer) is None, "all of it is planned already"
    result = run_compaction(writer, instant)
    timeline = lakedex.open(path).timeline
    done = timeline.find(instant)
    assert (done.action, done.state) == (Action.COMMIT, State.COMPLETED)
    assert timeline.requested_action(instant) is Action.COMPACTION
    metadata = timeline.commit_metadata(done)
    assert metadata.compacted
    assert metadata.operation_type == "COMPACT"
    stats = list(metadata.stats())
    assert {stat.file_id for stat in stats} == set(with_logs)
    assert sum(stat.num_writes for stat in stats) == result.rows_in
    for stat in stats:
        current = with_logs[stat.file_id]
        assert stat.prev_base_file == current.base.name
        assert stat.other["totalLogFilesCompacted"] == len(current.logs)
    # The rows keep their commit times, the keys their places.
    names = [name for name in rows.column_names if name != "_hoodie_file_name"]
    after = lakedex.open(path).to_arrow()
    order = [("_hoodie_record_key", "ascending")]
    assert after.select(names).sort_by(order).equals(rows.select(names).sort_by(order))
    assert lakedex.open(path).metadata("record_index").equals(places)
    assert_holds(path, history.model)


def test_ranges_after_a_compaction_are_those_of_the_rows(tmp_path):
    """Case B10: the new file's ranges are tight: values that logs took away are not in them."""
    path = str(tmp_path / "t")
    shape = SHAPES[1]
    history = begin(shape, path, logs=0)
    writer = writer_of(StorageAddress.of(path))
    high = [history.changed(row)._replace(n=90_000) for row in history.sample(30)]
    history.apply(Commit("upsert", tuple(high))).write(shape, writer)
    low = [history.changed(row)._replace(n=1) for row in high]
    history.apply(Commit("upsert", tuple(low))).write(shape, writer)
    assert lakedex.open(path).files("n = 90000")
    compact_table(writer)
    assert not lakedex.open(path).files("n = 90000")
    assert lakedex.open(path).to_arrow("n = 1")["id"].to_pylist()
    assert_holds(path, history.model)


def test_rows_that_are_all_deleted_leave_an_empty_base_file(tmp_path):
    path = str(tmp_path / "t")
    history = begin(RECORD_INDEX, path, rows=12, logs=0)
    writer = writer_of(StorageAddress.of(path))
    rows = tuple(history.model.live.values())
    history.apply(Commit("delete", rows, ("id", "city"))).write(RECORD_INDEX, writer)
    assert compact_table(writer).rows_in == 0
    assert_all_agree(path, history)
    history.apply(history.insert(9)).write(RECORD_INDEX, writer)
    assert_all_agree(path, history)


def test_a_plan_that_left_out_a_log_file_loses_nothing(tmp_path, caplog):
    """Case B59: a log file that completed before the plan would be hidden by the new base."""
    path = tmp_path / "t"
    history = begin(RECORD_INDEX, path)
    writer = writer_of(StorageAddress.of(str(path)))
    instant = schedule_compaction(writer)
    requested = path / f".hoodie/timeline/{instant}.compaction.requested"
    plan = CompactionPlan.decode(requested.read_bytes(), path="plan")
    operations = [
        type(op)(op.file_id, op.partition_path, op.base_instant_time, op.data_file, ())
        for op in plan.operations
    ]
    requested.write_bytes(CompactionPlan(tuple(operations)).encode())
    run_compaction(writer, instant)
    assert "was planned without" in caplog.text
    assert_all_agree(path, history)


def test_a_plan_whose_files_are_gone_stays_and_says_so(tmp_path):
    path = tmp_path / "t"
    history = begin(RECORD_INDEX, path)
    writer = writer_of(StorageAddress.of(str(path)))
    instant = schedule_compaction(writer)
    requested = path / f".hoodie/timeline/{instant}.compaction.requested"
    plan = requested.read_bytes()
    operation = CompactionPlan.decode(plan, path="plan").operations[0]
    lost = type(operation)(operation.file_id, operation.partition_path, None, "gone.parquet", ())
    requested.write_bytes(CompactionPlan((lost,)).encode())
    with pytest.raises(FileMissing, match=r"gone\.parquet, which the compaction .* is gone"):
        run_compaction(writer, instant)
    (pending,) = lakedex.open(str(path)).timeline.pending()
    assert pending.state is State.REQUESTED
    requested.write_bytes(plan)
    run_compaction(writer, instant)
    assert_holds(str(path), history.model)


def test_what_cannot_be_compacted_is_left_as_it_was(tmp_path):
    shape = Shape("cow", "SIMPLE", "simple")
    path = tmp_path / "t"
    history = History(shape, rows=10)
    writer = writer_of(create(shape, path))
    history.apply(history.insert(10)).write(shape, writer)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for call in (compact_table, schedule_compaction):
        with pytest.raises(InvalidInput, match="copy-on-write: it has no log files"):
            call(writer)
    with pytest.raises(InvalidInput, match="no compaction 20200101000000000 pends"):
        run_compaction(writer, "20200101000000000")
    both = {"hoodie.compact.inline": "true", "hoodie.compact.schedule.inline": "true"}
    with pytest.raises(InvalidInput, match="not both"):
        history.insert(1).write(shape, writer.with_options(both))
    after = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert after == before


def _operation(name: str, logs: int, size: int, base: int, partition: str) -> CompactionOperation:
    """The operation of a slice of so many log files, of so many bytes all together."""
    log_names = [f".{name}-0_2026010100000000{at}.log.1_0-0-0" for at in range(logs)]
    files = tuple(parse_data_file(log, size // logs) for log in log_names)
    base_file = parse_data_file(f"{name}-0_0-0-0_20260101000000000.parquet", base)
    return operation_of(FileSlice(partition, f"{name}-0", "20260101000000000", base_file, files), 1)


def test_strategies_choose_as_hudis_do():
    mb = 1 << 20
    operations = [
        _operation("few", 1, 40 * mb, 100 * mb, "2026/01/01"),
        _operation("many", 4, 8 * mb, 10 * mb, "2026/01/03"),
        _operation("tiny", 2, 2 * mb, 10 * mb, "2026/01/02"),
    ]

    def chosen(**settings: str) -> list[str]:
        named = {f"hoodie.compaction.{key.replace('_', '.')}": v for key, v in settings.items()}
        options = SchedulingOptions.resolve(named)
        return [op.file_id.removesuffix("-0") for op in choose(operations, options)]

    by_count = "org.apache.hudi.table.action.compact.strategy.LogFileNumBasedCompactionStrategy"
    assert chosen() == ["few", "many", "tiny"]
    assert chosen(logfile_size_threshold=str(5 * mb)) == ["few", "many"]
    assert chosen(strategy=by_count) == ["many", "tiny", "few"]
    assert chosen(strategy=by_count, logfile_num_threshold="2") == ["many", "tiny"]
    # 240 MB are read and written for the first one, which goes beyond what is left.
    assert chosen(target_io="100") == ["few"]
    assert chosen(target_io="241") == ["few", "many"]
    assert chosen(strategy="BoundedIOCompactionStrategy", target_io="250") == ["few", "many"]
    assert chosen(strategy="UnBoundedCompactionStrategy", target_io="1") == ["few", "many", "tiny"]
    with pytest.raises(InvalidInput, match="must be of LogFileSizeBased"):
        chosen(strategy="org.example.Mine")
    days = {"strategy": "DayBasedCompactionStrategy", "daybased_target_partitions": "2"}
    assert chosen(**days) == ["many", "tiny"]
    by_path = {"strategy": f"PartitionRegexBasedCompactionStrategy,{by_count}"}
    assert chosen(**by_path, partition_path_regex=r"2026/01/0[12]") == ["tiny", "few"]
    with pytest.raises(InvalidInput, match="needs hoodie"):
        chosen(**by_path)


def test_only_what_the_strategy_chooses_is_compacted(tmp_path):
    path = str(tmp_path / "t")
    history = begin(RECORD_INDEX, path)
    options = {"hoodie.compaction.target.io": "1", "hoodie.parquet.max.file.size": "24576"}
    bounded = {"hoodie.compaction.strategy": "DayBasedCompactionStrategy"}
    bounded["hoodie.compaction.daybased.target.partitions"] = "1"
    writer = writer_of(StorageAddress.of(path), options | bounded)
    instant = schedule_compaction(writer)
    assert len({op.partition_path for op in _operations(path, instant)}) == 1
    run_compaction(writer, instant)
    left = {current.partition for current in lakedex.open(path).files() if current.logs}
    assert len(left) == 2
    assert_all_agree(path, history)


@pytest.mark.parametrize("how", ["inline", "schedule.inline"])
def test_a_write_compacts_when_its_options_say_so(how, tmp_path):
    path = str(tmp_path / "t")
    shape = SHAPES[1]
    history = begin(shape, path, logs=0)
    options = WRITE_OPTIONS | {
        f"hoodie.compact.{how}": "true",
        "hoodie.compact.inline.max.delta.commits": "3",
    }
    writer = writer_with_services(StorageAddress.of(path), options=options)
    seen = []
    for _ in range(5):
        history.apply(logged(history)).write(shape, writer)
        timeline = lakedex.open(path).timeline
        planned = [i for i in timeline.instants if _is_compaction(timeline, i)]
        seen.append([instant.state for instant in planned])
    # The insert is a deltacommit too; a compaction that only pends does not stop the count.
    done, asked = [State.COMPLETED], [State.REQUESTED]
    expected = [[], done, done, done, done * 2] if how == "inline" else [[], *[asked] * 4]
    assert seen == expected
    assert_all_agree(path, history)
    if how != "inline":
        assert compact_table(writer).instant is not None
        assert not lakedex.open(path).timeline.pending()
        assert_all_agree(path, history)


def _is_compaction(timeline, instant) -> bool:
    return timeline.requested_action(instant.requested_time) is Action.COMPACTION


@pytest.mark.parametrize(
    ("trigger", "seconds", "due"),
    [
        ("NUM_COMMITS", 3600, True),
        ("TIME_ELAPSED", 3600, False),
        ("TIME_ELAPSED", 1, True),
        ("NUM_AND_TIME", 3600, False),
        ("NUM_OR_TIME", 3600, True),
        ("NUM_COMMITS_AFTER_LAST_REQUEST", 3600, True),
    ],
)
def test_what_makes_a_compaction_due(trigger, seconds, due, mor_table):
    path, age_out = mor_table
    options = {
        "hoodie.compact.inline.trigger.strategy": trigger,
        "hoodie.compact.inline.max.delta.seconds": str(seconds),
        "hoodie.compact.inline.max.delta.commits": "3",
    }
    timeline = lakedex.open(path).timeline
    age_out()
    assert is_due(timeline, SchedulingOptions.resolve(options)) is due
    more = options | {"hoodie.compact.inline.max.delta.commits": "4"}
    assert is_due(timeline, SchedulingOptions.resolve(more)) is (due and seconds == 1)


@pytest.fixture(scope="module")
def mor_table(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("due") / "t")
    begin(SHAPES[1], path)
    begun = time.time()
    return path, lambda: time.sleep(max(0.0, begun + 1.1 - time.time()))


@pytest.mark.parametrize("name", ["mor_nonpartitioned", "bucket_simple_mor"])
def test_log_files_of_hudi_are_compacted(name, tmp_path):
    """Groups without a base file among them."""
    with zipfile.ZipFile(GOLDEN_FOLDER / f"{name}.zip") as packed:
        packed.extractall(tmp_path)
    path = str(tmp_path / name)
    before = lakedex.open(path)
    rows = before.to_arrow()
    assert any(current.logs for current in before.files()), "there is nothing to see"
    result = compact_table(writer_of(StorageAddress.of(path)))
    table = lakedex.open(path)
    assert result.files
    assert not any(current.logs for current in table.files())
    names = [name for name in rows.column_names if name != "_hoodie_file_name"]
    order = [("_hoodie_partition_path", "ascending"), ("_hoodie_record_key", "ascending")]
    assert table.to_arrow().select(names).sort_by(order).equals(rows.select(names).sort_by(order))
    assert table.verify().ok, table.verify()


def test_columns_that_came_later_are_in_the_new_base_files(tmp_path):
    path = str(tmp_path / "t")
    shape = SHAPES[1]
    history = begin(shape, path)
    rows = [history.changed(row) for row in history.sample(10)]
    wider = arrow_rows(shape, rows).append_column("extra", pa.array(range(10), pa.int64()))
    writer = writer_of(StorageAddress.of(path))
    writer.upsert(ArrowRowSource(wider))
    before = lakedex.open(path).to_arrow()
    compact_table(writer)
    after = lakedex.open(path)
    names = [name for name in before.column_names if name != "_hoodie_file_name"]
    order = [("_hoodie_partition_path", "ascending"), ("_hoodie_record_key", "ascending")]
    assert after.to_arrow().select(names).sort_by(order).equals(before.select(names).sort_by(order))
    assert after.to_arrow("extra = 3").num_rows == 1
    assert after.verify().ok


def test_without_an_ordering_column_the_last_write_wins(tmp_path):
    address = StorageAddress.of(str(tmp_path / "t"))
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    create_table(address.open(), TableSpec("t", schema, "id", table_type="mor"))
    writer = writer_of(address)
    for numbers in ([9, 9, 9], [5, 6], [1]):
        rows = {"id": [f"k{at}" for at in range(len(numbers))], "n": numbers}
        writer.upsert(ArrowRowSource(pa.table(rows, schema=schema)))
    writer.delete(ArrowRowSource(pa.table({"id": ["k2"]})))
    compact_table(writer)
    table = lakedex.open(str(tmp_path / "t"))
    assert not any(current.logs for current in table.files())
    found = table.to_arrow(columns=["id", "n"]).sort_by("id").to_pydict()
    assert found == {"id": ["k0", "k1"], "n": [1, 6]}
