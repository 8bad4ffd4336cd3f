"""Tables with secondary indexes, and what those indexes must hold, spelled without lakedex."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from copy import copy
from pathlib import Path

import pyarrow as pa

import lakedex
from lakedex.engine import LocalEngine
from lakedex.services.index_creating import create_index
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import TableSpec, create_table
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

RECORD_INDEX = {
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
}
SCHEMA = pa.schema(
    [("uuid", pa.string()), ("ts", pa.int64()), ("rider", pa.string()), ("city", pa.string())]
)


class Trips:
    """A table of trips with the key `uuid`, partitioned by `city` unless told."""

    def __init__(
        self,
        path: Path,
        kind: str = "cow",
        *,
        schema: pa.Schema = SCHEMA,
        properties: Mapping[str, str] | None = None,
        partition_by: str | tuple[str, ...] = "city",
    ) -> None:
        self.path, self.schema = str(path), schema
        self.address = StorageAddress.of(self.path)
        spec = TableSpec(
            "trips",
            schema,
            "uuid",
            "ts",
            partition_by,
            kind,
            properties=RECORD_INDEX if properties is None else dict(properties),
        )
        create_table(self.address.open(), spec)

    @property
    def writer(self) -> TableWriter:
        return TableWriter(self.address, LocalEngine(1))

    def rows(self, *rows: tuple[object, ...]) -> ArrowRowSource:
        """Rows by their values in the order of the columns."""
        columns = [list(column) for column in zip(*rows, strict=True)]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
        return ArrowRowSource(pa.table(arrays, schema=self.schema))

    def index(self, column: str, name: str | None = None) -> None:
        """Make an index `idx_<column>`."""
        create_index(self.writer, name or f"idx_{column}", column)

    @classmethod
    def opened(cls, path: str) -> Trips:
        """A table of the usual columns that is there."""
        made = cls.__new__(cls)
        made.path, made.schema, made.address = path, SCHEMA, StorageAddress.of(path)
        return made

    def copied(self, path: Path) -> Trips:
        """The same table once more, to be changed on its own."""
        shutil.copytree(self.path, path)
        other = copy(self)
        other.path, other.address = str(path), StorageAddress.of(str(path))
        return other

    def table(self) -> lakedex.Table:
        return lakedex.open(self.path)

    def entries(self, column: str) -> list[str]:
        """The keys of an index, in order."""
        found = self.table().metadata(f"secondary_index_idx_{column}")
        return sorted(found["key"].to_pylist())

    def found(self, predicate: str) -> list[str]:
        """The keys of rows by lakedex with its indexes; they are the same without them."""
        with_indexes = lakedex.open(self.path).to_arrow(predicate, ["uuid"])
        options = lakedex.ReadOptions(without_indexes={"all"})
        without = lakedex.open(self.path, options=options).to_arrow(predicate, ["uuid"])
        keys = sorted(with_indexes["uuid"].to_pylist())
        assert keys == sorted(without["uuid"].to_pylist())
        return keys

    def assert_whole(self) -> None:
        problems = self.table().verify().problems
        assert not problems, "\n".join(map(str, problems[:5]))


def escaped(text: str | None) -> str:
    """A text as it stands in a key."""
    if text is None:
        return "\0"
    return "".join(f"\\{char}" if char in "\\$\0" else char for char in text)


def pairs(values: Mapping[str, str | None] | Iterable[tuple[str, str | None]]) -> list[str]:
    """The keys that an index must have for record keys with their values."""
    items = values.items() if isinstance(values, Mapping) else values
    return sorted(f"{escaped(value)}${escaped(key)}" for key, value in items)


def changes_of_newest(path: str, index: str) -> tuple[int, int]:
    """How many entries and tombstones the newest commit wrote into an index."""
    metadata = lakedex.open(path).snapshot.metadata
    assert metadata is not None
    newest = metadata.timeline.write_instants()[-1]
    stats = metadata.timeline.commit_metadata(newest).partition_to_stats.get(index, ())
    return (
        sum(stat.num_writes or 0 for stat in stats),
        sum(stat.num_deletes or 0 for stat in stats),
    )
