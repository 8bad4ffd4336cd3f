"""Merge-on-read tables with log files, and what is done to compact them, here and by children."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from hudi import HudiTable

from lakedex.engine import LocalEngine
from lakedex.services.clustering import run_clustering, schedule_clustering
from lakedex.services.compaction import compact_table, run_compaction, schedule_compaction
from lakedex.storage.open import StorageAddress
from tests.support.history import Commit, History, create, writer_of
from tests.support.row_model import assert_holds, differences, rows_in
from tests.support.write_shapes import Shape

MERGING = "merge the log files"


def logged(history: History, count: int = 12) -> Commit:
    """Changes and deletes of rows that are there, which all go to log files."""
    chosen = history.sample(count)
    rows = [history.changed(row) for row in chosen[: count // 2]]
    rows += [history.late(row) for row in chosen[count // 2 : -3]]
    if history.shape.marks_deletes:
        rows += [history.changed(row)._replace(gone=True) for row in chosen[-3:]]
    return Commit("upsert", tuple(rows))


def begin(shape: Shape, path: Path | str, rows: int = 40, logs: int = 2) -> History:
    """A table of some rows, and so many deltacommits with log files only."""
    history = History(shape, rows=rows)
    writer = writer_of(create(shape, path))
    history.apply(history.insert(rows)).write(shape, writer)
    for _ in range(logs):
        history.apply(logged(history)).write(shape, writer)
    return history


def assert_all_agree(path: Path | str, history: History, *, verify: bool = True) -> None:
    """The rows of the model, as lakedex reads them with and without indexes, and as hudi-rs."""
    assert_holds(str(path), history.model, verify=verify)
    columns = [name for name in history.model.columns if name != "at"]
    batches = HudiTable(str(path)).read()
    found = rows_in(pa.Table.from_batches(batches), columns)
    problem = differences(found, history.model.answers(columns))
    assert not problem, f"hudi-rs: {problem}"


class Interrupted(LocalEngine):
    """An engine that lets something else happen before, or after, the first work of a kind."""

    def __init__(self, label: str, happens: Callable[[], None], *, after: bool = False) -> None:
        super().__init__(1)
        self._label = label
        self._happens: Callable[[], None] | None = happens
        self._after = after

    def map(self, label: str, worker: Any, tasks: Sequence[Any]) -> list[Any]:
        """The worker's answers."""
        if label != self._label or self._happens is None:
            return super().map(label, worker, tasks)
        happens, self._happens = self._happens, None
        if not self._after:
            happens()
        answers = super().map(label, worker, tasks)
        if self._after:
            happens()
        return answers


# Jobs of children.


def schedule_job(path: str, service: str) -> None:
    """Plan a compaction or a clustering."""
    writer = writer_of(StorageAddress.of(path))
    if service == "compaction":
        assert schedule_compaction(writer) is not None
    else:
        assert schedule_clustering(writer, "n") is not None


def run_job(path: str, service: str, instant: str) -> None:
    """Run a plan."""
    writer = writer_of(StorageAddress.of(path))
    if service == "compaction":
        run_compaction(writer, instant)
    else:
        run_clustering(writer, instant)


def compact_job(path: str) -> None:
    """Plan a compaction and run it."""
    compact_table(writer_of(StorageAddress.of(path)))
