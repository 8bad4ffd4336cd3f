"""Generated tables of taxi rides, for the benchmarks that read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from lakedex.engine import LocalEngine
from lakedex.services.index_creating import create_index
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.index_specs import SecondaryIndex
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("day", pa.string()),
        ("ver", pa.int64()),
        ("seq", pa.int64()),
        ("rider", pa.string()),
        ("amount", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("note", pa.string()),
    ]
)
RIDES_PER_RIDER = 4


def uuid_texts(count: int, rng: np.random.Generator) -> pa.Array:
    """Random UUIDs as text."""
    digits = np.frombuffer(rng.bytes(16 * count).hex().encode(), np.uint8).reshape(count, 32)
    text = np.full((count, 36), ord("-"), np.uint8)
    for start, stop, at in ((0, 8, 0), (8, 12, 9), (12, 16, 14), (16, 20, 19), (20, 32, 24)):
        text[:, at : at + stop - start] = digits[:, start:stop]
    offsets = np.arange(count + 1, dtype=np.int32) * 36
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def rides(first: int, count: int, riders: int, rng: np.random.Generator) -> pa.Table:
    """Rides `first` and up, without their day; `seq` counts them."""
    number = np.arange(first, first + count)
    return pa.table(
        {
            "id": uuid_texts(count, rng),
            "ver": np.ones(count, np.int64),
            "seq": number,
            "rider": np.char.add("rider-", rng.integers(0, riders, count).astype(str)),
            "amount": rng.random(count) * 100,
            "at": pa.array(1_700_000_000_000_000 + number * 1_000_000, SCHEMA.field("at").type),
            "note": np.char.add("note ", rng.integers(0, 5000, count).astype(str)),
        }
    )


def build(
    path: Path, rows: int, files: int, *, days: int, kind: str, indexed: bool = True
) -> TableBuilder:
    """A table of rides; a `mor` table has a tenth of its rows updated in log files."""
    rng = np.random.default_rng(5)
    indexes = ["column_stats", "partition_stats", "record_index", SecondaryIndex("rider", "rider")]
    builder = TableBuilder(
        path,
        SCHEMA,
        record_key="id",
        partition_by="day",
        ordering="ver",
        table_type=kind,
        metadata="base",
        indexes=indexes if indexed else [],
    )
    each, riders = rows // files, max(rows // RIDES_PER_RIDER, 1)
    builder.commit(
        [
            (f"2024-01-{file * days // files + 1:02d}", rides(file * each, each, riders, rng))
            for file in range(files)
        ]
    )
    if kind == "mor":
        builder.log_commit(_updates(builder.rows(), rng))
    builder.finish()
    return builder


def write(path: Path, rows: int, files: int) -> pa.Table:
    """The same merge-on-read table, written by lakedex itself, with one file a day."""
    rng = np.random.default_rng(5)
    made = rides(0, rows, max(rows // RIDES_PER_RIDER, 1), rng)
    days = pa.array(np.char.add("day-", (np.arange(rows) * files // rows).astype(str)))
    whole = made.append_column("day", days).select(SCHEMA.names).cast(SCHEMA)
    address = StorageAddress.of(str(path))
    settings = {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
    create_table(address.open(), TableSpec("t", SCHEMA, "id", "ver", "day", "mor", settings))
    writer = TableWriter(address, LocalEngine())
    writer.bulk_insert(ArrowRowSource(whole))
    create_index(writer, "rider", "rider")
    writer.upsert(ArrowRowSource(_updates(whole, rng)))
    return whole


def _updates(stored: pa.Table, rng: np.random.Generator) -> pa.Table:
    """A tenth of the rows, each with a newer version."""
    chosen = stored.take(pa.array(np.sort(rng.permutation(len(stored))[: len(stored) // 10])))
    newer = pa.array(np.full(len(chosen), 2))
    free = pa.array(np.zeros(len(chosen)))
    return chosen.set_column(SCHEMA.get_field_index("ver"), "ver", newer).set_column(
        SCHEMA.get_field_index("amount"), "amount", free
    )
