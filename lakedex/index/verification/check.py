"""The contract of verifying one index: which data a check needs, and what it finds.

The data is read once for all indexes, several slices at a time. Every check says which columns it
needs, receives files and merged rows as they are read, and adds its findings at the end. All of one
slice comes from one thread, in order; other threads may pass other slices at the same time.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakedex.engine import Engine, LocalEngine
from lakedex.errors import LakedexError
from lakedex.filegroup import RECORD_KEY, FileSliceId, ReadContext, Slices
from lakedex.format.spill import SpillWriter
from lakedex.index.contract import IndexedTable
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import SliceFiles, slice_files
from lakedex.index.metadata_table import MetadataTable
from lakedex.index.metadata_table.hashing import file_name_id
from lakedex.index.metadata_table.keys import partition_id
from lakedex.index.verification.findings import Findings, ProblemKind
from lakedex.index.verification.statistics import FileStatistics
from lakedex.index.written import KeyNote
from lakedex.storage.protocol import Storage
from lakedex.timeline import Timeline

_FAILING = threading.Lock()


@dataclass(slots=True)
class Subject:
    """The table that is verified, and what all checks share."""

    table: IndexedTable
    """The newest snapshot."""
    listed_files: Mapping[str, Sequence[tuple[str, int]]]
    """All data files of the table with their sizes, by partition path."""
    findings: Findings
    logs_name_own_instant: bool = True
    """Whether the name of a log file has the instant that wrote it."""
    engine: Engine = field(default_factory=LocalEngine)
    """Runs work on slices and on file groups of indexes, in threads of this process."""
    statistics: FileStatistics = field(default_factory=FileStatistics)
    """What the stored columns really hold, by file number; filled as the data passes by."""
    unreadable: set[int] = field(default_factory=set)
    """The numbers of slices whose rows could not be read."""

    files: SliceFiles = field(init=False)
    """All files of the slices; their numbers are positions here."""

    def __post_init__(self) -> None:
        """Number the files of the slices."""
        self.files = slice_files(self.slices)

    @property
    def read(self) -> ReadContext:
        """How files of the table are read: storage, properties, schema."""
        return self.table.read

    @property
    def storage(self) -> Storage:
        """Where the table lies."""
        return self.table.read.storage

    @property
    def schema(self) -> pa.Schema:
        """All columns of the table."""
        return self.table.read.schema

    @property
    def timeline(self) -> Timeline:
        """The timeline of the table."""
        return self.table.timeline

    @property
    def metadata(self) -> MetadataTable:
        """The metadata table."""
        return self.table.metadata

    @property
    def time_zone(self) -> str:
        """The session zone in which expressions over time are computed."""
        return self.table.time_zone

    @property
    def slices(self) -> Slices:
        """The slices that a full read reads."""
        return self.table.slices

    @property
    def definitions(self) -> Mapping[str, IndexDefinition]:
        """The index definitions by name."""
        return self.table.definitions

    @property
    def key_columns(self) -> list[str]:
        """The columns that make the record key of a row."""
        return [RECORD_KEY]

    def file_paths(self) -> list[str]:
        """The path of every file of the slices, by file number."""
        return [each.path_of(name) for each in self.slices for name in each.file_names]

    def file_partitions(self) -> list[str]:
        """The partition of every file of the slices, by file number."""
        return [each.partition for each in self.slices for _ in each.file_names]

    def slice_of(self, file_number: int) -> FileSliceId:
        """The slice that a file is of."""
        return self.slices[int(self.files.slice_of[file_number])].id

    def key_tail(self, file_number: int) -> str:
        """How index keys of a file end."""
        return str(self.files.key_tails[file_number])

    def listed_tails(self) -> pa.Array:
        """How index keys of all files of the table end, those outside the slices included."""
        tails = []
        for partition, files in self.listed_files.items():
            start = partition_id(partition)
            tails += [start + file_name_id(name) for name, _ in files]
        return pa.array(tails, pa.string())


@dataclass(frozen=True, slots=True)
class FileRows:
    """Some rows of one file, as they pass by."""

    slice_number: int
    file_number: int
    is_log: bool
    rows: pa.Table
    """The rows in the newest schema, with the `file_columns` that checks asked for."""
    lacking: frozenset[str] = frozenset()
    """Those of the columns that the file itself does not have: they are null in the rows."""


@dataclass(slots=True)
class Check:
    """The verification of one index; its methods do nothing unless a kind overrides them."""

    name: str
    subject: Subject
    stored_columns: frozenset[str] = frozenset()
    """Columns whose statistics it needs, under the names that files store them with."""
    file_columns: frozenset[str] = frozenset()
    """Columns of the table that `see_file` needs."""
    row_columns: frozenset[str] = frozenset()
    """Columns of the table that `see_rows` needs."""
    failed: bool = False
    """Whether the index turned out to be unreadable, so that it receives no more data."""

    def see_file(self, part: FileRows) -> None:
        """Look at some rows of one base or log file."""

    def see_rows(self, slice_number: int, rows: pa.Table) -> None:
        """Look at some merged rows of one slice."""

    def finish(self) -> None:
        """Compare what was seen with the index, and add what differs to the findings."""

    def close(self) -> None:
        """Release what was kept of the data."""

    def by_group(self, compare: Callable[[int, Findings], None], groups: int) -> None:
        """Compare file groups of the index at the same time; their findings are added in order."""
        by_group = [Findings() for _ in range(groups)]
        self.subject.engine.map(
            f"compare {self.name}", lambda at: compare(at, by_group[at]), range(groups)
        )
        for each in by_group:
            self.subject.findings.extend(each)

    def problem(
        self,
        kind: ProblemKind,
        key: str,
        detail: str,
        place: FileSliceId | None = None,
        entries: tuple[str, ...] = (),
    ) -> None:
        """Add one problem of this index."""
        self.subject.findings.add(self.name, kind, key, detail, place, entries)

    def note(self, text: str) -> None:
        """Add an oddity of this index."""
        self.subject.findings.note(self.name, text)

    def count(self, entries: int) -> None:
        """Count entries as checked."""
        self.subject.findings.checked[self.name] += entries

    def guarded(self, work: Callable[[], None]) -> None:
        """Do some work; an index that cannot be read is a problem, not an error."""
        if self.failed:
            return
        try:
            work()
        except LakedexError as error:
            with _FAILING:
                if not self.failed:  # by another thread, in the same moment
                    self.failed = True
                    self.problem(ProblemKind.UNREADABLE, self.name, str(error))


@dataclass(frozen=True, slots=True)
class RepairedTable:
    """The table whose indexes are repaired."""

    storage: Storage
    scratch: str
    """A folder for spill files."""
    definitions: Mapping[str, IndexDefinition]

    def spilled(self, rows: pa.Table) -> KeyNote:
        """Rows in a spill file, as tasks pass them to a commit."""
        writer = SpillWriter(self.storage, f"{self.scratch}/repair-{uuid.uuid4().hex}")
        segment = writer.add(rows.combine_chunks())
        writer.finish()
        return KeyNote(0, segment)
