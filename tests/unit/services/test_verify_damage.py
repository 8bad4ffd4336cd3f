"""Each index damaged on purpose: verify finds that damage, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from lakedex.index.metadata_table.keys import bloom_key, column_stats_key, column_stats_prefix
from lakedex.index.verification.findings import Problem, ProblemKind

TABLE = "cow_trips_all_indexes"
STATS = "ColumnStatsMetadata"


def problems_of(damage) -> list[tuple[str, ProblemKind, str]]:
    return [(each.index, each.kind, each.key) for each in damage.open().verify().problems]


def only_problem(damage) -> Problem:
    (problem,) = damage.open().verify().problems
    return problem


def newest_file(damage):
    """A slice that holds rows, and its path."""
    found = damage.open().snapshot.slices[0]
    return found, found.path_of(found.base.name)


def test_a_wrong_location_in_the_record_index_is_found(damage):
    table = damage(TABLE)
    first, second = table.open().snapshot.slices[:2]
    wrong_key = next(
        key
        for key in table.keys("record_index")
        if table.record("record_index", key)["recordIndexMetadata"]["partitionName"]
        == first.partition
    )
    donor = next(
        record
        for key in table.keys("record_index")
        if (record := table.record("record_index", key))["recordIndexMetadata"]["partitionName"]
        != first.partition
    )
    table.put("record_index", {wrong_key: donor})
    problem = only_problem(table)
    assert (problem.index, problem.kind, problem.key) == (
        "record_index",
        ProblemKind.WRONG,
        wrong_key,
    )
    assert donor["recordIndexMetadata"]["partitionName"] in problem.detail
    assert first.partition in problem.detail
    assert second.id != first.id


def test_a_key_without_entry_in_the_record_index_is_found(damage):
    table = damage(TABLE)
    gone = table.keys("record_index")[7]
    table.remove("record_index", [gone])
    assert problems_of(table) == [("record_index", ProblemKind.MISSING, gone)]


def test_an_entry_without_row_in_the_record_index_is_found(damage):
    table = damage(TABLE)
    record = table.record("record_index", table.keys("record_index")[0])
    table.put("record_index", {"nobody": record})
    assert problems_of(table) == [("record_index", ProblemKind.STALE, "nobody")]


def test_a_pair_missing_and_a_pair_too_many_in_a_secondary_index_are_found(damage):
    table = damage(TABLE)
    gone = table.keys("secondary_index_idx_city")[3]
    record = table.record("secondary_index_idx_city", gone)
    value, _, key = gone.partition("$")
    table.write("secondary_index_idx_city", {f"{value}x${key}": record}, [gone])
    assert sorted(problems_of(table), key=str) == sorted(
        [
            ("secondary_index_idx_city", ProblemKind.MISSING, gone),
            ("secondary_index_idx_city", ProblemKind.STALE, f"{value}x${key}"),
        ],
        key=str,
    )


def test_an_entry_in_the_group_of_another_key_is_missing_where_it_belongs(damage):
    table = damage("sharded_record_index")
    key = table.keys("record_index")[0]
    record = table.record("record_index", key)
    other = next(each for each in (f"x{i}" for i in range(99)) if _shard(each) != _shard(key))
    # The log is written for another key of that group, then its key is exchanged.
    table.write("record_index", {other: record}, [key])
    found = sorted(problems_of(table), key=str)
    assert found == sorted(
        [
            ("record_index", ProblemKind.MISSING, key),
            ("record_index", ProblemKind.STALE, other),
        ],
        key=str,
    )


@pytest.mark.parametrize("end", ["minValue", "maxValue"])
def test_a_bound_that_leaves_out_a_value_is_found(damage, end):
    table = damage(TABLE)
    chosen, path = newest_file(table)
    key = column_stats_key("fare", chosen.partition, chosen.base.name)

    def narrow(record: dict[str, Any]) -> None:
        stats = record[STATS]
        low, high = (stats[name]["member4"]["value"] for name in ("minValue", "maxValue"))
        stats[end]["member4"]["value"] = (low + high) / 2

    table.edit("column_stats", key, narrow)
    problem = only_problem(table)
    assert (problem.index, problem.kind) == ("column_stats", ProblemKind.WRONG)
    assert problem.key == f"fare in {path}"
    assert "the data has" in problem.detail


def test_a_bound_that_is_wider_than_the_data_is_fine(damage):
    table = damage(TABLE)
    chosen, _ = newest_file(table)
    key = column_stats_key("fare", chosen.partition, chosen.base.name)

    def widen(record: dict[str, Any]) -> None:
        record[STATS]["minValue"]["member4"]["value"] = -1e9
        record[STATS]["maxValue"]["member4"]["value"] = 1e9

    table.edit("column_stats", key, widen)
    assert table.open().verify().ok


@pytest.mark.parametrize("count", ["valueCount", "nullCount"])
def test_a_wrong_count_is_found_and_an_unknown_one_is_fine(damage, count):
    table = damage(TABLE)
    chosen, path = newest_file(table)
    wrong = column_stats_key("rider", chosen.partition, chosen.base.name)
    unknown = column_stats_key("driver", chosen.partition, chosen.base.name)
    changed = {key: table.record("column_stats", key) for key in (wrong, unknown)}
    changed[wrong][STATS][count] += 1
    changed[unknown][STATS][count] = -1
    table.put("column_stats", changed)
    problem = only_problem(table)
    assert (problem.kind, problem.key) == (ProblemKind.WRONG, f"rider in {path}")


def test_one_missing_column_and_a_file_without_any_entry_are_told_apart(damage):
    table = damage(TABLE)
    first, second = table.open().snapshot.slices[:2]
    columns = table.open().snapshot.definitions["column_stats"].source_fields
    gone = [column_stats_key(name, second.partition, second.base.name) for name in columns]
    gone.append(column_stats_key("city", first.partition, first.base.name))
    table.remove("column_stats", gone)
    assert problems_of(table) == [
        ("column_stats", ProblemKind.MISSING, f"city in {first.path_of(first.base.name)}"),
        ("column_stats", ProblemKind.MISSING, second.path_of(second.base.name)),
    ]


def test_statistics_of_a_file_that_is_not_listed_are_stale(damage):
    table = damage(TABLE)
    chosen, _ = newest_file(table)
    record = table.record(
        "column_stats", column_stats_key("fare", chosen.partition, chosen.base.name)
    )
    record[STATS]["fileName"] = "ghost.parquet"
    key = column_stats_key("fare", chosen.partition, "ghost.parquet")
    table.put("column_stats", {key: record})
    assert problems_of(table) == [("column_stats", ProblemKind.STALE, "fare in ghost.parquet")]


def test_a_partition_range_that_leaves_out_a_value_is_found(damage):
    table = damage(TABLE)
    partition = table.open().snapshot.slices[0].partition
    key = column_stats_prefix("fare", partition)

    def narrow(record: dict[str, Any]) -> None:
        record[STATS]["maxValue"] = record[STATS]["minValue"]

    table.edit("partition_stats", key, narrow)
    problem = only_problem(table)
    assert (problem.index, problem.kind) == ("partition_stats", ProblemKind.WRONG)
    assert problem.key == f"fare in partition {partition!r}"


def test_a_partition_without_range_and_a_range_without_partition_are_found(damage):
    table = damage(TABLE)
    partition = table.open().snapshot.slices[0].partition
    key = column_stats_prefix("fare", partition)
    record = table.record("partition_stats", key)
    record[STATS]["fileName"] = "state=atlantis"
    table.write("partition_stats", {column_stats_prefix("fare", "state=atlantis"): record}, [key])
    assert problems_of(table) == [
        ("partition_stats", ProblemKind.MISSING, f"fare in partition {partition!r}"),
        ("partition_stats", ProblemKind.STALE, "fare in state=atlantis"),
    ]


@pytest.mark.parametrize("index", ["bloom_filters", "expr_index_idx_bloom_driver"])
def test_a_missing_filter_and_one_of_another_file_are_found(damage, index):
    table = damage(TABLE)
    first, second, third = table.open().snapshot.slices[:3]
    keys = [bloom_key(each.partition, each.base.name) for each in (first, second, third)]
    table.write(index, {keys[1]: table.record(index, keys[2])}, [keys[0]])
    found = table.open().verify().problems
    assert [(each.index, each.kind, each.key) for each in found] == [
        (index, ProblemKind.MISSING, first.path_of(first.base.name)),
        (index, ProblemKind.WRONG, second.path_of(second.base.name)),
    ]
    assert "lacks" in found[1].detail


def test_a_filter_of_a_file_that_is_not_listed_is_stale(damage):
    table = damage(TABLE)
    chosen, _ = newest_file(table)
    record = table.record("bloom_filters", bloom_key(chosen.partition, chosen.base.name))
    ghost = bloom_key(chosen.partition, "ghost.parquet")
    table.put("bloom_filters", {ghost: record})
    assert problems_of(table) == [("bloom_filters", ProblemKind.STALE, ghost)]


def test_a_wrong_range_and_a_missing_one_in_an_expression_index_are_found(damage):
    table = damage(TABLE)
    first, second = table.open().snapshot.slices[:2]
    keys = [column_stats_key("ts", each.partition, each.base.name) for each in (first, second)]
    record = table.record("expr_index_idx_datestr", keys[0])
    record[STATS]["maxValue"] = {"member6": {"value": "1970-01-01"}}
    table.write("expr_index_idx_datestr", {keys[0]: record}, keys)
    found = problems_of(table)
    assert found == [
        (
            "expr_index_idx_datestr",
            ProblemKind.WRONG,
            f"from_unixtime(ts) in {first.path_of(first.base.name)}",
        ),
        ("expr_index_idx_datestr", ProblemKind.MISSING, second.path_of(second.base.name)),
    ]


def _shard(key: str) -> int:
    total = 0
    for char in key:
        total = (31 * total + ord(char)) & 0xFFFFFFFF
    return abs(total - (1 << 32) if total >= 1 << 31 else total) % 4
