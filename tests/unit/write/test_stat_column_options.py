"""Which columns have statistics, and in how many file groups: said at first, and said later."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import InvalidInput
from lakedex.index import size_estimate
from tests.support.write_lab import Lab, source

MOST = "hoodie.metadata.index.column.stats.max.columns.to.index"
GROUPS = "hoodie.metadata.index.column.stats.file.group.count"
WIDE = pa.schema([("id", pa.string()), *((name, pa.int64()) for name in "abcd")])


def rows(*keys: int) -> list[dict[str, object]]:
    return [{"id": f"k{key}", **dict.fromkeys("abcd", key)} for key in keys]


def indexed(lab: Lab) -> str:
    (stats,) = [each for each in lakedex.open(lab.path).indexes() if each.name == "column_stats"]
    return "".join(name for name in stats.columns if name in "abcd")


def wide(tmp_path, **options: str) -> Lab:
    return Lab(tmp_path, schema=WIDE, partition="", ordering="", **options)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_number_of_columns_may_change_and_no_file_lacks_a_range(tmp_path, kind):
    lab = Lab(tmp_path, kind, schema=WIDE, partition="", ordering="")
    small = {"hoodie.parquet.small.file.limit": "0"}
    lab.writer.with_options(small | {MOST: "2"}).insert(source(rows(1, 2), WIDE))
    assert indexed(lab) == "a"
    # More of them: the columns that come are read from the older files.
    lab.writer.with_options(small | {MOST: "4"}).insert(source(rows(3, 4), WIDE))
    assert indexed(lab) == "abc"
    lab.writer.with_options(small).insert(source(rows(5), WIDE))
    lab.holds(rows(1, 2, 3, 4, 5), "c = 1", "c > 3", "a < 2", "d = 2")
    assert len(lakedex.open(lab.path).files("c = 1")) == 1
    # Fewer: a column that has statistics keeps them.
    lab.writer.with_options(small | {MOST: "1"}).insert(source(rows(6), WIDE))
    lab.writer.with_options(small).insert(source(rows(7), WIDE))
    assert indexed(lab) == "abc"
    lab.holds(rows(*range(1, 8)), "c = 7", "c > 3")
    lab.writer.with_options(small | {MOST: "32"}).upsert(source(rows(1), WIDE))
    assert indexed(lab) == "abcd"
    lab.holds(rows(*range(1, 8)), "d = 7", "d > 3")
    assert lab.writer.target().kept[MOST] == "32"


def test_the_number_of_file_groups_is_that_of_the_index(tmp_path, monkeypatch):
    monkeypatch.setattr(size_estimate, "USUAL_STAT_GROUPS", 3)
    lab = wide(tmp_path)
    lab.writer.insert(source(rows(1), WIDE))
    monkeypatch.undo()
    lab.writer.with_options({GROUPS: "3"}).insert(source(rows(2), WIDE))
    for count in ("2", "4"):
        with pytest.raises(InvalidInput, match=f"{GROUPS}='{count}' contradicts .* keeps '3'"):
            lab.writer.with_options({GROUPS: count}).insert(source(rows(3), WIDE))
    lab.holds(rows(1, 2), "a = 1")


def test_a_number_of_file_groups_that_was_said_is_that_of_the_index(tmp_path):
    lab = wide(tmp_path, **{GROUPS: "5"})
    lab.writer.insert(source(rows(1), WIDE))
    table = lakedex.open(lab.path)
    assert len(table.snapshot.metadata.groups("column_stats")) == 5
    with pytest.raises(InvalidInput, match="keeps '5'"):
        lab.writer.with_options({GROUPS: "6"}).insert(source(rows(2), WIDE))
