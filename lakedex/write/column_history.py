"""What a write does to the history of a table's columns, where there is one.

A history begins with the first change that names and types alone cannot tell: a column renamed,
dropped or moved. From then on every commit carries the newest version, and a file beside it holds
all of them, as Hudi's schema-on-read evolution has it.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakedex.schema import SchemaHistory, parse_avro_record
from lakedex.schema.internal_schema import history_text, version_text
from lakedex.schema.numbered_columns import evolved, numbered
from lakedex.storage import Storage
from lakedex.table import Snapshot
from lakedex.table.schema_resolution import HISTORY_FOLDER, HISTORY_KEY, HISTORY_SUFFIX
from lakedex.write.target import META_FIELDS, StoredSchema, WriteSchema

Change = Callable[[pa.Schema], pa.Schema]
"""Takes a table's own columns, numbered, and gives them as they shall be."""


def history_before(snapshot: Snapshot, stored: StoredSchema) -> SchemaHistory:
    """The history of a table, begun with the columns that it has if there is none."""
    if snapshot.history is not None:
        return snapshot.history
    now = WriteSchema.of(stored.columns, stored)
    return evolved(None, now.full, parse_avro_record(now.full_text), 0)


def history_after(
    snapshot: Snapshot, schema: WriteSchema, instant: str, changed: pa.Schema | None
) -> SchemaHistory | None:
    """The history once a write has committed; None where there is none and none begins.

    Args:
        snapshot: The table before the write.
        schema: The columns that the write commits.
        instant: The time of the write.
        changed: The table's own columns with their ids, where the write changes just that.
    """
    if snapshot.history is None and changed is None:
        return None
    before = history_before(snapshot, StoredSchema.of(snapshot))
    newest = before.newest
    full = numbered(schema.full, newest)
    if changed is not None:
        full = pa.schema([*numbered(pa.schema(META_FIELDS), newest), *changed])
    return evolved(before, full, parse_avro_record(schema.full_text), int(instant))


def said_of_columns(history: SchemaHistory) -> dict[str, str]:
    """What a commit says of the history."""
    return {HISTORY_KEY: version_text(history.newest)}


def keep_history(storage: Storage, instant: str, completion: str, history: SchemaHistory) -> None:
    """Write all versions beside a commit that is about to complete; it counts with that."""
    place = f"{HISTORY_FOLDER}/{instant}"
    for state in ("requested", "inflight"):
        storage.create(f"{place}{HISTORY_SUFFIX}.{state}", b"")
    storage.create(f"{place}_{completion}{HISTORY_SUFFIX}", history_text(history).encode())
