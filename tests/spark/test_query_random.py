"""Random predicates through plain `spark.sql`, with every index on, against an ordinary view.

A table of many small files, some of them with log files; commits fall between the queries.
`LAKEDEX_RANDOM_QUERIES` asks for more predicates than the few of every run.
"""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest

import lakedex
from tests.spark.filter_lab import ZONE
from tests.spark.filter_zoo import FILES, SCHEMA, zoo_rows
from tests.spark.random_filters import random_filter

QUERIES = int(os.environ.get("LAKEDEX_RANDOM_QUERIES", "9"))
ROUNDS = 3
FACE, PLAIN = "zoo_face", "zoo_plain"
PROPERTIES = {
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
MUST_PRUNE = {
    "p = '07'": 1,
    "p IN ('07', '08') AND id >= 0": 2,
    "id = 71": 1,
    "id IN (1, 100, 200)": 3,
    "id < 0": 0,
    "i > 2147483647 OR i < -2147483648": 0,
}


def updated(rows: pa.Table, round_number: int) -> pa.Table:
    """New values for the rows of every third file."""
    others = zoo_rows(seed=100 + round_number)
    numbers = [n for n in range(len(rows)) if (n // 7) % ROUNDS == round_number]
    values = others.take(numbers)
    for name in ("id", "p"):
        at = values.schema.get_field_index(name)
        values = values.set_column(at, SCHEMA.field(name), rows[name].take(numbers))
    return values


@pytest.mark.parametrize(("kind", "zone"), [("cow", "UTC"), ("mor", "Europe/Berlin")])
def test_rows_are_those_of_an_ordinary_view(lake, setting, tmp_path, kind, zone):
    setting(ZONE, zone)
    setting("spark.sql.ansi.enabled", "false")
    spark = lake.spark
    table = lake.create_table(
        f"zoo_{kind}",
        SCHEMA,
        path=tmp_path / "zoo",
        record_key="id",
        partition_by="p",
        table_type=kind,
        properties=PROPERTIES,
    )
    rows = zoo_rows()
    table.insert(rows)
    spark.read.format("hudi").load(table.path).createOrReplaceTempView(FACE)
    dice = random.Random(f"{kind} {zone} {QUERIES}")
    asked = pruned = 0
    for number in range(ROUNDS):
        table.upsert(updated(rows, number))
        plain = lakedex.open(table.path).to_arrow().select(SCHEMA.names)
        frame = spark.createDataFrame(plain.to_pylist(), table.to_df().select(*SCHEMA.names).schema)
        frame.cache().createOrReplaceTempView(PLAIN)
        try:
            filters = [random_filter(dice, raising=True) for _ in range(-(-QUERIES // ROUNDS))]
            for condition in [*filters, *MUST_PRUNE]:
                query = f"SELECT id FROM {{}} WHERE {condition}"
                found = sorted(row["id"] for row in spark.sql(query.format(FACE)).collect())
                wanted = sorted(row["id"] for row in spark.sql(query.format(PLAIN)).collect())
                assert found == wanted, condition
                report = lake.explain(query.format(FACE))
                # Spark itself sees through a condition that no row can meet.
                assert report.total in (0, FILES)
                assert len(report.files) <= MUST_PRUNE.get(condition, FILES), condition
                asked += 1
                pruned += len(report.files) < FILES
        finally:
            frame.unpersist()
    assert pruned > asked // 2
