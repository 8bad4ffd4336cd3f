"""Indexes are asked where that is worth it: pruning stays where it pays, and never costs much."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakedex
from lakedex.expr import bind_predicate, normalise, parse_predicate
from lakedex.filegroup import Slices
from lakedex.filegroup.names import BaseFile
from lakedex.filegroup.slices import FileSlice
from lakedex.index import registry
from lakedex.index.contract import Answer
from lakedex.index.cost import Estimate
from lakedex.index.metadata_table.file_cache import KEPT_FILES
from lakedex.prune import ARROW, SPARK, PlanOptions, is_read_at_once, plan
from lakedex.prune.cost import Scales
from tests.support.index_specs import SecondaryIndex
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("s", pa.string()), ("p", pa.string())])
WEIGHING = lakedex.ReadOptions(weighs_cost=True)
INDEXES = (
    "column_stats",
    "partition_stats",
    "bloom_filters",
    "record_index",
    SecondaryIndex("s", "s"),
)


def build(path: Path, files: int) -> str:
    builder = TableBuilder(
        path, SCHEMA, record_key="id", partition_by="p", indexes=INDEXES, metadata="base"
    )
    pieces = [
        (f"p{n % 2}", pa.table({"id": [f"k{n}"], "n": [n], "s": [f"s{n}"]})) for n in range(files)
    ]
    builder.commit(pieces)
    return builder.finish()


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    return build(tmp_path_factory.mktemp("few") / "t", 4)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return build(tmp_path_factory.mktemp("many") / "t", 300)


@pytest.fixture(autouse=True)
def nothing_at_hand():
    """Every test is the first of its process: files in memory cost next to nothing."""
    KEPT_FILES.forget()


def planned(path: str, text: str, reader) -> tuple[int, dict[str, str]]:
    """The slices left, and what each index said; those that were used begin with a plus."""
    snapshot = lakedex.open(path).snapshot
    tree = normalise(bind_predicate(parse_predicate(text), snapshot.schema, time_zone="UTC"))
    report = plan(snapshot, tree, options=PlanOptions(reader=reader))
    said = {step.index: "+" * step.used + step.reason for step in report.steps}
    return len(report.files), said


def file_slice(size: int = 1_000) -> FileSlice:
    return FileSlice(
        "p", "f", "1", BaseFile("f_0-0-0_1.parquet", size, "f", "0-0-0", "1", "parquet")
    )


@pytest.mark.parametrize(
    ("predicate", "left", "index"),
    [
        ("id = 'k2'", 1, "record_index"),
        ("id = 'nobody'", 0, "record_index"),
        ("n = 2", 1, "column_stats"),
        ("n > 1", 2, "column_stats"),
    ],
)
def test_a_table_of_four_tiny_files_is_pruned_for_spark(few, predicate, left, index):
    count, said = planned(few, predicate, SPARK)
    assert count == left, said
    assert said[index].startswith("+"), said


def test_arrow_reads_tiny_tables_as_they_are_and_says_so(few):
    table = lakedex.open(few, options=WEIGHING)
    count, said = planned(few, "n = 2", ARROW)
    assert count == 4
    assert said["column_stats"] == "not worth it: the 4 file slices are read faster"
    assert table.to_arrow("n = 2")["id"].to_pylist() == ["k2"]
    # A list of files is for whoever reads it, so it is pruned.
    assert len(table.files("n = 2")) == 1
    assert any("to_arrow asks no index" in note for note in table.explain("n = 2").notes)


@pytest.mark.parametrize(("predicate", "left"), [("id = 'k7'", 1), ("n < 3", 3)])
def test_arrow_prunes_tables_of_many_files(many, predicate, left):
    count, said = planned(many, predicate, ARROW)
    assert count == left, said


def test_files_that_are_in_memory_make_an_index_worth_asking(many):
    keys = ", ".join(f"'k{n}'" for n in range(300))
    first = planned(many, f"id IN ({keys})", ARROW)[1]["record_index"]
    assert first.startswith("not worth it: the lookup takes about")
    assert planned(many, "id = 'k7'", ARROW)[0] == 1
    again = planned(many, f"id IN ({keys})", ARROW)[1]["record_index"]
    assert again.startswith("+")


def test_what_is_not_worth_it_is_reported_with_its_estimate(many):
    snapshot = lakedex.open(many).snapshot
    keys = ", ".join(f"'k{n}'" for n in range(300))
    count, said = planned(many, f"id IN ({keys})", ARROW)
    assert count == 300
    assert said["bloom_filters"].startswith("not worth it: the lookup takes about")
    report = lakedex.open(many).explain("n < 3")
    used = {step.index: step for step in report.steps if step.used}
    assert used["column_stats"].estimated_seconds > 0
    assert used["column_stats"].as_dict()["estimated_seconds"] > 0
    assert snapshot.is_latest


def test_many_keys_are_spelled_only_where_they_are_looked_up(many, monkeypatch):
    keys = ", ".join(f"'k{n}'" for n in range(7, 3_000_000, 1_000))
    assert planned(many, f"id IN ({keys})", None)[0] == 1
    assert planned(many, f"id IN ({keys}) AND id = 'k7'", ARROW)[0] == 1

    def spelled(*_):
        raise AssertionError("the keys were spelled")

    monkeypatch.setattr("lakedex.index.kinds.record_index.lookup.record_keys", spelled)
    _, said = planned(many, f"id IN ({keys})", ARROW)
    assert said["record_index"].startswith("not worth it: the lookup takes about")


@pytest.mark.parametrize("column", ["s", "id"])
def test_statistics_are_not_asked_about_values_whose_rows_were_found(many, column):
    values = "('s7', 's9')" if column == "s" else "('k7', 'k9')"
    count, said = planned(many, f"{column} IN {values}", None)
    assert count == 2, said
    assert said["column_stats"].startswith("not needed: an index of single rows has told")
    # Another column may still tell the files apart.
    count, said = planned(many, f"{column} IN {values} AND n < 8", None)
    assert count == 1, said
    assert said["column_stats"].startswith("+"), said


def test_a_sure_saving_is_worth_its_cost_and_an_unsure_one_a_tenth():
    slices = Slices(file_slice() for _ in range(100))
    scales = Scales(ARROW, slices)
    reading = ARROW.seconds(slices)
    assert scales.why_not(Estimate(0.9 * reading, most_left=1), slices) is None
    assert scales.why_not(Estimate(0.9 * reading, most_left=50), slices) is not None
    assert scales.why_not(Estimate(0.9 * reading), slices) is not None
    tenth = 0.1 * (reading + ARROW.query_s)
    assert scales.why_not(Estimate(0.99 * tenth), slices) is None
    # What was spent for nothing is gone, what paid for itself is not.
    scales.spent(0.5 * tenth, slices, slices)
    assert scales.why_not(Estimate(0.6 * tenth), slices) is not None
    scales.spent(0.4 * tenth, slices, Slices(slices[:1]))
    assert scales.why_not(Estimate(0.4 * tenth), slices) is None


@given(
    st.lists(st.floats(0, 0.1), max_size=12), st.integers(1, 400), st.sampled_from([ARROW, SPARK])
)
def test_indexes_that_leave_out_nothing_cost_a_tenth_at_most(costs, files, reader):
    slices = Slices([file_slice()] * files)
    scales = Scales(reader, slices)
    spent = 0.0
    for seconds in costs:
        if scales.why_not(Estimate(seconds), slices) is None:
            spent += seconds
            scales.spent(seconds, slices, slices)
    assert spent <= 0.1 * (reader.query_s + reader.seconds(slices)) + 1e-9


def test_what_is_done_once_is_done_when_many_questions_would_have_gained():
    slices = Slices(file_slice() for _ in range(100))
    kept: dict = {}
    reading = ARROW.seconds(slices)
    dear = Estimate(2 * reading, most_left=1, once=1.9 * reading)
    answers = [Scales(ARROW, slices, kept).why_not(dear, slices) is None for _ in range(25)]
    assert not any(answers[:10])
    assert answers[-1]


def test_large_files_are_worth_an_index_and_tiny_ones_are_not():
    assert is_read_at_once(ARROW, Slices([file_slice()] * 3))
    assert not is_read_at_once(ARROW, Slices([file_slice(50 << 20)] * 3))
    assert not is_read_at_once(SPARK, Slices([file_slice()] * 2))


@dataclass
class OddIndex:
    """A kind that leaves out every second slice, at a price."""

    seconds: float
    asked: int = 0
    kind = "odd"

    def names(self, _table):
        return ["odd"]

    def estimate(self, _name, _question):
        return Estimate(self.seconds)

    def lookup(self, _name, question):
        self.asked += 1
        count = len(question.slices)
        return Answer(np.arange(count) % 2 == 0, np.ones(count, np.bool_), "odd ones out")


@pytest.mark.parametrize(("seconds", "left", "asked"), [(0.001, 2, 1), (10.0, 4, 0)])
def test_a_kind_that_joins_the_registry_is_weighed_like_the_others(
    few, monkeypatch, seconds, left, asked
):
    odd = OddIndex(seconds)
    monkeypatch.setattr("lakedex.prune.planner.lookups_for", lambda *_: (odd,))
    count, said = planned(few, "n >= 0", SPARK)
    assert (count, odd.asked) == (left, asked), said
    assert (odd,) != registry.kinds()


def test_a_question_about_the_same_snapshot_reads_no_range_again(few, tmp_path):
    copy = tmp_path / "t"
    shutil.copytree(few, copy)
    table = lakedex.open(str(copy))
    assert len(table.files("n = 2")) == 1
    shutil.rmtree(copy / ".hoodie/metadata/column_stats")
    assert len(table.files("n = 3")) == 1
    assert len(table.files("n > 0 and p = 'p1'")) == 2
