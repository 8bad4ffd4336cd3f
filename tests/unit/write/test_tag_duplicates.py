"""One row of each key in a write: which one wins."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakedex.write.rows import DELETE, KEY, PARTITION
from lakedex.write.tag.duplicates import deduplicate


def rows(values: list, value_type: pa.DataType, deletes: list[bool] | None = None) -> pa.Table:
    count = len(values)
    return pa.table(
        {
            KEY: ["k"] * count,
            PARTITION: ["p"] * count,
            DELETE: deletes or [False] * count,
            "v": pa.array(values, value_type),
            "at": range(count),
        }
    )


def winner(table: pa.Table, ordering: tuple[str, ...] = ("v",)) -> int:
    [found] = deduplicate(table, ordering, per_partition=False)["at"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("values", "value_type", "wins"),
    [
        ([3, 5, 4], pa.int64(), 1),
        ([5, 5, 4], pa.int32(), 1),
        ([None, 1, None], pa.int64(), 1),
        ([None, -1], pa.int64(), 0),
        ([float("nan"), float("inf")], pa.float64(), 0),
        ([1.5, float("nan"), 2.5, None], pa.float32(), 1),
        (["b", "a", None], pa.string(), 0),
        ([Decimal("1.10"), Decimal("1.2")], pa.decimal128(10, 2), 1),
        ([b"\xff", b"\x00"], pa.binary(), 0),
        ([7, 7, 7], pa.timestamp("us", "UTC"), 2),
    ],
)
def test_largest_ordering_value_wins(values: list, value_type: pa.DataType, wins: int) -> None:
    assert winner(rows(values, value_type)) == wins


def test_several_ordering_columns_count_in_order() -> None:
    table = rows([1, 2, 2, 2], pa.int64()).append_column("w", pa.array([9, 1, 3, 2]))
    assert winner(table, ("v", "w")) == 2


def test_delete_wins_over_every_value_and_the_last_of_them_is_kept() -> None:
    assert winner(rows([1, None, None, 9], pa.int64(), [False, True, True, False])) == 2


def test_without_ordering_the_last_row_wins() -> None:
    assert winner(rows([3, 2, 1], pa.int64(), [False, True, False]), ()) == 2


def test_against_a_dictionary() -> None:
    rng = np.random.default_rng(1)
    count = 20_000
    table = pa.table(
        {
            KEY: pa.array([f"k{n}" for n in rng.integers(0, 4000, count)]),
            PARTITION: pa.array([f"p{n}" for n in rng.integers(0, 3, count)]),
            DELETE: [False] * count,
            "v": rng.integers(0, 50, count),
            "at": range(count),
        }
    )
    table = pa.concat_tables([table.slice(0, 7000), table.slice(7000)])
    for per_partition in (False, True):
        best: dict[tuple[str, str], tuple[int, int]] = {}
        for row in table.to_pylist():
            key = (row[KEY], row[PARTITION] if per_partition else "")
            best[key] = max(best.get(key, (-1, -1)), (row["v"], row["at"]))
        found = deduplicate(table, ["v"], per_partition=per_partition)
        assert found["at"].to_pylist() == sorted(at for _, at in best.values())


def test_unique_rows_are_not_copied() -> None:
    table = rows([1], pa.int64())
    assert deduplicate(table, ["v"], per_partition=False) is table
    assert deduplicate(table.slice(0, 0), ["v"], per_partition=True).num_rows == 0
