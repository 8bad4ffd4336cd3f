"""The records that a condition names, as the input of a delete: read where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from lakedex.engine import Engine
from lakedex.expr import bind_predicate, normalise, parse_predicate
from lakedex.expr.tree import Expr
from lakedex.filegroup import RECORD_KEY, FileSlice
from lakedex.prune import PlanOptions, plan
from lakedex.read import Scan, to_batches
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.timeline.timeline import CommittedInstants
from lakedex.write.context import WriteContext

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class _Task:
    facts: WriteContext
    number: int
    slices: tuple[FileSlice, ...]
    columns: tuple[str, ...]
    predicate: Expr
    time_zone: str


class MatchingRows:
    """Key and partition columns of the records for which a condition is true."""

    def __init__(
        self, address: StorageAddress, engine: Engine, condition: str, time_zone: str
    ) -> None:
        """Plan what to read: the indexes leave out files that hold no such record."""
        snapshot = Snapshot.open(address.open())
        asked = snapshot.with_index_names(parse_predicate(condition), time_zone)
        tree = bind_predicate(asked, snapshot.schema, time_zone=time_zone)
        report = plan(
            snapshot, normalise(tree), text=condition, options=PlanOptions(time_zone=time_zone)
        )
        config = snapshot.config
        fields = (*(config.record_key_fields or (RECORD_KEY,)), *config.partition_fields)
        names = dict.fromkeys(name.partition(".")[0] for name in fields)
        self.schema = pa.schema([snapshot.schema.field(name) for name in names])
        self.seen = CommittedInstants.of(snapshot.timeline)
        self._engine = engine
        count = max(1, min(len(report.files), engine.parallelism * 2))
        facts = WriteContext(
            address=address,
            config=config,
            schema=snapshot.schema,
            schema_text="",
            instant="",
            committed=self.seen,
            scratch="",
            history=snapshot.history,
        )
        self._tasks = [
            _Task(facts, at, tuple(report.files[at::count]), tuple(names), tree, time_zone)
            for at in range(count)
        ]

    def run(
        self, label: str, worker: Callable[[int, Iterator[pa.RecordBatch]], Answer]
    ) -> list[Answer]:
        """Run a worker over the records, some file slices at a time."""
        return self._engine.map(label, partial(_run, worker), self._tasks)


def _run(worker: Callable[[int, Iterator[pa.RecordBatch]], Answer], task: _Task) -> Answer:
    scan = Scan(
        context=task.facts.read_context(),
        slices=task.slices,
        columns=task.columns,
        predicate=task.predicate,
        arrow_filter=None,
        arrow_columns=(),
        time_zone=task.time_zone,
    )
    return worker(task.number, to_batches(scan))
