"""What a write task is given and what it answers; all of it can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.format.spill import Segment
from lakedex.index.commit_changes import KeyNote
from lakedex.index.kinds.bucket.engine import PartitionBuckets
from lakedex.write.context import WriteContext
from lakedex.write.layout.order import RowOrder

NO_COMMIT = "null"
"""How Hudi spells that a file has no predecessor."""


@dataclass(frozen=True)
class NewBuckets:
    """The buckets that a resize is about to make, which rows of a virtual log file go to."""

    resize: str
    """The instant of the resize, which stands in the names of their log files."""
    buckets: PartitionBuckets
    fields: tuple[str, ...]
    """The hash fields."""
    versions: Mapping[str, int]
    """The number of the next log file, by file group."""
    token: str = ""
    """The write token of the log files."""


@dataclass(frozen=True)
class GroupWork:
    """The rows that one file group gets, and the file that they go to."""

    partition: str
    file_id: str
    current: FileSlice | None
    """What is there now; None for a new group."""
    segments: tuple[Segment, ...]
    """The rows, in the form of `write.rows` with tags, or as file slices have them."""
    ranges: tuple[tuple[int, int], ...] | None
    """First row and number of rows in each segment; None takes all."""
    file_name: str
    is_log: bool
    order: RowOrder | None = None
    """How the rows are sorted; as they come without one."""
    is_copy: bool = False
    """Whether the rows belong to another file group yet, which indexes of keys name."""
    new_buckets: NewBuckets | None = None
    """Where the rows go, if the log file is a virtual one."""

    @property
    def id(self) -> FileSliceId:
        """The file group."""
        return FileSliceId(self.partition, self.file_id)

    def path_of(self, name: str) -> str:
        """The path of a file of this partition, relative to the table."""
        return f"{self.partition}/{name}" if self.partition else name


@dataclass(frozen=True)
class WriteTask:
    """Some file groups that are written one after the other."""

    facts: WriteContext
    number: int
    """Stands in the sequence numbers of rows, so no two tasks of a write share one."""
    groups: tuple[GroupWork, ...]


@dataclass(frozen=True)
class WrittenFile:
    """A data file as the commit metadata tells it."""

    partition: str
    file_id: str
    name: str
    is_log: bool
    size: int
    previous_base: str | None
    """The base file that this one replaces."""
    prev_commit: str
    """The instant of that base file, `null` for a new group; a log file names its own."""
    num_writes: int
    """The rows in the file."""
    num_inserts: int
    num_updates: int
    num_deletes: int
    is_copy: bool = False
    """Whether another file of the write stands for its rows, too."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """What else the commit metadata says of it, by the names there."""


@dataclass(frozen=True)
class TaskResult:
    """What a write task did. Groups in which nothing changed have no file."""

    files: tuple[WrittenFile, ...]
    notes: tuple[KeyNote, ...] = ()
    """The keys that came to file groups and left them."""
    index_notes: Mapping[str, Any] = field(default_factory=dict)
    """What was noted for each index, by name."""
    seconds: float = 0.0
