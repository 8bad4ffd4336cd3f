"""Real Hudi reads and writes while lakedex builds an index, and uses the index after that."""

from __future__ import annotations

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
from tests.support.index_builds import lead, secondary


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
