"""Batches of a stream are written once, whoever runs them again."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.write.stream_batches import StreamBatch, last_batch
from lakedex.write.verbs import TableWriter
from tests.support.aging import archive
from tests.support.write_lab import Lab, row, source


def writer(lab: Lab, number: int, stream: str = "orders") -> TableWriter:
    return TableWriter(lab.address, LocalEngine(1), {}, StreamBatch(stream, number))


def test_a_batch_that_is_written_again_changes_nothing(tmp_path: Path):
    lab = Lab(tmp_path)
    first = writer(lab, 0).insert(source([row("a", "p", 1)]))
    again = writer(lab, 0).insert(source([row("a", "p", 1)]))
    assert (first.instant is None, again.instant) == (False, None)
    writer(lab, 1).insert(source([row("b", "p", 1)]))
    writer(lab, 0, "another").insert(source([row("c", "p", 1)]))
    lab.holds([row(key, "p", 1) for key in "abc"])
    timeline = lakedex.open(lab.path).timeline
    assert [last_batch(timeline, each) for each in ("orders", "another", "none")] == [1, 0, None]


def test_the_archive_is_asked_too(tmp_path: Path):
    lab = Lab(tmp_path)
    writer(lab, 0).insert(source([row("a", "p", 1)]))
    lab.writer.insert(source([row("b", "p", 1)]))
    archive(lab.path, 1)
    assert writer(lab, 0).insert(source([row("a", "p", 1)])).instant is None
    assert len(lab.rows()) == 2


def test_two_runs_of_a_batch_do_not_both_commit(tmp_path: Path):
    """The second one began before the first one ended."""
    lab = Lab(tmp_path)
    lab.writer.insert(source([row("z", "z", 1)]))
    slow = lab.meanwhile(lambda: writer(lab, 0).insert(source([row("a", "p", 1)])))
    slow = TableWriter(lab.address, slow._engine, {}, StreamBatch("orders", 0))
    with pytest.raises(CommitConflict, match="batch 0 of stream orders"):
        slow.insert(source([row("a", "q", 1)]))
    lab.holds([row("a", "p", 1), row("z", "z", 1)])


def test_a_batch_without_rows_commits_nothing(tmp_path: Path):
    lab = Lab(tmp_path)
    assert writer(lab, 0).upsert(source([])).instant is None
    assert not lakedex.open(lab.path).timeline.instants


def test_batches_are_named_and_numbered():
    for stream, number in (("", 0), ("orders", -1)):
        with pytest.raises(InvalidInput, match="batch"):
            StreamBatch(stream, number)
