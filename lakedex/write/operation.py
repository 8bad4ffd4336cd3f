"""The kinds of write, and what each does with the rows it is given."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Replaces(Enum):
    """Which file groups a write takes away."""

    NOTHING = "nothing"
    PARTITIONS = "partitions"
    """All of the partitions that it writes to."""
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of write; `name` is what the commit says."""

    name: str
    is_delete: bool = False
    looks_up: bool = False
    """Whether keys are looked up, so that rows find the record they change."""
    fills_small: bool = True
    replaces: Replaces = Replaces.NOTHING
    sorts: bool = False
    """Whether rows are sorted, where options say so."""
    without_rows: bool = False
    """Whether there is something to commit even if no row is written: columns, or indexes."""


UPSERT = Operation("UPSERT", looks_up=True)
INSERT = Operation("INSERT")
MERGED_INSERT = Operation("INSERT", looks_up=True)
"""An insert of rows that are merged with the records of their keys."""
BULK_INSERT = Operation("BULK_INSERT", fills_small=False, sorts=True)
DELETE = Operation("DELETE", is_delete=True, looks_up=True)
INSERT_OVERWRITE = Operation("INSERT_OVERWRITE", fills_small=False, replaces=Replaces.PARTITIONS)
INSERT_OVERWRITE_TABLE = Operation(
    "INSERT_OVERWRITE_TABLE", fills_small=False, replaces=Replaces.TABLE
)
CLUSTER = Operation("CLUSTER", fills_small=False)
RESCALE = Operation("BUCKET_RESCALE", fills_small=False, replaces=Replaces.PARTITIONS)
"""The rows of partitions in another number of buckets."""
COMPACT = Operation("COMPACT", fills_small=False)
ALTER_SCHEMA = Operation("ALTER_SCHEMA", without_rows=True)
INDEX = Operation("INDEX", without_rows=True)
DELETE_PARTITION = Operation("DELETE_PARTITION", replaces=Replaces.PARTITIONS)
