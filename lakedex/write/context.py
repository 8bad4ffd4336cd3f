"""What every worker of a write knows about its table; it travels with each task.

It imports only what executors need.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.filegroup import ReadContext
from lakedex.index.maintenance import Collectors, CollectTask, MaintainedIndex
from lakedex.schema import SchemaHistory
from lakedex.schema.field_paths import column_at
from lakedex.storage.open import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.conflicts import EarlyLook


@dataclass(frozen=True)
class WriteContext:
    """A table as one write sees it."""

    address: StorageAddress
    config: TableConfig
    schema: pa.Schema
    """Meta columns first, then the columns as this write commits them."""
    schema_text: str
    """The Avro schema of the columns that files have, for footers and log blocks."""
    instant: str
    """The time of this write."""
    committed: CommittedInstants
    """What was committed when the write began."""
    scratch: str
    """The folder of the write's spill files, relative to the table."""
    compression: str = "snappy"
    """The codec of base files."""
    bloom_entries: int | None = None
    """How many keys a footer's filter is made for; None fits it to the file."""
    bloom_error_rate: float = 1e-9
    note_buckets: int = 1
    """Into how many buckets key notes are put."""
    history: SchemaHistory | None = None
    """How columns were renamed and retyped before this write."""
    repeats_tasks: bool = True
    """Whether an attempt at a task may go on after the write has ended."""
    note_shards: int = 1
    """How many shards the record index has: a key's bucket is its shard modulo `note_buckets`."""

    takes_for_live: bool = False
    """Whether keys whose place was not looked for count as live in the file group of their bucket:
    no index is told of keys."""
    early_look: EarlyLook | None = None
    """How to look for other writers before a file group is written; None does not look."""
    indexes: tuple[MaintainedIndex, ...] = ()
    """The indexes that note what the write does."""

    @property
    def row_columns(self) -> list[str]:
        """The columns that indexes need of changed rows; of a struct's field the whole column."""
        named = (column_at(path) for each in self.indexes for path in each.row_columns)
        return list(dict.fromkeys(named))

    @property
    def needs_changed_rows(self) -> bool:
        """Whether an index needs rows as they were and as they are."""
        return any(each.row_columns for each in self.indexes)

    @property
    def sized_columns(self) -> tuple[str, ...]:
        """The columns whose sizes in base files an index notes."""
        named = (name for each in self.indexes for name in each.sized_columns)
        return tuple(dict.fromkeys(named))

    def without_row_indexes(self) -> WriteContext:
        """The same where values and keys stay as they are, and so do the indexes of rows."""
        return replace(self, indexes=tuple(e for e in self.indexes if not e.row_columns))

    def collectors(self, storage: Storage) -> Collectors:
        """The collectors of one task."""
        task = CollectTask(storage, self.scratch, self.bloom_entries, self.bloom_error_rate)
        return Collectors(self.indexes, task)

    def in_file(self, rows: pa.Table) -> pa.Table:
        """Rows as a file holds them: without the columns that the partition path tells."""
        dropped = [name for name in self.config.dropped_columns if name in rows.column_names]
        return rows.drop_columns(dropped) if dropped else rows

    def read_context(self) -> ReadContext:
        """What reading slices needs, opened in this process."""
        return ReadContext(
            storage=self.address.open(),
            config=self.config,
            schema=self.schema,
            history=self.history,
            is_committed=self.committed,
        )
