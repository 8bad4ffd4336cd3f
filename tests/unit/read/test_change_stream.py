"""Streams over a timeline without Spark: every commit in one batch, whatever happens between."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakedex
from lakedex.errors import InvalidInput, TimelineDamaged, UnsupportedFeature
from lakedex.read import Scan, to_table
from lakedex.read.change_stream import (
    BEGINNING,
    TAKES_WHAT_IS_LEFT,
    BatchView,
    ChangeStream,
    StreamOptions,
    StreamPosition,
)
from lakedex.read.changes import changed_rows
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.rolling_back import rollback_instant
from lakedex.spark.pins import Pins
from lakedex.spark.read_spec import ReadSpec
from lakedex.storage import open_storage
from lakedex.timeline import Action, Instant, State, write_instant
from tests.support.aging import archive, clean
from tests.support.write_lab import Lab, row, source


def stream(lab: Lab, **options: Any) -> ChangeStream:
    return ChangeStream(open_storage(lab.path), StreamOptions(**options))


def commit(lab: Lab, number: int) -> None:
    """Each commit changes one row and adds another one."""
    lab.writer.upsert(source([row("old", "a", number), row(f"k{number}", "b", number)]))


def batches(chosen: ChangeStream, after: StreamPosition | None = None) -> list[StreamPosition]:
    found: list[StreamPosition] = []
    while (position := chosen.next(found[-1] if found else after)) is not None:
        found.append(position)
    return found


def keys_of(lab: Lab, position: StreamPosition) -> list[str]:
    rows = changed_rows(lakedex.open(lab.path).snapshot, position.begin, position.end, None)
    return sorted(rows["id"].to_pylist())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_batches_are_the_commits_in_their_order(tmp_path, kind):
    lab = Lab(tmp_path, kind)
    assert stream(lab).next(None) is None
    for number in range(5):
        commit(lab, number)
    found = batches(stream(lab, most_commits=2))
    assert [keys_of(lab, each) for each in found] == [
        ["k0", "k1", "old"],
        ["k2", "k3", "old"],
        ["k4", "old"],
    ]
    assert [each.begin for each in found] == [BEGINNING, found[0].end, found[1].end]
    assert batches(stream(lab)) == [StreamPosition(BEGINNING, found[-1].end)]


def test_a_batch_from_the_beginning_is_the_table_as_it_was(lab):
    for number in range(3):
        commit(lab, number)
    chosen = stream(lab, most_commits=2)
    first, second = batches(chosen)
    second_commit = lakedex.open(lab.path).timeline.write_instants()[1]
    assert chosen.view(first) == BatchView(as_of=second_commit.requested_time)
    assert chosen.view(second) == BatchView()


def test_bytes_limit_a_batch_to_one_commit_at_least(lab):
    for number in range(3):
        commit(lab, number)
    assert len(batches(stream(lab, most_bytes=1))) == 3
    assert len(batches(stream(lab, most_bytes=1 << 40))) == 1


def test_the_latest_start_is_kept_in_the_first_position(lab):
    empty = stream(lab, start="latest").next(None)
    assert empty == StreamPosition(BEGINNING, BEGINNING)
    commit(lab, 0)
    assert keys_of(lab, stream(lab, start="latest").next(empty)) == ["k0", "old"]
    begun = stream(lab, start="latest").next(None)
    assert begun.begin == begun.end
    assert stream(lab).view(begun) == BatchView()
    commit(lab, 1)
    # Another process goes on from the checkpoint.
    assert keys_of(lab, stream(lab, start="latest").next(begun)) == ["k1", "old"]


def test_a_start_is_an_instant_after_which_commits_count(lab):
    for number in range(3):
        commit(lab, number)
    first = lakedex.open(lab.path).timeline.write_instants()[0]
    assert keys_of(lab, stream(lab, start=first.completion_time).next(None)) == ["k1", "k2", "old"]
    assert keys_of(lab, stream(lab, start="2001-02-03").next(None)) == ["k0", "k1", "k2", "old"]
    with pytest.raises(InvalidInput, match="yesterday"):
        stream(lab, start="yesterday").next(None)


def test_what_only_moves_rows_makes_no_batch(tmp_path):
    lab = Lab(tmp_path, "mor")
    commit(lab, 0)
    chosen = stream(lab)
    last = chosen.next(None)
    cluster_table(lab.writer, ["id"], "linear")
    assert chosen.next(last) is None
    commit(lab, 1)
    assert keys_of(lab, chosen.next(last)) == ["k1", "old"]


def test_a_table_whose_rows_were_only_moved_of_late_is_streamed(lab):
    commit(lab, 0)
    cluster_table(lab.writer, ["id"], "linear")
    archive(lab.path, 1)
    position = stream(lab).next(None)
    moved = lakedex.open(lab.path).timeline.write_instants()[0]
    assert stream(lab).view(position) == BatchView(as_of=moved.requested_time)


def test_a_bound_leaves_later_commits_to_the_next_run(lab):
    commit(lab, 0)
    chosen = stream(lab)
    bound = chosen.newest()
    commit(lab, 1)
    position = chosen.next(None, up_to=bound)
    assert position.end == bound
    assert chosen.next(position, up_to=bound) is None
    assert keys_of(lab, chosen.next(position)) == ["k1", "old"]


def test_archived_commits_are_not_lost(lab):
    commit(lab, 0)
    chosen = stream(lab, most_commits=1)
    last = chosen.next(None)
    for number in range(1, 5):
        commit(lab, number)
    archive(lab.path, 3)
    found = batches(chosen, last)
    assert [keys_of(lab, each)[0] for each in found] == ["k1", "k2", "k3", "k4"]
    assert batches(stream(lab, most_commits=1), last) == found
    # From the beginning all that is archived is in the first batch.
    assert keys_of(lab, stream(lab, most_commits=1).next(None)) == ["k0", "k1", "k2", "k3", "old"]


def test_a_position_whose_files_were_cleaned_is_refused(lab):
    commit(lab, 0)
    begun = stream(lab).next(None)
    for number in range(1, 4):
        commit(lab, number)
    unfinished = stream(lab, most_commits=1).next(begun)
    assert clean(lab.path)
    for look in (lambda: stream(lab).next(begun), lambda: stream(lab).view(unfinished)):
        with pytest.raises(InvalidInput, match=r"table t at .* were cleaned.*checkpointLocation"):
            look()
    left = stream(lab, takes_what_is_left=True)
    assert left.view(unfinished) == BatchView(at_newest=True)
    assert [keys_of(lab, each) for each in batches(left, begun)][-1][-1] == "old"
    # A first load takes all up to the first commit that is whole, and does not fail.
    assert len(batches(stream(lab, most_commits=1))) == 1


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_changes_of_cleaned_files_are_refused_or_what_is_left_of_them(tmp_path, kind):
    lab = Lab(tmp_path, kind)
    for number in range(4):
        commit(lab, number)
    if kind == "mor":
        compact_table(lab.writer)
    second, third = lakedex.open(lab.path).timeline.write_instants()[1:3]
    begin, end = second.completion_time, third.completion_time
    span = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": begin,
        "hoodie.datasource.read.end.instanttime": end,
    }

    def changed(**more: str) -> list[str]:
        pin = Pins().newest(ReadSpec.of(lab.path, span | more), lab.address)
        commits = pa.array(pin.changes.commits, pa.string())
        wanted = pc.field("_hoodie_commit_time").isin(commits)
        names = ("id", "_hoodie_commit_time")
        scan = Scan(pin.view.read_context, pin.slices, names, arrow_filter=wanted)
        return sorted(to_table(scan)["id"].to_pylist())

    every = {TAKES_WHAT_IS_LEFT: "true"}
    assert changed() == changed(**every) == ["k2", "old"]
    assert clean(lab.path)
    with pytest.raises(InvalidInput, match="older file versions were cleaned"):
        changed()
    assert changed(**every) == ["k2"]  # the other was written again since
    with pytest.raises(InvalidInput, match="is true or false"):
        changed(**{TAKES_WHAT_IS_LEFT: "maybe"})


def test_cleaning_behind_a_stream_does_not_stop_it(lab):
    commit(lab, 0)
    chosen = stream(lab)
    last = chosen.next(None)
    commit(lab, 1)
    assert clean(lab.path)
    assert keys_of(lab, chosen.next(last)) == ["k1", "old"]


def test_old_timelines_wait_for_commits_that_began_earlier(damage):
    """There commits are ordered by when they began, and a long one ends after younger ones."""
    copy = damage("v6_cow")
    chosen = ChangeStream(open_storage(str(copy.path)), StreamOptions(most_commits=1))
    snapshot = lakedex.open(copy.path).snapshot
    times = [each.requested_time for each in snapshot.timeline.write_instants()]
    assert len(batches(chosen)) == len(times) > 1
    slow = str(int(times[0]) + 1)
    for state in (State.REQUESTED, State.INFLIGHT):
        begun = Instant(slow, Action.COMMIT, state)
        write_instant(snapshot.storage, snapshot.config, begun, b"")
    assert [each.end for each in batches(chosen)] == times[:1]


def test_positions_of_others_are_refused():
    for text in ("5", '{"commitTime":"000"}', "{"):
        with pytest.raises(InvalidInput, match="checkpointLocation"):
            StreamPosition.parse(text)


def test_options_are_understood():
    chosen = StreamOptions.of(
        {"Hoodie.Datasource.Streaming.StartOffset": "000", "maxcommitspertrigger": "2"}
    )
    assert chosen == StreamOptions(most_commits=2)
    for size, count in (("12", 12), (" 64K ", 64 * 1024), ("1gb", 2**30), ("7b", 7)):
        assert StreamOptions.of({"maxBytesPerTrigger": size}).most_bytes == count
    with pytest.raises(UnsupportedFeature, match="maxCommitsPerTrigger"):
        StreamOptions.of({"maxFilesPerTrigger": "5"})
    for other in (
        {"As.Of.Instant": "2026-01-01"},
        {"hoodie.datasource.read.end.instanttime": "2026-01-01"},
        {"hoodie.datasource.query.type": "read_optimized"},
        {"hoodie.query.as.ro.table": "true"},
    ):
        with pytest.raises(UnsupportedFeature, match=r"a stream (with|of) "):
            StreamOptions.of(other)
    for wrong in (
        {"hoodie.datasource.streaming.startOffset": "latst"},
        {"maxBytesPerTrigger": "b"},
        {"maxCommitsPerTrigger": "0"},
        {"maxBytesPerTrigger": "a lot"},
        {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "maybe"},
    ):
        with pytest.raises(InvalidInput):
            StreamOptions.of(wrong)


def lose(lab: Lab, number: int = -1) -> str:
    """Remove all files of a commit from the timeline; its time."""
    time = lakedex.open(lab.path).timeline.write_instants()[number].requested_time
    for file in Path(lab.path, ".hoodie/timeline").glob(f"{time}[._]*"):
        file.unlink()
    return time


# case B80: lost timeline or newest instant
@pytest.mark.parametrize("number", [-1, -2], ids=["newest", "one before"])
def test_a_commit_that_is_lost_between_two_batches_is_named(lab, number):
    for each in range(2):
        commit(lab, each)
    chosen = stream(lab)
    (first,) = batches(chosen)
    for each in range(2, 4):
        commit(lab, each)
    lost = lose(lab, number)
    for one in (chosen, stream(lab)):
        with pytest.raises(TimelineDamaged, match=lost):
            one.next(first)
        with pytest.raises(TimelineDamaged, match=lost):
            one.newest()


def test_a_lost_commit_that_a_stream_saw_is_named_without_a_metadata_table(tmp_path):
    lab = Lab(tmp_path, properties={"hoodie.metadata.enable": "false"})
    for number in range(4):
        commit(lab, number)
    chosen = stream(lab, most_commits=1)
    found = batches(chosen)
    rollback_instant(lab.address, lakedex.open(lab.path).timeline.last_completed.requested_time)
    assert chosen.view(found[-1]) == BatchView()  # it was taken back
    commit(lab, 4)
    (last,) = batches(chosen, found[-1])
    lost = lose(lab)
    with pytest.raises(TimelineDamaged, match=lost):
        chosen.next(last)
    with pytest.raises(TimelineDamaged, match=last.end):
        stream(lab).view(last)


@pytest.mark.parametrize("has_metadata", ["true", "false"])
def test_a_lost_archive_ends_a_stream_that_needs_it(has_metadata, tmp_path):
    lab = Lab(tmp_path, properties={"hoodie.metadata.enable": has_metadata})
    for number in range(4):
        commit(lab, number)
    first = batches(stream(lab, most_commits=1))[0]
    archive(lab.path, 2)
    shutil.rmtree(Path(lab.path, ".hoodie/timeline/history"))
    with pytest.raises(TimelineDamaged, match=r"\.hoodie/timeline.* (is|are) missing"):
        keys_of(lab, stream(lab).next(first))
