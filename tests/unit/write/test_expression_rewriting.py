"""Expression indexes asked by their bare column, by their name, and by whole partitions."""

from __future__ import annotations

import datetime as dt

import pytest

import lakedex
from lakedex import ReadOptions
from lakedex.errors import InvalidInput
from lakedex.index.kinds.expression import lookup
from lakedex.services.index_creating import create_index
from tests.support.write_lab import Lab, source
from tests.unit.write.test_expression_indexes import DAY, SCHEMA, ZONE, Days, row

BARE = {"hoodie.metadata.index.column.stats.enable": "false"}
"""Without ranges of the columns themselves, which tell more than those of a function."""


def steps(path: str, predicate: str, **options: object) -> dict[str, tuple[int, int, str]]:
    """What each index removed, and why."""
    table = lakedex.open(path, options=ReadOptions(weighs_cost=False, **options))
    found = table.explain(predicate).steps
    return {step.index: (step.before, step.after, step.reason) for step in found}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_ranges_of_the_column_are_ranges_of_a_rising_function(tmp_path, kind):
    # case B11: casts and functions in predicates
    table = Days(tmp_path, kind, **BARE)
    table.index("day", "ts", **DAY)
    table.index("secs", "secs", expr="from_unixtime", format="yyyy-MM-dd")
    second = "ts >= timestamp '2022-10-02' and ts < timestamp '2022-10-03'"
    assert table.files(second) == 2
    assert table.files("ts >= timestamp '2022-10-03'") == 4
    assert table.files("ts < timestamp '2022-10-02'") == 2
    assert table.files("ts = timestamp '2022-10-02 05:00:00'") == 2
    assert table.files("ts in (timestamp '2022-10-02 05:00:00', timestamp '2031-01-01')") == 2
    assert table.files("secs between 1664668800 and 1664755199") == 2
    # Seconds without an end may be so many that they wrap around.
    assert table.files("secs >= 1664668800") == 8
    table.upsert(row(0, 2, hours=24), row(500, hours=24 * 365 * 7000))
    assert table.files(second) == 3
    assert table.files("ts >= timestamp '2022-10-04'") == 3
    before, after, reason = steps(table.path, second)["expr_index_day"]
    assert (before, after) == (8, 3)
    assert reason == "ranges of date_format(ts), by what is asked of the column"


def test_a_function_that_does_not_rise_answers_for_single_values_only(tmp_path):
    # cases B6, B61: formats that do not sort as time; expression index and its bare column
    table = Days(tmp_path, **BARE)
    table.index("us", "ts", expr="date_format", format="MM/dd/yyyy")
    table.index("hour", "ts", expr="hour")
    table.index("up", "name", expr="upper")
    assert table.files("ts >= timestamp '2022-10-03'") == 8
    assert table.files("ts = timestamp '2022-10-03 05:00:00'") == 2
    assert table.files("name = 'bob'") == 4  # of the days of Bob and of bob
    assert table.files("name = 'Zoë'") == 8
    assert table.files("name >= 'bob'") == 8
    assert table.files("name in ('ann', 'nobody')") == 2
    assert table.files("not (name = 'bob')") == 8


def test_the_zone_of_a_query_does_not_matter_to_a_bare_column(tmp_path):
    # case B7: time units and time zones
    table = Days(tmp_path, **BARE, **{ZONE: "America/New_York"})
    table.index("day", "ts", **DAY)
    asked = "ts >= timestamp '2022-10-03 12:00:00Z' and ts < timestamp '2022-10-03 13:00:00Z'"
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        # A day in New York ends in the next file.
        assert table.files(asked, zone) == 4


def test_clocks_that_go_back_hide_no_row(tmp_path):
    # case B7: time units and time zones
    lab = Lab(tmp_path, "cow", schema=SCHEMA, **BARE)
    evening = dt.datetime(2022, 11, 6, tzinfo=dt.UTC)
    rows = [
        row(n) | {"p": f"h{n}", "ts": evening + dt.timedelta(minutes=30 * n)} for n in range(24)
    ]
    lab.writer.bulk_insert(source(rows, SCHEMA))
    options = {"expr": "date_format", "format": "yyyy-MM-dd HH:mm", ZONE: "America/New_York"}
    create_index(lab.writer, "hour", "ts", options=options)
    table = lakedex.open(lab.path, options=ReadOptions(weighs_cost=False))
    for first in range(24):
        for last in range(first, min(first + 4, 24)):
            low, high = rows[first]["ts"], rows[last]["ts"]
            asked = f"ts between timestamp '{low.isoformat()}' and timestamp '{high.isoformat()}'"
            assert table.to_arrow(asked).num_rows == last - first + 1
            assert len(table.files(asked)) < 24


def test_ranges_of_the_column_itself_go_first(tmp_path):
    table = Days(tmp_path)
    table.index("day", "ts", **DAY)
    asked = "ts >= timestamp '2022-10-04'"
    assert "does not ask" in steps(table.path, asked)["expr_index_day"][2]
    told = steps(table.path, asked, without_indexes={"column_stats", "partition_stats"})
    assert told["expr_index_day"][:2] == (8, 2)


def test_filters_are_asked_for_values_of_the_column(tmp_path):
    # case B61: expression index and its bare column
    table = Days(tmp_path, days=6, **BARE)
    table.index("low", "name", "bloom_filters", expr="lower")
    assert table.files("name = 'ann'") == 2
    assert table.files("name = 'bob'") == 4
    assert table.files("name in ('ann', 'nobody')") == 2
    assert table.files("name = 'Zoë'") == 12
    assert table.files("name = ''") == 12


class Months(Lab):
    """Many partitions, a month of days each."""

    def __init__(self, root, kind="cow", **options):
        super().__init__(root, kind, schema=SCHEMA, **BARE, **options)
        rows = [row(n, hours=24 * n) | {"p": f"m{n // 10}"} for n in range(60)]
        self.writer.bulk_insert(source(rows, SCHEMA))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_whole_partitions_are_left_out_first(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(lookup, "FEW_SLICES", 0)
    monkeypatch.setattr(lookup, "_MUCH_DEARER", 0)
    lab = Months(tmp_path, kind, **{ZONE: "Europe/Oslo"})
    create_index(lab.writer, "day", "ts", options=DAY)
    create_index(lab.writer, "up", "name", options={"expr": "upper"})
    asked = "date_format(ts, 'yyyy-MM-dd') = '2022-10-15'"
    found = steps(lab.path, asked, time_zone="Europe/Oslo")["expr_index_day"]
    assert found == (6, 1, "ranges of date_format(ts) in 1 of 6 partitions")
    # A commit widens what it writes to, and an overwritten partition starts anew.
    lab.writer.upsert(source([row(0, 2, hours=24 * 14) | {"p": "m0"}], SCHEMA))
    found = steps(lab.path, asked, time_zone="Europe/Oslo")["expr_index_day"]
    assert found[2] == "ranges of date_format(ts) in 2 of 6 partitions"
    lab.writer.insert_overwrite(source([row(0, 3, hours=0) | {"p": "m0"}], SCHEMA))
    found = steps(lab.path, asked, time_zone="Europe/Oslo")["expr_index_day"]
    assert found[2] == "ranges of date_format(ts) in 1 of 6 partitions"
    assert "upper" in steps(lab.path, "upper(name) = 'A'")["expr_index_up"][2]
    assert steps(lab.path, "upper(name) = 'A'")["expr_index_up"][1] == 0
    assert lakedex.open(lab.path).verify().ok


def test_the_name_of_an_index_stands_for_its_expression(tmp_path):
    table = Days(tmp_path)
    table.index("idx_day", "ts", **DAY)
    table.index("idx_name", "name", "bloom_filters", expr="lower")
    assert table.files("idx_day = '2022-10-02'") == 2
    assert table.files("IDX_DAY between '2022-10-02' and '2022-10-03' and idx_name = 'bob'") == 4
    assert table.files("idx_day is null or idx_day like '2022-10-04%'") == 2
    assert table.files("not (idx_day in ('2022-10-01', '2022-10-02'))") == 4
    assert table.files("substring(idx_day, 1, 4) = '2021'") == 0
    assert len(table.rows("idx_name = 'bob'")) == 48
    with pytest.raises(InvalidInput, match="no column idx_hour"):
        table.rows("idx_hour = 3")
    removed = table.writer.delete_where("idx_day = '2022-10-02'")
    assert removed.instant is not None
    assert len(table.rows()) == 72


def test_a_column_comes_before_an_index_of_its_name(tmp_path):
    table = Days(tmp_path, days=1)
    table.index("ver", "name", expr="upper")
    assert len(table.rows("ver = 1")) == 24


def test_the_name_of_an_index_means_its_own_zone(tmp_path):
    # case B7: time units and time zones
    table = Days(tmp_path, **{ZONE: "America/New_York"})
    table.index("idx_day", "ts", **DAY)
    asked = "idx_day = '2022-10-02'"
    assert table.files(asked, "America/New_York") == 4
    with pytest.raises(InvalidInput, match="computed in the time zone America/New_York"):
        table.files(asked, "UTC")
