"""Verifying with several threads: the same report in the same order, in bounded memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lakedex
from lakedex.index.verification import keys as verification_keys
from lakedex.index.verification.keys import RowKeys

TABLES = ("cow_trips_all_indexes", "mor_trips_all_indexes", "sharded_record_index")


def damaged(damage, name: str):
    """Something wrong in several groups of an index."""
    table = damage(name)
    keys = table.keys("record_index")
    entry = table.record("record_index", keys[0])
    table.put("record_index", {f"nobody-{number}": entry for number in range(9)})
    return table


@pytest.mark.parametrize("name", TABLES[:2])
def test_any_number_of_threads_tells_the_same_in_the_same_order(damage, name):
    table = damaged(damage, name)
    one, several = (table.open().verify(threads=threads) for threads in (1, 5))
    assert [each.key for each in one.problems if each.key.startswith("nobody")]
    assert one == several


@pytest.mark.parametrize("name", TABLES)
def test_keys_that_do_not_fit_into_memory_are_compared_all_the_same(golden, monkeypatch, name):
    made: list[RowKeys] = []

    def small(group_count: int) -> RowKeys:
        made.append(RowKeys(group_count, most_bytes=100))
        return made[-1]

    for kind in ("record_index", "secondary"):
        monkeypatch.setattr(f"lakedex.index.kinds.{kind}.check.RowKeys", small)
    report = lakedex.open(golden(name).path).verify(threads=3)
    assert report.ok, report
    assert made
    assert all(each._folder is None for each in made)


def test_steps_are_told_as_they_are_done(golden):
    told: list[tuple[int, int]] = []
    table = lakedex.open(golden(TABLES[0]).path)
    table.verify(listener=lambda done, total: told.append((done, total)))
    total = len(table.snapshot.slices) + len(table.snapshot.config.metadata_partitions)
    assert told == [(done, total) for done in range(total + 1)]


def test_spilled_keys_come_back_group_by_group(monkeypatch):
    monkeypatch.setattr(verification_keys, "_MOST_BUCKETS", 3)
    keys = RowKeys(group_count=7, most_bytes=200)
    expected: dict[int, list[tuple[str, int]]] = {}
    for slice_number in range(20):
        names = [f"k{slice_number}-{at}" for at in range(5)]
        groups = np.array([(slice_number + 3 * at) % 8 - 1 for at in range(5)], np.int32)
        keys.add(pa.array(names), slice_number, groups)
        for name, group in zip(names, groups.tolist(), strict=True):
            expected.setdefault(group, []).append((name, slice_number))
    assert keys._folder is not None
    folder = keys._folder.name
    for group in range(-1, 7):
        found, slices = keys.of_group(group)
        assert list(zip(found.to_pylist(), slices.tolist(), strict=True)) == expected[group]
    keys.close()
    assert not verification_keys.Path(folder).exists()
