"""Real Hudi reads and writes while lakedex builds an index, and uses the index after that."""

from __future__ import annotations

import pytest

import lakedex
from lakedex.services.indexing import start_build
from tests.interop.handing_over import (
    by_hudi,
    hudi_writes,
    make_table,
    merged,
    rows,
    source,
    writer_of,
)
from tests.interop.test_hudi_and_secondary_indexes import (
    INDEX,
    assert_both_prune,
    with_values,
)
from tests.support.index_builds import begun, lead, secondary


def test_hudi_writes_while_an_index_is_built_and_prunes_by_it_later(spark, tmp_path):
    path = str(tmp_path / "t")
    writer = make_table(path, "mor")
    first, mine = rows(0, 40, 1), with_values(rows(5, 7, 2), "by us")
    theirs, last = with_values(rows(6, 9, 3), "by them"), with_values(rows(8, 9, 4), "last")
    writer.upsert(source(first))
    claim = start_build(writer, {}, [secondary("s", "on_s")])

    def beside() -> None:
        hudi_writes(spark, path, theirs, tmp_path)
        assert by_hudi(spark, path) == merged(first, mine, theirs)
        config = lakedex.open(path).snapshot.config
        assert INDEX in config.metadata_partitions_inflight

    steps = lead(
        writer,
        claim,
        {
            "read": lambda: writer_of(path).upsert(source(mine)),
            "write": beside,
            "switch": lambda: writer_of(path).upsert(source(last)),
        },
    )
    assert steps.count("read") == 2, "a commit of Hudi says nothing of the index"
    report = lakedex.open(path).verify()
    assert report.ok, report
    assert_both_prune(spark, path, "by them", ["k006", "k007"], 2)
    assert_both_prune(spark, path, "s6-1", [], 0)
    hudi_writes(spark, path, with_values(rows(5, 6, 6), "after"), tmp_path)
    report = lakedex.open(path).verify()
    assert report.ok, report
    assert_both_prune(spark, path, "after", ["k005"], 1)


@pytest.mark.parametrize("columns", [("p", "s"), "concat(p, s)"])
def test_hudi_hears_nothing_of_an_index_that_it_does_not_know(spark, tmp_path, columns):
    """Neither while it is built nor afterwards, and its commits make for another look."""
    path = str(tmp_path / "t")
    writer = make_table(path, "mor")
    first, theirs = rows(0, 40, 1), with_values(rows(6, 9, 3), "by them")
    mine, last = with_values(rows(5, 7, 2), "by us"), with_values(rows(8, 9, 4), "last")
    writer.upsert(source(first))
    claim = begun(writer, "own", columns)
    (index,) = claim.build.names
    found: list[object] = []

    def beside() -> None:
        hudi_writes(spark, path, theirs, tmp_path)
        found.append(by_hudi(spark, path))
        assert index in lakedex.open(path).snapshot.config.metadata_partitions_inflight

    steps = lead(
        writer,
        claim,
        {
            "read": lambda: writer_of(path).upsert(source(mine)),
            "write": beside,
            "switch": lambda: writer_of(path).upsert(source(last)),
        },
    )
    assert found == [merged(first, mine, theirs)]
    assert steps.count("read") == 2
    report = lakedex.open(path).verify([index])
    assert report.ok, report
    assert report.checked[index], report
    # Of two partitions: where one file is left, no index is needed any more.
    both = "p IN ('p0', 'p1') AND s = 'by us'"
    asked = both if columns == ("p", "s") else "concat(p, s) = 'p0by us'"
    options = lakedex.ReadOptions(weighs_cost=False)
    steps_of = lakedex.open(path, options=options).explain(asked).steps
    assert any(step.index == index and step.used for step in steps_of), steps_of
    assert by_hudi(spark, path) == merged(first, mine, theirs, last)
    hudi_writes(spark, path, with_values(rows(5, 6, 6), "after"), tmp_path)
    assert lakedex.open(path).verify().ok
