"""How real Hudi judges a history that lakedex wrote: it reads, it writes on, it validates.

The same histories as in the conformance tests, with 5,000 rows: every shape lives through commits
of every kind. LAKEDEX_JUDGES says which shapes: `few` (each option once with either kind of table),
`pairs` (any two options together), `rotating` (a third of the pairs), `all` (what is left out:
`LEFT_OUT`). Each kind of table has a file of tests: files are what is shared out to processes, and
these are the longest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakedex.storage.open import StorageAddress
from tests.interop.hudi_judge import HudiJudge
from tests.support.history import CONDITIONS, History, writer_of
from tests.support.killing import server
from tests.support.row_model import Row, assert_holds
from tests.support.write_jobs import write_whole_history
from tests.support.write_shapes import Shape, judged_shapes

ROWS = int(os.environ.get("LAKEDEX_JUDGED_ROWS", "5000"))
COMMITS = 17
FILES = {"hoodie.parquet.max.file.size": "131072", "hoodie.parquet.small.file.limit": "65536"}


def shapes_of(table_type: str) -> list[Shape]:
    """The shapes of this run with tables of one kind."""
    return [shape for shape in judged_shapes() if shape.table_type == table_type]


@contextmanager
def written_ahead(shapes: Collection[Shape], folder: Path) -> Iterator[Callable[[Shape], Path]]:
    """Gives the folder of the table of a shape; another process writes them one after the other."""
    with ProcessPoolExecutor(1, mp_context=server()) as pool:
        running: dict[Shape, Future[None]] = {
            shape: pool.submit(
                write_whole_history, shape, str(folder / str(shape)), ROWS, COMMITS, FILES
            )
            for shape in shapes
        }

        def ready(shape: Shape) -> Path:
            running[shape].result()
            return folder / str(shape)

        yield ready
        pool.shutdown(cancel_futures=True)


def judge_history(shape: Shape, path: str, spark: Any, folder: Path) -> None:
    """Both engines find the rows of the history, before and after each of them writes on."""
    history = History(shape, rows=ROWS)
    for _ in history.commits(COMMITS):
        pass
    judge = HudiJudge(spark, path, shape)
    judge.assert_reads(history.model)
    assert_questions(judge, history)

    hudi_writes(judge, history, folder)
    assert_holds(path, history.model)

    history.apply(history.mixture(60)).write(shape, writer_of(StorageAddress.of(path), FILES))
    assert_holds(path, history.model)
    judge.assert_reads(history.model)
    judge.assert_metadata_is_valid(history.model)


def assert_questions(judge: HudiJudge, history: History) -> None:
    """Data skipping and record-index lookups find what the model says."""
    text, test = CONDITIONS[0]
    judge.assert_reads(history.model, text, test)
    live = sorted(history.model.live.values(), key=lambda row: (row.ver, row.path))
    gone = list(history.removed.values())[-1:]
    keys = {row.id for row in (live[0], live[-1], *gone)}
    named = ", ".join(f"'{key}'" for key in sorted(keys))
    judge.assert_reads(history.model, f"id in ({named})", lambda row: row.id in keys)


def hudi_writes(judge: HudiJudge, history: History, folder: Path) -> None:
    """Hudi upserts some rows, of which one is late, and deletes some."""
    chosen = history.sample(12)
    gone = chosen[9:]
    style = history.shape.key_style
    if style != "url":
        rows: list[Row] = [history.changed(row) for row in chosen[:5]]
        rows += [history.moved(row) for row in chosen[5:8]]
        rows += [history.late(chosen[8]), *history.new_rows(5)]
        if history.shape.marks_deletes:
            rows += [history.changed(row)._replace(gone=True) for row in gone]
        judge.write(rows, "upsert", folder)
        history.model.upsert(rows)
    if style in ("url", "timestamp"):
        judge.write(gone, "delete", folder)
        history.model.delete(gone)
