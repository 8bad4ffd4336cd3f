"""A table with a past: what it held after each commit, and its files by plain listing."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from hudi import HudiTable

import lakedex
from lakedex.filegroup import BaseFile, parse_data_file
from lakedex.services.clustering import cluster_table
from tests.support.write_lab import SCHEMA, Lab, Row, row, source

BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
PARTITIONS = 3


@dataclass
class Past:
    """A table, and the rows that it held after each of its commits."""

    lab: Lab
    states: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def times(self) -> list[str]:
        """The instants of all commits, in order."""
        return list(self.states)

    @property
    def path(self) -> str:
        return self.lab.path

    def note(self, result: Any) -> str:
        """Remember what the table holds after a write."""
        assert result.instant is not None
        self.states[result.instant] = self.lab.rows()
        return str(result.instant)

    def upsert(self, keys: Any, version: int) -> str:
        rows = [row(f"k{i:02}", f"p{i % PARTITIONS}", version, float(i)) for i in keys]
        return self.note(self.lab.writer.upsert(source(rows)))

    def as_of(self, instant: str) -> list[Row]:
        table = lakedex.open(self.path).to_arrow(as_of=instant)
        own = [name for name in table.column_names if not name.startswith("_hoodie_")]
        return sorted(table.select(own).to_pylist(), key=repr)

    def holds(self, instant: str | None = None) -> None:
        """The newest state is that after a commit; every index agrees with it."""
        self.lab.holds(self.states[instant or self.times[-1]], "id = 'k04'", "ver > 3")

    def copied(self, folder: Path) -> Past:
        """The same table elsewhere."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(Path(self.path).parent, folder)
        other = object.__new__(Lab)
        other.path = str(folder / "t")
        other.address = type(self.lab.address).of(other.path)
        other.writer = type(self.lab.writer)(other.address, None, BY_HAND)
        return Past(other, dict(self.states))


def make_past(
    root: Path,
    kind: str,
    index: str = "GLOBAL_RECORD_LEVEL_INDEX",
    *,
    seed: int = 1,
    **options: str,
) -> Past:
    """A table of upserts, deletes, overwritten partitions, and a clustering."""
    settings = BY_HAND | {"hoodie.metadata.compact.max.delta.commits": "4"} | options
    past = Past(Lab(root, kind, index, **settings))
    writer, draw = past.lab.writer, random.Random(seed)
    past.upsert(range(18), 0)
    for number in range(1, 9):
        past.upsert(draw.sample(range(24), 5), number)
        if number == 3:
            gone = [row(f"k{i:02}", f"p{i % PARTITIONS}", 99) for i in (1, 4)]
            past.note(writer.delete(source(gone)))
        if number == 5:
            rows = [row(f"k{i:02}", "p1", 50 + i) for i in (1, 4, 7, 10)]
            past.note(writer.insert_overwrite(source(rows)))
        if number == 6:
            past.note(cluster_table(writer, "x", "linear"))
    return past


def files_of(path: str) -> dict[tuple[str, str], list[str]]:
    """Base files on the store by group, oldest first."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    root = Path(path)
    for file in root.rglob("*.parquet"):
        inside = file.relative_to(root)
        parsed = parse_data_file(file.name, 0)
        if inside.parts[0] != ".hoodie" and isinstance(parsed, BaseFile):
            place = (str(inside.parent), parsed.file_id)
            found.setdefault(place, []).append((parsed.instant_time, file.name))
    return {place: [name for _, name in sorted(names)] for place, names in found.items()}


def instant_of(name: str) -> str:
    """The instant in the name of a base file."""
    return name.rpartition("_")[2].partition(".")[0]


def read_by_hudi_rs(path: str) -> list[Row]:
    """The rows of a table of the lab as hudi-rs reads them."""
    batches = [pa.record_batch(batch) for batch in HudiTable(path).read()]
    rows = pa.Table.from_batches(batches).select(SCHEMA.names).to_pylist()
    return sorted(rows, key=repr)
