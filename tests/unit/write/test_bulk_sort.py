"""Bulk inserts that sort: every file has a range of its own, and the rows are those given."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import TableSpec, create_table
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

SCHEMA = pa.schema([("id", pa.string()), ("x", pa.int32()), ("y", pa.int64()), ("p", pa.string())])
SMALL = {"hoodie.parquet.max.file.size": "6000"}
MODE = "hoodie.bulkinsert.sort.mode"


def rows(count: int = 4000) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "id": [f"k{number:05d}" for number in rng.permutation(count)],
            "x": pa.array(rng.integers(0, 1000, count), mask=rng.random(count) < 0.02),
            "y": rng.permutation(count),
            "p": [f"p{number}" for number in rng.integers(0, 2, count)],
        },
        schema=SCHEMA,
    )


def writer(path, options: dict[str, str] | None = None) -> TableWriter:
    address = StorageAddress.of(str(path))
    properties = {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
    spec = TableSpec("t", SCHEMA, "id", partition_by="p", properties=properties)
    create_table(address.open(), spec)
    return TableWriter(address, LocalEngine(2), SMALL | (options or {}))


def values_by_file(path, column: str) -> dict[str, list[list]]:
    """The values of each file as they stand there, by partition."""
    found: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    for row in lakedex.open(str(path)).to_arrow().to_pylist():
        found[row["p"]][row["_hoodie_file_name"]].append(row[column])
    return {partition: list(files.values()) for partition, files in found.items()}


def nulls_first(value: object) -> tuple[bool, object]:
    return value is not None, value


def assert_same(path) -> None:
    table = lakedex.open(str(path))
    assert table.to_arrow(columns=SCHEMA.names).sort_by("id").equals(rows().sort_by("id"))
    assert table.verify().ok


@pytest.mark.parametrize(
    ("column", "sort_by", "options"),
    [
        ("id", (), {MODE: "GLOBAL_SORT"}),
        ("x", "x", {}),
        ("y", ["y", "x"], {}),
        ("y", (), {"hoodie.bulkinsert.user.defined.partitioner.sort.columns": "y"}),
    ],
)
def test_every_file_has_its_own_range(column, sort_by, options, tmp_path):
    result = writer(tmp_path, options).bulk_insert(ArrowRowSource(rows()), sort_by)
    assert result.inserted == 4000
    for files in values_by_file(tmp_path, column).values():
        assert len(files) > 5
        assert max(map(len, files)) < 1.5 * min(map(len, files))
        for values in files:
            assert values == sorted(values, key=nulls_first)
        files.sort(key=lambda values: (nulls_first(values[0]), nulls_first(values[-1])))
        for one, other in pairwise(files):
            assert nulls_first(one[-1]) <= nulls_first(other[0])
    assert_same(tmp_path)


def test_a_curve_prunes_by_every_column(tmp_path):
    options = {"hoodie.layout.optimize.strategy": "z-order"}
    writer(tmp_path, options).bulk_insert(ArrowRowSource(rows()), ["x", "y"])
    table = lakedex.open(str(tmp_path))
    for question in ("x > 900 and x < 910", "y >= 100 and y < 120"):
        assert len(table.files(question)) <= len(table.files()) * 0.6
    assert_same(tmp_path)


def test_rows_may_be_sorted_inside_of_files_only(tmp_path):
    writer(tmp_path, {MODE: "partition_sort"}).bulk_insert(ArrowRowSource(rows()))
    for files in values_by_file(tmp_path, "id").values():
        assert len(files) > 5
        for values in files:
            assert values == sorted(values)
        assert len({values[0] < "k00300" for values in files}) == 1, "no file has its own range"
    assert_same(tmp_path)


@pytest.mark.parametrize("mode", ["NONE", "PARTITION_PATH_REPARTITION"])
def test_modes_that_do_not_sort_leave_rows_as_they_come(mode, tmp_path):
    writer(tmp_path, {MODE: mode}).bulk_insert(ArrowRowSource(rows()))
    files = [values for each in values_by_file(tmp_path, "id").values() for values in each]
    assert not any(values == sorted(values) for values in files)


@pytest.mark.parametrize(
    ("sort_by", "options", "part"),
    [
        ((), {MODE: "ALPHABETICAL"}, "must be one of NONE, GLOBAL_SORT"),
        ((), {"hoodie.layout.optimize.strategy": "peano"}, "linear, z-order, hilbert"),
        ("z", {}, "no column 'z'"),
        (["x", "x"], {}, "'x' twice"),
    ],
)
def test_bad_orders_are_refused_before_anything_is_written(sort_by, options, part, tmp_path):
    to = writer(tmp_path)
    with pytest.raises(InvalidInput, match=part):
        to.with_options(options).bulk_insert(ArrowRowSource(rows(10)), sort_by)
    assert not lakedex.open(str(tmp_path)).timeline.instants


def test_a_second_sorted_load_does_not_touch_the_first(tmp_path):
    to = writer(tmp_path)
    everything = rows()
    to.bulk_insert(ArrowRowSource(everything[:2000]), "y")
    before = {file.base.name for file in lakedex.open(str(tmp_path)).files()}
    to.bulk_insert(ArrowRowSource(everything[2000:]), "y")
    assert before < {file.base.name for file in lakedex.open(str(tmp_path)).files()}
    assert_same(tmp_path)
