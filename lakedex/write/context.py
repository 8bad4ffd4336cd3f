"""What every worker of a write knows about its table; it travels with each task.

It imports only what executors need.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.filegroup import ReadContext
from lakedex.index.file_index import FileIndex
from lakedex.index.kinds.expression.target import ExpressionTarget
from lakedex.index.kinds.secondary.pairs import SecondaryTarget
from lakedex.schema import SchemaHistory
from lakedex.schema.field_paths import column_at
from lakedex.storage.address import StorageAddress
from lakedex.timeline.committed import CommittedInstants
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
    stat_columns: tuple[str, ...] = ()
    """The columns whose ranges are kept; none without column_stats."""
    has_bloom_index: bool = False
    """Whether the metadata table has bloom_filters, so that filters are handed on."""
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
    secondary: tuple[SecondaryTarget, ...] = ()
    """The secondary indexes that are told of changed rows."""
    expressions: tuple[ExpressionTarget, ...] = ()
    """The expression indexes that are told of new files."""
    file_indexes: tuple[FileIndex, ...] = ()
    """The file indexes that describe new files."""

    @property
    def indexed_columns(self) -> list[str]:
        """The columns of secondary indexes, each once; of a struct's field the whole column."""
        named = (column_at(path) for each in self.secondary for path in each.columns)
        return list(dict.fromkeys(named))

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
