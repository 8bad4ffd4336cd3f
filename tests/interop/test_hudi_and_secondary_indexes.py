"""Secondary indexes between lakedex and real Hudi: each prunes by what both keep up."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from lakedex.services.index_creating import create_index, refresh_index
from tests.interop.handing_over import (
    assert_holds,
    by_lakedex,
    hudi_writes,
    make_table,
    merged,
    rows,
    source,
    writer_of,
)
from tests.interop.reading import ask
from tests.interop.test_hudi_takes_over import hudi_indexes

INDEX = "secondary_index_on_s"
PLAIN = {"hoodie.metadata.record.index.enable": "false", "hoodie.index.type": "GLOBAL_SIMPLE"}


def assert_both_prune(spark, path: str, value: str, keys: list[str], files: int) -> None:
    """Both engines find the same rows of a value, in as many files."""
    answer = ask(spark, path, f"s = '{value}'")
    assert (answer.ids, answer.files) == (keys, files), value
    assert [row[0] for row in by_lakedex(path, f"s = '{value}'")] == keys
    steps = {step.index: step for step in lakedex.open(path).explain(f"s = '{value}'").steps}
    assert steps[INDEX].after == files, steps[INDEX].reason


def with_values(table: pa.Table, value: str) -> pa.Table:
    """The rows with another value in the indexed column."""
    return table.set_column(3, "s", pa.array([value] * len(table)))


@pytest.mark.parametrize(("kind", "built_by"), [("mor", "lakedex"), ("cow", "hudi")])
def test_either_builds_it_and_both_keep_it_up(spark, tmp_path, kind, built_by):
    path = str(tmp_path / "t")
    writer = make_table(path, kind)
    first = rows(0, 40, 1)
    writer.upsert(source(first))
    if built_by == "hudi":
        hudi_indexes(spark, path, "s")
    else:
        create_index(writer, "on_s", "s")
    mine, theirs = with_values(rows(5, 7, 2), "by$us"), with_values(rows(6, 8, 3), "by\\them")
    writer_of(path).upsert(source(mine))
    assert lakedex.open(path).verify().ok
    assert_both_prune(spark, path, "by$us", ["k005", "k006"], 2)
    hudi_writes(spark, path, theirs, tmp_path)
    assert lakedex.open(path).verify().ok
    last = rows(5, 7, 5)
    writer_of(path).upsert(source(last))
    writer_of(path).delete(source(rows(7, 9, 6)))
    assert_both_prune(spark, path, "s8-1", [], 0)
    assert_holds(spark, path, merged(first, mine, theirs, last, without=["k007", "k008"]))


# case B17: secondary index without record index
@pytest.mark.parametrize(("kind", "wait"), [("mor", True), ("cow", False)])
def test_hudi_uses_both_indexes_of_a_statement_on_a_plain_table(spark, tmp_path, kind, wait):
    path = str(tmp_path / "t")
    writer = make_table(path, kind, options=PLAIN)
    first = rows(0, 40, 1)
    writer.upsert(source(first))
    assert "record_index" not in lakedex.open(path).snapshot.config.metadata_partitions
    made = create_index(writer_of(path), "on_s", "s", wait=wait)
    assert wait or made.wait()
    assert {"record_index", INDEX} <= {*lakedex.open(path).snapshot.config.metadata_partitions}
    assert_both_prune(spark, path, "s7-1", ["k007"], 1)
    assert ask(spark, path, "id = 'k009'").files == 1
    theirs = with_values(rows(6, 8, 3), "by them")
    hudi_writes(spark, path, theirs, tmp_path)
    assert lakedex.open(path).verify().ok
    assert_both_prune(spark, path, "by them", ["k006", "k007"], 2)
    assert_holds(spark, path, merged(first, theirs))


def test_a_covering_index_is_to_hudi_as_any_other(spark, tmp_path):
    """Hudi prunes by it and keeps it up, and lakedex then trusts the record index again."""
    path = str(tmp_path / "t")
    writer = make_table(path, "mor")
    first = rows(0, 40, 1)
    writer.upsert(source(first))
    create_index(writer, "on_s", "s", options={"lakedex.covering": "true"})
    mine, theirs = with_values(rows(5, 7, 2), "by us"), with_values(rows(6, 8, 3), "by them")
    writer_of(path).upsert(source(mine))
    assert_both_prune(spark, path, "by us", ["k005", "k006"], 2)
    assert "that the entries name" in said_of(path, "by us")
    hudi_writes(spark, path, theirs, tmp_path)
    assert lakedex.open(path).verify().ok
    assert_both_prune(spark, path, "by them", ["k006", "k007"], 2)
    assert "that the entries name" not in said_of(path, "by them")
    refresh_index(writer_of(path), "on_s")
    assert "that the entries name" in said_of(path, "by them")
    assert_both_prune(spark, path, "by us", ["k005"], 1)
    assert_holds(spark, path, merged(first, mine, theirs))


def said_of(path: str, value: str) -> str:
    """What the index says of a lookup."""
    steps = lakedex.open(path).explain(f"s = '{value}'").steps
    return next(step.reason for step in steps if step.index == INDEX)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_index_on_two_columns_is_nothing_that_hudi_knows(spark, tmp_path, kind):
    """It reads, writes and compacts the metadata table; lakedex does without it until REFRESH."""
    path, name = str(tmp_path / "t"), "secondary_index_composite-both"
    writer = make_table(path, kind)
    first = rows(0, 40, 1)
    writer.upsert(source(first))
    create_index(writer, "both", ("p", "s"))
    mine = with_values(rows(5, 9, 2), "by us")
    writer_of(path).upsert(source(mine))
    assert ask(spark, path, "p > 'p' AND s = 'by us'").ids == ["k005", "k006", "k007", "k008"]

    def said(predicate: str) -> str:
        options = lakedex.ReadOptions(weighs_cost=False)
        steps = lakedex.open(path, options=options).explain(predicate).steps
        return next(step.reason for step in steps if step.index == name)

    asked = "p IN ('p1', 'p2') AND s = 'by us'"
    assert "2 values asked, 2 rows in 2 file groups" in said(asked)
    theirs = with_values(rows(6, 8, 3), "by them")
    entries, folder = lakedex.open(path).metadata(name), tmp_path / "t/.hoodie/metadata" / name
    files = set(folder.glob("*.hfile"))
    hudi_writes(spark, path, theirs, tmp_path, hoodie_metadata_compact_max_delta_commits="1")
    assert set(folder.glob("*.hfile")) > files, "Hudi did not compact it"
    assert lakedex.open(path).metadata(name).equals(entries)
    assert "another engine" in said(asked)
    assert_holds(spark, path, merged(first, mine, theirs))
    refresh_index(writer_of(path), "both")
    assert "2 values asked, 1 rows in 1 file groups" in said(asked)
    assert lakedex.open(path).verify().ok
