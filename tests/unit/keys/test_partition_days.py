"""Days of partition paths: levels, column names, escapes, and paths that have none."""

from __future__ import annotations

import pytest

from lakedex.config import TableConfig
from lakedex.errors import InvalidInput
from lakedex.keys.partition_path import PartitionDays

DAY = 20458  # 2026-01-05


def days(text: str | None = None, **timebased: str) -> PartitionDays:
    props = {"hoodie.table.name": "t", "hoodie.table.version": "9"}
    props |= {f"hoodie.keygen.timebased.{name}": value for name, value in timebased.items()}
    config = TableConfig.from_properties(props, "hoodie.properties")
    return PartitionDays.of(config, text, option="an.option")


@pytest.mark.parametrize(
    ("text", "path", "day"),
    [
        (None, "2026-01-05", DAY),
        (None, "day=2026-01-05", DAY),
        (None, "oslo/2026-01-05", DAY),
        (None, "city=a%3Db/day=2026-01-05/hour=7", DAY),
        (None, "2026-01-05/2026-01-09", DAY),
        ("yyyy/MM/dd", "2026/01/05", DAY),
        ("yyyy/MM/dd", "ts=2026/01/05", DAY),
        ("yyyy/MM/dd", "2026%2F01%2F05", DAY),
        ("yyyyMMdd", "eu/20260105", DAY),
        ("yyyy-MM-dd-HH", "2026-01-05-23", DAY),
        ("dd.MM.yyyy", "05.01.2026", DAY),
        ("yyyy-MM", "2026-01", DAY - 4),
        (None, "1969-12-31", -1),
        (None, "2026-02-30", None),
        (None, "2026-1-5", None),
        (None, "__HIVE_DEFAULT_PARTITION__", None),
        (None, "", None),
    ],
)
def test_the_day_of_a_path(text, path, day):
    assert days(text).of_paths([path, path, "nothing"]).get(path) == day


def test_the_pattern_of_time_based_partitions_counts_where_none_is_given():
    found = days(**{"output.dateformat": "yyyy/MM/dd"})
    assert found.of_paths(["2026/01/05", "2026-01-05"]) == {"2026/01/05": DAY}


def test_a_pattern_without_a_day_is_refused_by_the_name_of_its_option():
    with pytest.raises(InvalidInput, match=r"an\.option='mm'"):
        days("mm")
