"""The contract of verifying one index: what it asks to see of the data, and its verdict.

The data is read once for all indexes, several slices at a time. Every check says which columns it
needs, is shown files and merged rows as they pass by, and tells its findings at the end. All of one
slice is shown by one thread, in order; other threads may show other slices at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from lakedex.engine import Engine, LocalEngine
from lakedex.errors import LakedexError
from lakedex.filegroup import RECORD_KEY, FileSliceId, Slices
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import SliceFiles, slice_files
from lakedex.index.metadata_table import Kind, MetadataTable
from lakedex.index.metadata_table.hashing import file_name_id
from lakedex.index.metadata_table.keys import partition_id
from lakedex.services.verifying.report import Findings, ProblemKind
from lakedex.services.verifying.statistics import FileStatistics
from lakedex.table import Snapshot

_TELLING = threading.Lock()


@dataclass(slots=True)
class Subject:
    """The table that is verified, and what all checks share."""

    snapshot: Snapshot
    metadata: MetadataTable
    findings: Findings
    time_zone: str = "UTC"
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
    def slices(self) -> Slices:
        """The slices that a full read reads."""
        return self.snapshot.slices

    @property
    def definitions(self) -> dict[str, IndexDefinition]:
        """The index definitions by name."""
        return dict(self.snapshot.definitions)

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
        for partition, files in self.snapshot.listing.files.items():
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
    """Those of the columns that the file itself has not: they are null in the rows."""


@dataclass(slots=True)
class Check:
    """The verification of one index; the verbs do nothing unless a kind overrides them."""

    name: str
    subject: Subject
    stored_columns: frozenset[str] = frozenset()
    """Columns whose statistics are wanted, under the names that files store them with."""
    file_columns: frozenset[str] = frozenset()
    """Columns of the table that `see_file` wants."""
    row_columns: frozenset[str] = frozenset()
    """Columns of the table that `see_rows` wants."""
    failed: bool = False
    """Whether the index turned out to be unreadable, so that nothing more is shown to it."""

    def see_file(self, part: FileRows) -> None:
        """Look at some rows of one base or log file."""

    def see_rows(self, slice_number: int, rows: pa.Table) -> None:
        """Look at some merged rows of one slice."""

    def finish(self) -> None:
        """Compare what was seen with the index, and tell what differs."""

    def close(self) -> None:
        """Give back what was kept of the data."""

    def by_group(self, compare: Callable[[int, Findings], None], groups: int) -> None:
        """Compare file groups of the index at the same time; what each finds is told in order."""
        found = [Findings() for _ in range(groups)]
        self.subject.engine.map(
            f"compare {self.name}", lambda at: compare(at, found[at]), range(groups)
        )
        for each in found:
            self.subject.findings.take(each)

    def problem(
        self,
        kind: ProblemKind,
        key: str,
        detail: str,
        place: FileSliceId | None = None,
        entries: tuple[str, ...] = (),
    ) -> None:
        """Tell one problem of this index."""
        self.subject.findings.add(self.name, kind, key, detail, place, entries)

    def note(self, text: str) -> None:
        """Tell an oddity of this index."""
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
            with _TELLING:
                if not self.failed:  # by another thread, in the same moment
                    self.failed = True
                    self.problem(ProblemKind.UNREADABLE, self.name, str(error))


@dataclass(frozen=True, slots=True)
class VerifyKind:
    """How one kind of index is verified."""

    kind: Kind
    start: Callable[[str, Subject], Check]
    """Makes the check of the index of that name; may raise when the index is unreadable."""
