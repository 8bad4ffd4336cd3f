"""Indexes as writers keep them up to date: what tasks note of the rows that they write.

An index travels to the workers of a write, a compaction or a build as a `MaintainedIndex`. In a
task its `Collector` gets every file that is written, or read for a build. The notes of all tasks
become records of the index when the write commits (`MetadataIndexKind.records`). What they are is
a matter of the kind: to all others they are something that can be pickled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import pyarrow as pa

from lakedex.filegroup import FileSlice, FileSliceId, ReadContext
from lakedex.index.commit_changes import BloomText
from lakedex.index.definitions import IndexDefinition
from lakedex.storage.protocol import Storage

ColumnSizes = Mapping[str, tuple[int, int]]
"""The packed and the unpacked bytes of each column of a base file."""


@dataclass(frozen=True, slots=True)
class FileRows:
    """A data file, with all of its rows; those of a log file are its new versions of records."""

    partition: str
    file: str
    size: int
    rows: pa.Table
    """At least the columns that an index reads."""
    sizes: ColumnSizes = field(default_factory=dict)
    bloom: BloomText | None = None
    """The filter of record keys, of a base file."""


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows that a write changed: their record keys and the columns that indexes of rows need."""

    before: pa.Table
    after: pa.Table
    others: pa.Table | None = None
    """Rows that stayed, of keys that are in `before` too."""
    place: FileSliceId | None = None
    """The file group that they are in, where all of them are in one."""


@dataclass(frozen=True, slots=True)
class CollectTask:
    """What collectors need of the task that they run in."""

    storage: Storage
    scratch: str
    """The folder of spill files."""
    bloom_entries: int | None = None
    """How many keys a filter is made for at least."""
    bloom_error_rate: float = 1e-9


class Collector(ABC):
    """What one task notes for an index."""

    def add_file(self, file: FileRows) -> None:
        """Add a file that is written, or read for a build."""
        del file

    def lack(self, partition: str) -> None:
        """Note that a file of a partition does not have the columns that the index reads."""
        del partition

    def add_rows(self, changed: ChangedRows) -> None:
        """Add rows as they were and as they are."""
        del changed

    def keep(self, rows: pa.Table, place: FileSliceId) -> None:
        """Note rows of a file group that stay while other groups may lose rows of their keys."""
        del rows, place

    def add_slice(self, context: ReadContext, file_slice: FileSlice) -> None:
        """Add a file slice that is read for a build."""
        del context, file_slice

    @abstractmethod
    def finish(self) -> object:
        """The notes; None for nothing. Called once, after all else."""


class ComputedColumn(Protocol):
    """What an index is on, where rows can be ordered by it as by a column."""

    @property
    def name(self) -> str:
        """The full name of the index."""

    @property
    def given_name(self) -> str:
        """The name that the user gave it."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns that it is computed of, without the fields inside."""

    @property
    def type(self) -> pa.DataType:
        """The type of its values."""

    @property
    def ranges(self) -> tuple[str, str] | None:
        """The partition of the metadata table that has its ranges, and the column there."""

    def values(self, rows: pa.Table) -> pa.ChunkedArray:
        """Its values in some rows."""


class MaintainedIndex(ABC):
    """An index that writers keep up to date, as their workers know it; it can be pickled."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The full name of the index."""

    @property
    def serves(self) -> frozenset[str]:
        """The indexes whose records are made of its notes."""
        return frozenset({self.name})

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns that it reads of each file; empty for an index of rows."""
        return ()

    @property
    def is_joint(self) -> bool:
        """Whether it needs its columns together, and not one after the other."""
        return True

    @property
    def sized_columns(self) -> tuple[str, ...]:
        """The columns whose sizes in base files it notes."""
        return ()

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns, or fields of structs, that it needs of rows before and after a write."""
        return ()

    @property
    def stores_locations(self) -> bool:
        """Whether its entries name file groups, so that rows are added group by group."""
        return False

    @property
    def reads_slices(self) -> bool:
        """Whether a build adds file slices to it."""
        return False

    @property
    def computed(self) -> ComputedColumn | None:
        """What it is on, where rows can be ordered by that."""
        return None

    def is_defined_by(self, definition: IndexDefinition | None) -> bool:
        """Whether it is still the index of that name that the table has."""
        del definition
        return True

    def for_build(self) -> Self:
        """The same for a build, which notes all rows of the table."""
        return self

    @abstractmethod
    def collector(self, task: CollectTask) -> Collector:
        """The collector of one task."""

    @abstractmethod
    def joined(self, parts: Sequence[Any]) -> object:
        """The notes of all tasks in one."""


@dataclass(frozen=True)
class MaintainRequest:
    """What a kind needs to know of an index to keep it up to date."""

    table: str
    """The name of the table, for messages."""
    definition: IndexDefinition | None
    file_groups: int
    """How many the index has; 0 where it has none, or does without them."""
    columns: pa.Schema
    """The columns of the table, without meta columns."""
    stat_columns: tuple[str, ...] = ()
    """The columns that have ranges."""
    zones: Callable[[], Mapping[str, str]] = dict
    """Reads the time zones that indexes are computed in, by index."""
    session_zone: str = ""
    """The time zone of the writer; empty where it does not say one."""


class Collectors:
    """The collectors of several indexes in one task."""

    def __init__(self, indexes: Iterable[MaintainedIndex], task: CollectTask) -> None:
        """Start without notes."""
        self._all = [(each, each.collector(task)) for each in indexes]
        self._of_rows = [(each, own) for each, own in self._all if each.row_columns]

    @property
    def by_columns(self) -> list[tuple[MaintainedIndex, Collector]]:
        """Those that read columns of files."""
        return [(each, own) for each, own in self._all if each.sources]

    @property
    def by_slices(self) -> list[Collector]:
        """Those that read file slices in a build."""
        return [own for each, own in self._all if each.reads_slices]

    def add_file(self, file: FileRows) -> None:
        """Add a file that was written, with all columns."""
        for _, own in self._all:
            own.add_file(file)

    def add_rows(self, changed: ChangedRows) -> None:
        """Add rows as they were and as they are."""
        for _, own in self._of_rows:
            own.add_rows(changed)

    def keep(self, rows: pa.Table, place: FileSliceId) -> None:
        """Note rows that stay while other groups may lose rows of their keys."""
        for _, own in self._of_rows:
            own.keep(rows, place)

    def finish(self) -> dict[str, Any]:
        """The notes of each index that has any."""
        notes = {each.name: own.finish() for each, own in self._all}
        return {name: each for name, each in notes.items() if each is not None}


def joined_notes(
    indexes: Iterable[MaintainedIndex], parts: Collection[Mapping[str, Any]]
) -> dict[str, Any]:
    """What all tasks noted, by index."""
    found = {}
    for each in indexes:
        own = [part[each.name] for part in parts if each.name in part]
        if own:
            found[each.name] = each.joined(own)
    return found
