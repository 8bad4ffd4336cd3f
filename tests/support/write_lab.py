"""A small table with its writer, held against rows and against itself without indexes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakedex
from lakedex.engine import LocalEngine
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

SCHEMA = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("ver", pa.int64()), ("x", pa.float64())]
)
GLOBAL = {
    "GLOBAL_SIMPLE": "hoodie.simple.index.update.partition.path",
    "GLOBAL_BLOOM": "hoodie.bloom.index.update.partition.path",
    "GLOBAL_RECORD_LEVEL_INDEX": "hoodie.record.index.update.partition.path",
}
Row = dict[str, Any]


def row(key: str, partition: str, version: int | None, x: float = 0.0) -> Row:
    return {"id": key, "p": partition, "ver": version, "x": x}


def source(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> ArrowRowSource:
    return ArrowRowSource(pa.Table.from_pylist(list(rows), schema))


class Lab:
    """A table with its writer, held against rows and against itself without indexes."""

    def __init__(
        self,
        root: Path,
        kind: str = "cow",
        index: str = "SIMPLE",
        *,
        schema: pa.Schema = SCHEMA,
        key: str = "id",
        partition: str = "p",
        ordering: str | tuple[str, ...] = "ver",
        properties: Mapping[str, str] | None = None,
        **options: str,
    ) -> None:
        self.path = str(root / "t")
        self.address = StorageAddress.of(self.path)
        settings = {"hoodie.index.type": index, **(properties or {})}
        if index in GLOBAL:
            settings[GLOBAL[index]] = "true"
        spec = TableSpec("t", schema, key, ordering, partition, kind, settings)
        create_table(self.address.open(), spec)
        self.writer = TableWriter(self.address, LocalEngine(2), options)

    def meanwhile(self, act: Callable[[], object]) -> TableWriter:
        """A writer that lets something happen after its data files are written."""
        return TableWriter(self.address, _Interrupted(act))

    def rows(self, condition: str | None = None, *, indexes: bool = True) -> list[Row]:
        options = lakedex.ReadOptions(without_indexes=set() if indexes else {"all"})
        table = lakedex.open(self.path, options=options).to_arrow(condition)
        own = [name for name in table.column_names if not name.startswith("_hoodie_")]
        return sorted(table.select(own).to_pylist(), key=repr)

    def holds(self, rows: Sequence[Row], *conditions: str) -> None:
        assert self.rows() == sorted(rows, key=repr)
        report = lakedex.open(self.path).verify()
        assert report.ok, report
        for condition in conditions:
            assert self.rows(condition) == self.rows(condition, indexes=False), condition


class _Interrupted(LocalEngine):
    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(2)
        self._act: Callable[[], object] | None = act

    def map(self, label, worker, tasks):  # type: ignore[no-untyped-def]
        answers = super().map(label, worker, tasks)
        if label == "write the files" and self._act is not None:
            act, self._act = self._act, None
            act()
        return answers
