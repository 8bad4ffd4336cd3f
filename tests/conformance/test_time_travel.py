"""Time travel and changes between instants, on histories whose every state is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import InvalidInput
from tests.support.index_specs import SecondaryIndex
from tests.support.table_builder import TableBuilder

DAY = "2024-01-01"
SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("s", pa.string())])


def rows(pairs, text="x"):
    return pa.table(
        {"id": [k for k, _ in pairs], "v": [v for _, v in pairs], "s": [text] * len(pairs)},
        schema=SCHEMA,
    )


def content(table: pa.Table) -> list[tuple]:
    return sorted(zip(*(table[name].to_pylist() for name in ("id", "v", "s")), strict=True))


@pytest.fixture(params=["cow", "mor"])
def history(request, tmp_path):
    """A table and, for each of its instants, the rows that were there."""
    builder = TableBuilder(
        tmp_path / "t",
        SCHEMA,
        record_key="id",
        ordering="v",
        table_type=request.param,
        indexes=["column_stats", "record_index", SecondaryIndex("idx_s", "s")],
    )
    change = builder.commit if request.param == "cow" else builder.log_commit
    seen = {}
    for commit in (
        lambda: builder.commit([((), rows([("a", 1), ("b", 1)])), ((), rows([("c", 1)]))]),
        lambda: change(updates=rows([("b", 2)], "y")),
        lambda: change(deletes=["c"]),
        lambda: builder.commit([((), rows([("d", 3), ("e", 3)], "y"))]),
        lambda: change(updates=rows([("a", 5), ("d", 4)], "z")),
    ):
        instant = commit()
        seen[instant] = content(builder.rows())
    return builder.finish(), seen


def test_every_instant_can_be_travelled_to(history):
    path, seen = history
    table = lakedex.open(path)
    for instant, expected in seen.items():
        assert content(table.to_arrow(as_of=instant)) == expected
        moment = datetime.strptime(instant, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
        assert content(table.to_arrow(as_of=moment)) == expected
        assert content(table.to_arrow(as_of=moment.astimezone(timezone(timedelta(hours=5))))) == (
            expected
        )
    assert content(table.to_arrow()) == list(seen.values())[-1]


def test_travelling_does_not_ask_indexes_that_describe_the_newest_snapshot(history):
    # case B18: secondary and record index must not prune older snapshots
    path, seen = history
    table = lakedex.open(path)
    for instant, expected in seen.items():
        for where, matches in (
            ("s = 'x'", lambda row: row[2] == "x"),
            ("id = 'c'", lambda row: row[0] == "c"),
            ("v >= 2", lambda row: row[1] >= 2),
        ):
            found = content(table.to_arrow(where, as_of=instant))
            assert found == [row for row in expected if matches(row)], (where, instant)
    report = table.explain("id = 'c'", as_of=next(iter(seen)))
    step = next(step for step in report.steps if step.index == "record_index")
    assert not step.used
    assert "newest snapshot" in step.reason


def test_changes_are_the_rows_of_the_commits_in_the_range(history):
    path, seen = history
    table = lakedex.open(path)
    times = list(seen)
    assert content(table.changes("earliest")) == list(seen.values())[-1]
    assert [row[0] for row in content(table.changes(completion(table, times[0])))] == list("abde")
    only_fourth = table.changes(completion(table, times[2]), completion(table, times[3]))
    assert content(only_fourth) == [("d", 3, "y"), ("e", 3, "y")]
    assert table.changes(completion(table, times[-1])).num_rows == 0


def test_the_two_ends_of_changes_may_be_written_in_different_forms(history):
    path, seen = history
    table = lakedex.open(path)
    everything = list(seen.values())[-1]
    assert content(table.changes(f"{DAY.replace('-', '')}000000000", "2024-06-01")) == everything
    assert content(table.changes(DAY, "20240601000000000")) == everything
    for begin, end in (("2024-06-01", "20240101000000000"), ("20240601000000000", DAY)):
        with pytest.raises(InvalidInput, match=f"cannot begin at {begin}"):
            table.changes(begin, end)


@pytest.mark.parametrize("name", ["clustered", "mor_trips_compacted", "schema_evolution"])
def test_changes_between_any_two_commits_are_the_rows_that_they_wrote(golden, name):
    """Also where only a compaction or clustering lies between, or a column came later."""
    table = lakedex.open(golden(name).path)
    newest = table.to_arrow(columns=["_hoodie_commit_time"])["_hoodie_commit_time"].to_pylist()
    commits = table.timeline.write_instants()
    for first in commits:
        for last in commits:
            if last.completion_time >= first.completion_time:
                rows = table.changes(first.completion_time, last.completion_time)
                view = table.snapshot.at(last.requested_time)
                assert rows.num_rows == 0 or rows.schema.names == view.schema.names
        after = {each.requested_time for each in table.timeline.between(first.completion_time)}
        expected = sum(time in after for time in newest)
        assert table.changes(first.completion_time).num_rows == expected


def completion(table: lakedex.Table, requested_time: str) -> str:
    return table.timeline.find(requested_time).completion_time


def test_a_time_before_the_first_commit_shows_an_empty_table_and_nonsense_is_refused(history):
    path, _ = history
    table = lakedex.open(path)
    assert table.to_arrow(as_of="20200101000000000").num_rows == 0
    with pytest.raises(InvalidInput, match="yesterday"):
        table.to_arrow(as_of="yesterday")
    with pytest.raises(InvalidInput, match="5 is not a time; give a datetime"):
        table.to_arrow(as_of=5)


def test_a_cleaned_past_is_refused_and_named(golden):
    # Without the error, rows of files that a clean removed would be missing silently.
    table = lakedex.open(golden("archived").path)
    first = table.timeline.between(None)[0].requested_time
    with pytest.raises(InvalidInput, match="cleaned"):
        table.to_arrow(as_of=first)
