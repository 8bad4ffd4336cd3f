"""One row of each key in a write: which one wins."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakedex.write import tag_stage
from lakedex.write.rows import DELETE, KEY, PARTITION
from lakedex.write.tag_stage import deduplicate
from tests.support.write_lab import Lab, row, source


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
        for each in table.to_pylist():
            key = (each[KEY], each[PARTITION] if per_partition else "")
            best[key] = max(best.get(key, (-1, -1)), (each["v"], each["at"]))
        found = deduplicate(table, ["v"], per_partition=per_partition)
        assert found["at"].to_pylist() == sorted(at for _, at in best.values())


def test_unique_rows_are_not_copied() -> None:
    table = rows([1], pa.int64())
    assert deduplicate(table, ["v"], per_partition=False) is table
    assert deduplicate(table.slice(0, 0), ["v"], per_partition=True).num_rows == 0


@pytest.mark.parametrize(
    ("kind", "index"), [("cow", "SIMPLE"), ("mor", "GLOBAL_RECORD_LEVEL_INDEX")]
)
def test_no_more_rows_are_held_at_a_time_than_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, index: str
) -> None:
    most, held = 8192, []

    def watched(rows: pa.Table, ordering: tuple[str, ...], *, per_partition: bool) -> pa.Table:
        held.append(rows.nbytes)
        return deduplicate(rows, ordering, per_partition=per_partition)

    monkeypatch.setattr(tag_stage, "PORTION_BYTES", most)
    monkeypatch.setattr(tag_stage, "deduplicate", watched)
    lab = Lab(tmp_path, kind, index)
    first = [row(f"k{n}", f"p{n % 3}", 1, float(n)) for n in range(2000)]
    lab.writer.upsert(source(first))
    # Every key three times, its newest version in the middle.
    changes = [row(f"k{n}", f"p{n % 3}", version, 0.5) for version in (2, 4, 3) for n in range(900)]
    lab.writer.upsert(source(changes))
    assert sum(held) > 10 * most
    assert max(held) < 2 * most
    newest = [row(f"k{n}", f"p{n % 3}", 4, 0.5) for n in range(900)]
    lab.holds([*newest, *first[900:]], "id = 'k7'")
