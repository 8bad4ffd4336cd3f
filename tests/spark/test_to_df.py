"""Tables that Hudi wrote, as DataFrames: the same rows as without Spark."""

from __future__ import annotations

import pytest

import lakedex


def sorted_rows(rows: list[dict]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


@pytest.mark.parametrize(
    "name",
    [
        "cow_trips_all_indexes",
        "mor_trips_all_indexes",
        "schema_evolution",
        "v6_mor",
    ],
)
def test_rows_are_those_of_the_reader_without_spark(golden, lake, name):
    path = golden(name).path
    table = lakedex.open(path)
    found = lake.table(path).to_df()
    assert found.columns == table.schema.names
    expected = table.to_arrow()
    answer = [row.asDict(recursive=True) for row in found.collect()]
    assert len(answer) == expected.num_rows > 0
    key = "_hoodie_record_key"
    assert sorted(row[key] for row in answer) == sorted(expected[key].to_pylist())
    plain = [
        name for name in found.columns if "timestamp" not in str(table.schema.field(name).type)
    ]
    assert sorted_rows([{n: row[n] for n in plain} for row in answer]) == sorted_rows(
        expected.select(plain).to_pylist()
    )


def test_an_earlier_time_shows_the_rows_of_then(golden, lake):
    path = golden("mor_trips_all_indexes").path
    table = lakedex.open(path)
    first = table.timeline.write_instants()[0].requested_time
    count = lake.table(path).to_df(as_of=first).count()
    assert count == table.to_arrow(as_of=first).num_rows


def test_spark_filters_and_joins_the_rows(golden, lake):
    path = golden("cow_trips_all_indexes").path
    rows = lake.table(path).to_df()
    cities = {row["city"] for row in rows.select("city").distinct().collect()}
    assert cities == set(lakedex.open(path).to_arrow()["city"].to_pylist())
