"""Ranges of whole partitions prune: alone, before those of files, and where those cannot answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakedex
from lakedex.expr import bind_predicate, normalise, parse_predicate
from lakedex.index.metadata_table.file_cache import KEPT_FILES
from lakedex.prune import ARROW, PlanOptions, Report, plan
from tests.support.index_specs import ExpressionIndex, Index, SecondaryIndex
from tests.support.sample_tables import ordered_table

FILES, PARTITIONS = 120, 12
MANY_FILES, MANY_PARTITIONS = 10_000, 4
"""So many that ranges of files take much longer to read than those of partitions."""
STATS: tuple[Index, ...] = ("column_stats", "partition_stats")
UPPER = ExpressionIndex("upper", "name", "upper")


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return ordered_table(tmp_path_factory.mktemp("made") / "t", STATS)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """The first files are there; the others exist in the metadata table only."""
    path = tmp_path_factory.mktemp("large") / "t"
    return ordered_table(
        path, (*STATS, UPPER), files=MANY_FILES, partitions=MANY_PARTITIONS, real_files=100
    )


@pytest.fixture(autouse=True)
def nothing_at_hand():
    KEPT_FILES.forget()


def opened(path: Path, *without: str) -> lakedex.Table:
    options = lakedex.ReadOptions(without_indexes=without, weighs_cost=False, counts_usage=False)
    return lakedex.open(str(path), options=options)


def said(report: Report) -> dict[str, str]:
    """What each index said; those that were used begin with a plus."""
    assert len(report.steps) == len({step.index for step in report.steps}), "one line for each"
    return {step.index: "+" * step.used + step.reason for step in report.steps}


def ids(table: lakedex.Table, predicate: str) -> list[str]:
    return sorted(table.to_arrow(predicate, ["id"])["id"].to_pylist())


def check(path: Path, predicate: str, files: int, *without: str) -> dict[str, str]:
    """The rows are those of a scan and so many files are left; what the indexes said."""
    pruned = opened(path, *without)
    report = pruned.explain(predicate)
    assert len(report.files) == files, report
    assert ids(pruned, predicate) == ids(opened(path, "all"), predicate)
    return said(report)


@pytest.mark.parametrize(
    ("predicate", "files"),
    [
        ("seq = 75", FILES // PARTITIONS),
        ("seq BETWEEN 15 AND 25", 2 * FILES // PARTITIONS),
        ("seq < 0", 0),
        ("seq >= 0", FILES),
        ("seq = 75 AND name > 'n'", FILES // PARTITIONS),
    ],
)
def test_without_column_stats_partitions_are_pruned(table, predicate, files):
    # case B84: partition statistics without column statistics
    reasons = check(table, predicate, files, "column_stats")
    assert reasons["partition_stats"] == f"+ranges of seq in {PARTITIONS} partitions"
    assert reasons["column_stats"] == "switched off by the caller"


def test_a_table_that_has_nothing_else_is_pruned_by_partition(tmp_path):
    path = ordered_table(tmp_path / "t", ("partition_stats",))
    reasons = check(path, "seq = 75", FILES // PARTITIONS)
    assert reasons["partition_stats"] == f"+ranges of seq in {PARTITIONS} partitions"


def test_few_files_are_left_to_column_stats(table):
    reasons = check(table, "seq = 75", 1)
    assert reasons["partition_stats"] == "column_stats tell more at a similar cost"
    assert reasons["column_stats"] == "+ranges of seq"


def truncate(folder: Path) -> None:
    for path in folder.glob("*.hfile"):
        path.write_bytes(path.read_bytes()[:100])


def remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize("damage", [truncate, remove])
def test_column_stats_that_cannot_be_read_are_stood_in_for(table, tmp_path, damage):
    # case B84: partition statistics without column statistics
    path = shutil.copytree(table, tmp_path / "t")
    damage(path / ".hoodie/metadata/column_stats")
    reasons = check(path, "seq = 75", FILES // PARTITIONS)
    assert reasons["partition_stats"] == f"+ranges of seq in {PARTITIONS} partitions"
    assert not reasons["column_stats"].startswith("+")


def planned(path: Path, text: str, options: PlanOptions) -> Report:
    snapshot = lakedex.open(str(path)).snapshot
    tree = normalise(bind_predicate(parse_predicate(text), snapshot.schema, time_zone="UTC"))
    return plan(snapshot, tree, options=options)


def test_column_stats_that_cost_too_much_are_stood_in_for(tmp_path):
    """A small table: its ranges by partition are worth asking for, those by file are not."""
    ordered_table(tmp_path / "t", STATS, files=90, partitions=9)
    report = planned(tmp_path / "t", "seq = 75", PlanOptions(reader=ARROW))
    assert len(report.files) == 10, report
    reasons = said(report)
    assert reasons["column_stats"].startswith("not worth it: the lookup takes about")
    assert reasons["partition_stats"] == "+ranges of seq in 9 partitions"


@pytest.mark.parametrize("reader", [None, ARROW])
def test_of_many_files_whole_partitions_go_first(large, reader):
    each = MANY_FILES // MANY_PARTITIONS
    report = planned(large, "seq = 75", PlanOptions(reader=reader))
    steps = {step.index: (step.before, step.after) for step in report.steps if step.used}
    assert steps == {"partition_stats": (MANY_FILES, each), "column_stats": (each, 1)}
    assert list(steps) == ["partition_stats", "column_stats"], "cheap and broad first"
    assert said(report)["partition_stats"] == f"+ranges of seq in {MANY_PARTITIONS} partitions"
    assert ids(lakedex.open(str(large)), "seq = 75") == ["m37"]
    alone = planned(large, "seq = 75", PlanOptions(reader=reader, without=frozenset(STATS[:1])))
    assert len(alone.files) == each


def test_aggregates_of_an_expression_prune_partitions_of_many_files(large):
    table = opened(large, *STATS)
    report = table.explain("upper(name) = 'N00037B'")
    where = f"in 1 of {MANY_PARTITIONS} partitions"
    assert said(report)["expr_index_upper"] == f"+ranges of upper(name) {where}"
    assert len(report.files) == 1
    assert ids(table, "upper(name) = 'N00037B'") == ["m37"]
    assert len(table.explain("upper(name) >= 'N'").files) == MANY_FILES
    report = opened(large, *STATS).explain("name = 'n00037b'")
    by_column = f"+ranges of upper(name), by what is asked of the column {where}"
    assert said(report)["expr_index_upper"] == by_column
    assert len(report.files) == 1


def test_an_expression_answers_for_column_stats_that_cannot_be_read(tmp_path):
    # case B84: partition statistics without column statistics
    path = ordered_table(tmp_path / "t", (*STATS, UPPER))
    left_alone = check(path, "name = 'n00037b'", 1)
    assert left_alone["column_stats"] == "+ranges of name"
    assert not left_alone["expr_index_upper"].startswith("+")
    remove(path / ".hoodie/metadata/column_stats")
    reasons = check(path, "name = 'n00037b'", 1)
    assert reasons["expr_index_upper"].startswith("+ranges of upper(name)")


@pytest.mark.parametrize("indexes", [("record_index", "bloom_filters"), ("bloom_filters",)])
def test_filters_answer_for_a_record_index_that_cannot_be_read(tmp_path, indexes):
    # case B84: partition statistics without column statistics
    path = ordered_table(tmp_path / "t", indexes)
    for name in indexes[:-1]:
        assert check(path, "id = 'k7'", 1)[name].startswith("+")
        truncate(path / ".hoodie/metadata" / name)
    reasons = check(path, "id = 'k7'", 1)
    assert reasons["bloom_filters"].startswith("+1 keys tested")
    assert check(path, "id = 'k7'", 1, *indexes[:-1])["bloom_filters"].startswith("+1 keys tested")


@pytest.mark.parametrize("damage", [truncate, remove])
def test_column_stats_answer_for_a_secondary_index_that_cannot_be_read(tmp_path, damage):
    # case B84: partition statistics without column statistics
    path = ordered_table(tmp_path / "t", (*STATS, "record_index", SecondaryIndex("name", "name")))
    whole = check(path, "name = 'n00037b'", 1)
    assert whole["secondary_index_name"].startswith("+")
    assert not whole["column_stats"].startswith("+")
    damage(path / ".hoodie/metadata/secondary_index_name")
    assert check(path, "name = 'n00037b'", 1)["column_stats"] == "+ranges of name"


def test_what_another_index_located_is_not_asked_of_partitions(tmp_path):
    path = ordered_table(tmp_path / "t", (*STATS, "record_index", SecondaryIndex("seq", "seq")))
    reasons = check(path, "seq = 75", 1)
    assert reasons["secondary_index_seq"].startswith("+")
    assert not reasons["partition_stats"].startswith("+")
