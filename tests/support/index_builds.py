"""Index builds that are led step by step, with whatever shall happen between the steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.index.definitions import IndexDefinition
from lakedex.services import index_creating
from lakedex.services.indexing import start_build
from lakedex.services.indexing.claims import Claim
from lakedex.services.indexing.runner import run_build
from lakedex.timeline import Action
from lakedex.write.verbs import TableWriter

FIRST = [("a1", 1, "ann", "oslo"), ("b1", 1, "bob", "rio"), ("c1", 1, "cem", "oslo")]
"""The rows that a table of trips begins with."""
RIDER = "secondary_index_idx_rider"
OPTIONS = {
    "record_index": {"hoodie.metadata.global.record.level.index.enable": "true"},
    "bloom_filters": {"hoodie.metadata.index.bloom.filter.enable": "true"},
    "column_stats": {"hoodie.metadata.index.column.stats.enable": "true"},
}
"""What asks for the indexes that a table has once."""


class Interrupted(LocalEngine):
    """Lets somebody else act when the data files of a write are there, before its commit."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(1)
        self._acts = [act]

    def map(self, label: str, worker: Any, tasks: Any) -> Any:
        answers = super().map(label, worker, tasks)
        if label == "write the files" and self._acts:
            self._acts.pop()()
        return answers


def secondary(column: str, name: str | None = None) -> IndexDefinition:
    """The definition of a secondary index."""
    full = f"secondary_index_{name or f'idx_{column}'}"
    return IndexDefinition(full, "secondary_index", "identity", (column,), {}, 2)


def start(writer: TableWriter, index: str) -> Claim:
    """Start the build of an index by its kind, or of a secondary one by its column.

    `upper` stands for an expression index on the column `name`.
    """
    if index in OPTIONS:
        return start_build(writer, OPTIONS[index])
    if index == "upper":
        made = IndexDefinition(
            "expr_index_up", "column_stats", index, ("name",), {"expr": index}, 2
        )
        return start_build(writer, {}, [made])
    return start_build(writer, {}, [secondary(index)])


def begun(writer: TableWriter, name: str, columns: str | Sequence[str]) -> Claim:
    """A build by the name and the columns of its index, which is there and which nobody runs."""
    claims: list[Claim] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_creating, "build_in_background", lambda _, claim: claims.append(claim))
        index_creating.create_index(writer, name, columns, wait=False)
    return claims[0]


def lead(writer: TableWriter, claim: Claim, acts: Mapping[str, Callable[[], object]]) -> list[str]:
    """Run a build; each act happens once, before the first step of its name. Answers all steps."""
    left, steps = dict(acts), []

    def on_step(step: str) -> None:
        steps.append(step)
        act = left.pop(step, None)
        if act is not None:
            act()

    run_build(writer, claim, threading.Event(), on_step)
    assert not left, f"no such step: {left}"
    return steps


def assert_no_trace(path: str, name: str) -> None:
    """Nothing of an index is left in a table."""
    table = lakedex.open(path)
    config = table.snapshot.config
    assert name not in config.metadata_partitions
    assert name not in config.metadata_partitions_inflight
    assert name not in table.snapshot.definitions
    assert not (Path(path) / ".hoodie/metadata" / name).exists()
    assert not table.timeline.pending_of(Action.INDEXING)
    inner = lakedex.open(f"{path}/.hoodie/metadata").timeline
    assert not inner.pending()
    for root in (Path(path), Path(path) / ".hoodie/metadata"):
        for folder in (".temp", ".heartbeat", ".lakedex/spill", ".lakedex/writers"):
            left = [each for each in (root / ".hoodie" / folder).rglob("*") if each.is_file()]
            assert not left, left
