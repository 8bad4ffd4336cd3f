"""A record index of the newest days in Spark jobs: built, asked first, and followed by commits."""

from __future__ import annotations

import lakedex
from tests.support.windowed import covered_partitions, state_of


def test_a_window_over_spark_jobs(lake, spark, tmp_path):
    path = str(tmp_path / "t")
    table = lake.create_table(
        "t",
        "id string, day string, v bigint",
        path=path,
        record_key="id",
        ordering="v",
        partition_by="day",
        table_type="mor",
        properties={
            "hoodie.index.type": "RECORD_INDEX",
            "hoodie.record.index.update.partition.path": "true",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "lakedex.record.index.window.days": "2",
        },
    )

    def frame(first: int, last: int, day: str, version: int):
        rows = [(f"k{n}", day.format(1 + n % 4), version) for n in range(first, last)]
        return spark.createDataFrame(rows, "id string, day string, v bigint").repartition(2)

    table.bulk_insert(frame(0, 200, "2026-01-{:02d}", 1))
    assert covered_partitions(path) == {"day=2026-01-03", "day=2026-01-04"}
    # Some are found in the index, some in older files, and some nowhere; all come to one day.
    result = table.upsert(frame(150, 240, "2026-01-04", 2))
    assert (result.index_lookups, result.index_hits) == (90, 50)
    table.delete("v = 1 and day = '2026-01-03'")
    held = {
        row["id"]: (row["day"][-2:], row["v"])
        for row in lakedex.open(path).to_arrow(columns=["id", "day", "v"]).to_pylist()
    }
    before = {f"k{n}": (f"{1 + n % 4:02d}", 1) for n in range(150) if n % 4 != 2}
    assert held == before | {f"k{n}": ("04", 2) for n in range(150, 240)}
    assert table.verify().ok
    assert len(state_of(path).runs) == 3
