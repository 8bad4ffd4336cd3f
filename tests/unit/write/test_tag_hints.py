"""BLOOM lookups by the metadata table: fewer files are opened, the places are the same."""

from __future__ import annotations

import pickle
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakedex.config import TableConfig
from lakedex.config.write_index import WriteIndex
from lakedex.config.write_options import WriteOptions
from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput, LakedexError
from lakedex.format.parquet.footer import read_footer
from lakedex.format.spill import SpillWriter, read_segments
from lakedex.storage.open import StorageAddress
from lakedex.table.snapshot import Snapshot
from lakedex.write.rows import PARTITION
from lakedex.write.tag import lookup
from lakedex.write.tag.lookup import KeyRange, LookupTask, TaskFilters, with_hints
from lakedex.write.tag.plan import plan_tagging
from lakedex.write.tag.tag_rows import tag_bucket
from tests.support import commit_effects
from tests.support.history import History, create, writer_of
from tests.support.row_model import assert_holds
from tests.support.table_builder import TableBuilder
from tests.support.tagging import SCHEMA, Tag, facts_of, incoming, spilled, table_rows, tags
from tests.support.write_shapes import Shape

BOTH = pytest.mark.parametrize("index", [WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM])
BOTH_PARTITIONS = ("column_stats", "bloom_filters")
ODD = ["é1", "\uffee", "\U0001f600", "k\uffee", "k\U0001f600", " ", "k" * 300]


@pytest.fixture
def footers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose footers a lookup read."""
    opened: list[str] = []

    def watched(source):
        opened.append(source.path.rpartition("/")[2])
        return read_footer(source)

    monkeypatch.setattr(lookup, "read_footer", watched)
    return opened


def build(
    path: Path,
    *groups: tuple[str, list[str]],
    indexes: tuple[str, ...] = BOTH_PARTITIONS,
    table_type: str = "cow",
    metadata: str = "log",
) -> TableBuilder:
    builder = TableBuilder(
        path,
        SCHEMA,
        record_key="id",
        partition_by="p",
        ordering="ver",
        table_type=table_type,
        indexes=indexes,
        metadata=metadata,
    )
    builder.commit([(partition, table_rows(keys)) for partition, keys in groups])
    return builder


def found(
    builder: TableBuilder, rows: pa.Table, index: WriteIndex, *, hints: bool = True
) -> list[Tag]:
    snapshot, facts = facts_of(builder.path)
    buckets = spilled(facts, rows, 3, 3)
    plan = plan_tagging(
        LocalEngine(1),
        facts,
        snapshot,
        index,
        update_partition_path=True,
        buckets=buckets,
        partitions=rows[PARTITION].unique().to_pylist(),
        use_metadata=hints,
    )
    facts, plan = pickle.loads(pickle.dumps((facts, plan)))
    storage = facts.address.open()
    tagged = [
        tag_bucket(facts, plan, number, read_segments(storage, own))
        for number, own in enumerate(buckets)
        if own
    ]
    return tags(pa.concat_tables(tagged))


def places(builder: TableBuilder, keys: list[str], index: WriteIndex) -> dict[str, str | None]:
    rows = incoming([(key, "a", 11) for key in keys])
    return {tag[0]: tag[3] for tag in found(builder, rows, index)}


def base_file(builder: TableBuilder, number: int) -> Path:
    group = builder._groups[number]
    return builder.path / group.partition / group.base_name


def spoil(builder: TableBuilder, number: int) -> None:
    """Leave garbage of the same length."""
    file = base_file(builder, number)
    file.write_bytes(b"\xff" * file.stat().st_size)


@pytest.mark.parametrize("metadata", ["log", "base"])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("indexes", [BOTH_PARTITIONS, BOTH_PARTITIONS[:1], BOTH_PARTITIONS[1:]])
def test_places_are_the_same_with_and_without(
    tmp_path: Path, indexes: tuple[str, ...], table_type: str, metadata: str
) -> None:
    draw = random.Random(f"{indexes}{table_type}{metadata}")
    names = [f"k{number:03d}" for number in range(300)]
    groups = [
        (partition, sorted({*draw.sample(names, 25), *draw.sample(ODD, 2)}))
        for partition in "aaabbc"
    ]
    builder = build(
        tmp_path / "t", *groups, indexes=indexes, table_type=table_type, metadata=metadata
    )
    changed = draw.sample(groups[0][1], 5)
    rows = table_rows(changed[:3], ver=20).append_column("p", pa.array(["a"] * 3))
    if table_type == "mor":
        builder.log_commit(rows, changed[3:])
    else:
        builder.commit(updates=rows, deletes=changed[3:])
    for index in (WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM):
        for size in (3, 100):
            asked = draw.sample([*names, *ODD], size)
            rows = incoming([(key, draw.choice("abcd"), 30) for key in asked])
            expected = found(builder, rows, index, hints=False)
            assert found(builder, rows, index) == expected


@BOTH
def test_a_broken_file_that_the_filter_rules_out_is_not_touched(
    tmp_path: Path, index: WriteIndex, footers: list[str]
) -> None:
    odd = [f"k{number:04d}" for number in range(1, 400, 2)]
    even = [f"k{number:04d}" for number in range(0, 402, 2)]
    builder = build(tmp_path / "t", ("a", odd), ("a", even))
    spoil(builder, 1)
    assert set(places(builder, odd[30:75], index).values()) == {builder.file_ids[0]}
    assert footers == []
    with pytest.raises(LakedexError):
        places(builder, [even[3]], index)


@BOTH
def test_a_broken_file_that_the_range_rules_out_is_not_touched(
    tmp_path: Path, index: WriteIndex, footers: list[str]
) -> None:
    groups = [("a", ["a1", "a5"]), ("a", ["m1", "m5"]), ("a", ["x1", "x2"])]
    builder = build(tmp_path / "t", *groups, indexes=("column_stats",))
    spoil(builder, 0)
    base_file(builder, 2).unlink()
    keys = ["m1", "m2", "a6", "x0"]
    assert places(builder, keys, index) == {
        "m1": builder.file_ids[1],
        "m2": None,
        "a6": None,
        "x0": None,
    }
    # There is no filter in the metadata table, so that of the footer is asked.
    assert footers == [base_file(builder, 1).name]


@BOTH
def test_a_slice_with_logs_is_still_asked_for_the_keys_of_its_logs(
    tmp_path: Path, index: WriteIndex, footers: list[str]
) -> None:
    builder = build(tmp_path / "t", ("a", ["k1", "k2"]), ("a", ["k7"]), table_type="mor")
    base = builder._groups[0]
    builder.log_commit(table_rows(["k1"], ver=20).append_column("p", pa.array(["a"])))
    assert places(builder, ["k1", "k7"], index) == {
        "k1": builder.file_ids[0],
        "k7": builder.file_ids[1],
    }
    # A key that only a log has: the base file's hints do not know it.
    snapshot, facts = facts_of(builder.path)
    task = hints_of(snapshot, facts.scratch)
    elsewhere = [
        KeyRange("x", "y") if each.file_id == base.file_id else known
        for each, known in zip(task.slices, task.ranges, strict=True)
    ]
    task = replace(task, ranges=tuple(elsewhere))
    matches = lookup.find_matches(
        facts, index, spilled(facts, incoming([("k1", "a", 30)]), 1, 1), task
    )
    assert sum(segment.rows for _, segment in matches) == 1
    assert footers == []


def hints_of(snapshot: Snapshot, scratch: str) -> LookupTask:
    """All slices in one task."""
    task = LookupTask(snapshot.slices, (KeyRange(),) * len(snapshot.slices))
    return with_hints(snapshot, [task], SpillWriter(snapshot.storage, f"{scratch}/filters"))[0]


@pytest.fixture
def hidden_long_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges as Hudi writes them after row groups without statistics, in a small column."""
    honest = commit_effects.file_statistics

    def forged(files, values, sizes):
        stats = honest(files, values, sizes)
        if not pa.types.is_string(values.type):
            return stats
        for name, value in (("minimum", "k1"), ("maximum", "k1"), ("null_count", 1)):
            at = stats.column_names.index(name)
            stats = stats.set_column(at, stats.schema.field(name), pa.array([value] * len(stats)))
        at = stats.column_names.index("total_uncompressed")
        return stats.set_column(at, "total_uncompressed", pa.array([10] * len(stats)))

    monkeypatch.setattr(commit_effects, "file_statistics", forged)


@BOTH
@pytest.mark.usefixtures("hidden_long_keys")
def test_a_range_that_left_long_keys_out_is_not_believed(
    tmp_path: Path, index: WriteIndex, footers: list[str]
) -> None:
    builder = build(tmp_path / "t", ("a", ["k1", "z" * 5_000]), indexes=("column_stats",))
    assert places(builder, ["z" * 5_000], index) == {"z" * 5_000: builder.file_ids[0]}
    assert len(footers) == 1


@BOTH
def test_a_range_of_another_file_is_not_believed(
    tmp_path: Path, index: WriteIndex, footers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As two names with one hash would give it."""
    builder = build(tmp_path / "t", ("a", ["a1"]), ("a", ["m1"]), indexes=("column_stats",))
    first = lookup.column_stats_key("_hoodie_record_key", "p=a", base_file(builder, 0).name)
    monkeypatch.setattr(lookup, "column_stats_key", lambda *_: first)
    assert places(builder, ["m1"], index) == {"m1": builder.file_ids[1]}
    assert footers == [base_file(builder, 1).name]


@BOTH
def test_files_that_the_metadata_table_does_not_know_are_asked_themselves(
    tmp_path: Path, index: WriteIndex, footers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = build(tmp_path / "t", ("a", ["k1", "k3"]))
    with monkeypatch.context() as patched:
        patched.setattr(commit_effects.IndexKeeper, "_column_stats", lambda *_: {})
        patched.setattr(builder._keeper._plan.__class__, "has", lambda *_: False)
        builder.commit([("a", table_rows(["k2", "k4"]))])
    expected = {"k3": builder.file_ids[0], "k4": builder.file_ids[1]}
    assert places(builder, ["k3", "k4"], index) == expected
    assert footers == [base_file(builder, 1).name]


@BOTH
@pytest.mark.parametrize("partition", BOTH_PARTITIONS)
def test_a_damaged_index_gives_no_hints(
    tmp_path: Path, index: WriteIndex, partition: str, caplog: pytest.LogCaptureFixture
) -> None:
    builder = build(tmp_path / "t", ("a", ["k1", "k3"]), ("a", ["k2"]), metadata="base")
    for file in (builder.path / ".hoodie" / "metadata" / partition).glob("*.hfile"):
        file.write_bytes(b"\xff" * file.stat().st_size)
    assert places(builder, ["k2", "k3"], index) == {
        "k2": builder.file_ids[1],
        "k3": builder.file_ids[0],
    }
    assert f"could not be read, so footers are read instead: {partition}/" in caplog.text


@BOTH
def test_an_unreadable_filter_rules_nothing_out(
    tmp_path: Path, index: WriteIndex, footers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = commit_effects.bloom_change
    monkeypatch.setattr(
        commit_effects,
        "bloom_change",
        lambda names, partitions, texts, time: honest(names, partitions, ["!"] * len(texts), time),
    )
    builder = build(tmp_path / "t", ("a", ["k1", "k3"]), ("a", ["k2"]))
    assert places(builder, ["k2", "k3"], index)["k3"] == builder.file_ids[0]
    assert len(footers) == 2


def test_too_many_bytes_of_filters_are_left_to_the_workers(
    tmp_path: Path, footers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = build(tmp_path / "t", ("a", ["k1", "k3"]), ("a", ["k2"]))
    monkeypatch.setattr(lookup, "_MOST_FILTER_BYTES", 100)
    assert places(builder, ["k1"], WriteIndex.BLOOM) == {"k1": builder.file_ids[0]}
    assert footers == [base_file(builder, 0).name]


def test_filters_are_read_in_rounds(
    tmp_path: Path, footers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_FILTERS_AT_ONCE", 2)
    groups = [("a", [f"k{number}", f"m{number}"]) for number in range(5)]
    builder = build(tmp_path / "t", *groups)
    expected = {f"m{number}": builder.file_ids[number] for number in range(5)}
    assert places(builder, list(expected), WriteIndex.BLOOM) == expected
    assert footers == []


@pytest.mark.parametrize("name", ["cow_trips_all_indexes", "mor_trips_all_indexes"])
def test_hints_of_a_table_that_hudi_wrote_are_what_its_footers_say(
    golden, tmp_path: Path, name: str
) -> None:
    table = shutil.copytree(golden(name).path, tmp_path / "t")
    storage = StorageAddress.of(str(table)).open()
    snapshot = Snapshot.open(storage)
    task = hints_of(snapshot, "scratch")
    filters = TaskFilters(storage, task.filters)
    for number, file_slice in enumerate(task.slices):
        path = file_slice.path_of(file_slice.base.name)
        footer = read_footer(storage.source(path))
        assert task.ranges[number] == KeyRange(footer.min_key, footer.max_key)
        assert filters.of(number).encode().encode() == footer.bloom_text


@pytest.mark.parametrize(
    "shape", [Shape("cow", "GLOBAL_BLOOM", "url"), Shape("mor", "BLOOM", "hive")]
)
def test_histories_with_filters_in_the_metadata_table(
    tmp_path: Path, shape: Shape, footers: list[str]
) -> None:
    options = {"hoodie.metadata.index.bloom.filter.enable": "true"}
    address = create(shape, tmp_path / "t", options)
    writer = writer_of(address)
    history = History(shape, rows=200)
    for commit in history.commits(9):
        commit.write(shape, writer)
    assert_holds(str(tmp_path / "t"), history.model)
    # Every file was written with its range and its filter, so no footer was needed.
    assert footers == []


def test_the_option_is_read() -> None:
    config = TableConfig.from_properties(
        {"hoodie.table.name": "t", "hoodie.table.version": "9"}, "hoodie.properties"
    )
    name = "hoodie.bloom.index.use.metadata"
    assert WriteOptions.resolve(config, {}, {}).bloom.use_metadata
    assert not WriteOptions.resolve(config, {}, {name: "false"}).bloom.use_metadata
    with pytest.raises(InvalidInput, match=name):
        WriteOptions.resolve(config, {}, {name: "maybe"})
