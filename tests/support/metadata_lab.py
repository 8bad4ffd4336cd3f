"""A data table of which only the metadata table is real, and a plain model of what it must hold."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakedex.config import keys as names
from lakedex.engine import LocalEngine
from lakedex.format.spill import SpillWriter
from lakedex.index.definitions import IndexDefinition, format_definitions
from lakedex.index.deltacommit import commit_changes
from lakedex.index.metadata_table import MetadataTable
from lakedex.index.metadata_table.creation import PartitionPlan, create_metadata_table
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.keys import file_ids
from lakedex.index.written import NOTE_SCHEMA, CommitChanges, KeyNote
from lakedex.storage.open import StorageAddress
from lakedex.timeline import (
    Action,
    CommitMetadata,
    Timeline,
    load_table_config,
    update_properties,
)
from tests.support.timeline_files import (
    Clock,
    data_properties,
    write_completed,
    write_pending,
    write_properties,
)

STATS = ("n", "s")
NAMES = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")


@dataclass
class Lab:
    """One table; `places` is the model of the record index, by key (or partition and key)."""

    root: Path
    shards: int = 3
    buckets: int = 2
    partitioned: bool = False
    clock: Clock = field(default_factory=lambda: Clock("20240101000000000"))
    places: dict = field(default_factory=dict)
    files: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        props = data_properties(
            self.root.name,
            "mor",
            record_key=("id",),
            partition_by=("p",),
            ordering=None,
            hive_style=True,
        )
        props[names.INDEX_DEFS_PATH] = ".hoodie/.index_defs/index.json"
        write_properties(self.root, props)
        options = {"isPartitioned": str(self.partitioned).lower()}
        definitions = [
            IndexDefinition("record_index", "record_index", "", (), options),
            IndexDefinition("column_stats", "column_stats", "column_stats", STATS, version=2),
        ]
        path = self.root / ".hoodie/.index_defs/index.json"
        path.parent.mkdir()
        path.write_bytes(format_definitions({one.name: one for one in definitions}))
        self.address = StorageAddress.of(str(self.root))
        self.storage = self.address.open()
        self.engine = LocalEngine(2)

    def create(self, plan: Mapping[str, PartitionPlan] | None = None) -> None:
        """Make partitions and register them."""
        plan = plan or {
            name: PartitionPlan(
                self.shards if name == "record_index" else 2 if name == "column_stats" else 1,
                is_partitioned=self.partitioned and name == "record_index",
            )
            for name in NAMES
        }
        config = load_table_config(self.storage)
        create_metadata_table(self.address, self.engine, config, plan, next_time=self.clock.next)
        self.register({*config.metadata_partitions, *plan})

    def register(self, partitions: set[str]) -> None:
        update_properties(self.storage, {names.METADATA_PARTITIONS: ",".join(sorted(partitions))})

    def commit(
        self,
        *,
        entries: Sequence[tuple[str, str, str]] = (),
        deletes: Sequence[tuple[str, str, str]] = (),
        complete: bool = True,
        **fields: object,
    ) -> str:
        """Commit; entries and deletes are (key, partition, file id)."""
        time = self.clock.next()
        write_pending(self.root, time, Action.DELTACOMMIT)
        changes = CommitChanges(
            key_notes=self.notes(entries, deletes), note_buckets=self.buckets, **fields
        )
        commit_changes(self.address, self.engine, time, changes, next_time=self.clock.next)
        for partition, files in changes.added.items():
            self.files[partition].update(files)
        for partition, gone in changes.removed.items():
            for name in gone:
                self.files[partition].pop(name, None)
        for key, partition, _ in deletes:
            self.places.pop((partition, key) if self.partitioned else key, None)
        for key, partition, file_id in entries:
            place = (partition, key) if self.partitioned else key
            self.places[place] = (partition, file_id, time)
        if complete:
            self.complete(time)
        return time

    def complete(self, time: str) -> None:
        """Complete an instant of the data table."""
        metadata = CommitMetadata({}, {}, operation_type="UPSERT", version=1)
        write_completed(self.root, time, self.clock.next(), Action.DELTACOMMIT, metadata)

    def notes(self, entries: Sequence[tuple], deletes: Sequence[tuple] = ()) -> list[KeyNote]:
        """Spilled notes, deletes after entries, in several segments."""
        rows = [(*row, False) for row in entries] + [(*row, True) for row in deletes]
        if not rows:
            return []
        table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=NOTE_SCHEMA)
        buckets = shards_of(table["key"].combine_chunks(), self.shards) % self.buckets
        writer = SpillWriter(self.storage, f".hoodie/.temp/{uuid.uuid4().hex}")
        found = []
        for bucket in range(self.buckets):
            own = table.filter(pa.array(buckets == bucket))
            for start in range(0, len(own), 50):
                segment = writer.add(own.slice(start, 50))
                found.append(KeyNote(bucket, segment))
        writer.finish()
        return found

    def open(self) -> MetadataTable:
        """The metadata table as a reader of the newest snapshot sees it."""
        timeline = Timeline.load(self.storage, load_table_config(self.storage))
        return MetadataTable(self.storage, timeline)

    def stored_files(self) -> dict[str, dict[str, int]]:
        """What `files` lists."""
        found = {}
        for row in self.open().scan("files").to_pylist():
            found[row["key"]] = {name: one["size"] for name, one in row["filesystemMetadata"]}
        return found

    def stored_places(self, rows: pa.Table | None = None) -> dict:
        """What the record index holds."""
        rows = self.open().scan("record_index") if rows is None else rows
        found = {}
        for row in rows.to_pylist():
            info = row["recordIndexMetadata"]
            parts = info["fileIdHighBits"], info["fileIdLowBits"], info["fileIndex"]
            file_id = info["fileId"] or _file_id(*parts)
            key = (info["partitionName"], row["key"]) if self.partitioned else row["key"]
            assert key not in found
            found[key] = (info["partitionName"], file_id, info["instantTime"])
        return found


@cache
def _file_id(high: int, low: int, index: int) -> str:
    return file_ids(*(np.array([part], np.int64) for part in (high, low, index)))[0]


def file_id(number: int) -> str:
    """A file id that is always the same."""
    return f"{uuid.uuid5(uuid.NAMESPACE_URL, str(number))}-0"


def stats_table(
    rows: Sequence[tuple], kind: pa.DataType, make: Callable[[object], object] = lambda x: x
) -> pa.Table:
    """Statistics of (partition, file, minimum, maximum, values, nulls)."""
    partitions, files, low, high, values, nulls = zip(*rows, strict=True)
    return pa.table(
        {
            "partition": pa.array(partitions, pa.string()),
            "file": pa.array(files, pa.string()),
            "minimum": pa.array([make(x) for x in low], kind),
            "maximum": pa.array([make(x) for x in high], kind),
            "value_count": pa.array(values, pa.int64()),
            "null_count": pa.array(nulls, pa.int64()),
            "total_size": pa.array([10] * len(rows), pa.int64()),
            "total_uncompressed": pa.array([20] * len(rows), pa.int64()),
        }
    )
