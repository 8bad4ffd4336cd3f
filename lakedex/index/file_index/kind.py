"""The base class of index kinds that describe single data files.

A kind says which entries it stores of the rows of a file (`entries`), which conditions it answers
(`answers`) and which entries may belong to a file with a matching row (`matches`). Everything else
works without a line of the kind: CREATE INDEX, the build beside writers, every write verb, table
services, explain, verify, repair, SHOW INDEXES and DROP INDEX.
"""

from __future__ import annotations

import logging
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.config.option_check import did_you_mean
from lakedex.errors import CorruptFile, IndexUnusable, InvalidInput, LakedexError
from lakedex.expr.tree import And, Column, Compare, Expr, Literal, Op, Or
from lakedex.filegroup import FileSlice, ReadContext
from lakedex.index.contract import (
    FIELDS_CHANGED,
    Answer,
    IndexedTable,
    Mask,
    Question,
    Stage,
    covered_up_to,
)
from lakedex.index.cost import Estimate, round_trip_seconds
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import positions
from lakedex.index.file_index.definitions import (
    index_prefix,
    readable_file_indexes,
    source_columns,
)
from lakedex.index.file_index.run import (
    FILE,
    Coverage,
    DescribedRun,
    EncodedEntries,
    RunHead,
    coverage,
    list_runs,
    read_heads,
    read_table,
)
from lakedex.schema.field_paths import type_at
from lakedex.storage.protocol import FileInfo, Storage

Ints = npt.NDArray[np.int64]
_T = TypeVar("_T")
_OWN_PACKAGE = "lakedex."
log = logging.getLogger("lakedex")
KIND_VERSION: Final = "lakedex.kind.version"
"""The option of a definition that says which version of the kind made it."""
_DEFINITION_VERSION = 2
_IDENTITY = "identity"
_RUN_S = 1.5e-3
"""Opening a run."""
_BYTE_S = 1 / 100e6
_FILE_S = 1.5e-6
"""Finding one file of the table among those of the runs."""
_MOST_CACHED_BYTES = 64 << 20
_SMALL_RUN_BYTES = 1 << 20
_CACHE_KEY = "entries of file indexes"


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """A new index, as CREATE INDEX describes it."""

    name: str
    """The name that the user gave it."""
    table: str
    columns: tuple[str, ...]
    """Columns or fields of structs (`home.city`), as the table spells them."""
    schema: pa.Schema
    """All columns of the table."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The options of the kind, in the spelling of `FileIndexKind.options`."""

    def type_of(self, column: str) -> pa.DataType:
        """The type of one of the columns."""
        return type_at(column, self.schema)


@dataclass(frozen=True, slots=True)
class FileIndexQuery:
    """A predicate, and the runs that describe the slices of a snapshot."""

    definition: IndexDefinition
    predicate: Expr
    table: IndexedTable
    coverage: Coverage
    decode: Callable[[Storage, RunHead], pa.Table]

    @property
    def runs(self) -> tuple[DescribedRun, ...]:
        """The runs whose entries this version of the kind can read."""
        return self.coverage.runs

    def entries(self, run: DescribedRun) -> pa.Table:
        """The entries of a run; those of small indexes are kept with the snapshot."""
        return self._cached(run, "entries", self.decode)

    def stored(self, run: DescribedRun, groups: Callable[[], Sequence[int]]) -> pa.Table:
        """The stored entries of some row groups, in their order.

        Of a small run all row groups are read, and kept with the snapshot.
        """
        if run.head.size_bytes <= _SMALL_RUN_BYTES:
            return self._cached(run, "stored", read_table)
        return read_table(self.table.read.storage, run.head, groups=groups())

    def _cached(
        self, run: DescribedRun, what: str, read: Callable[[Storage, RunHead], pa.Table]
    ) -> pa.Table:
        cache: dict[tuple[str, str], pa.Table] = self.table.kept.setdefault(_CACHE_KEY, {})
        key = what, run.head.path
        if key not in cache:
            table = read(self.table.read.storage, run.head)
            if sum(each.nbytes for each in cache.values()) + table.nbytes > _MOST_CACHED_BYTES:
                return table
            cache[key] = table
        return cache[key]

    def slices_of(self, run: DescribedRun, files: Ints) -> Mask:
        """The slices of the snapshot that some files of a run belong to, by file number."""
        mask = np.zeros(len(self.table.slices), dtype=np.bool_)
        slices = run.slice_of[files]
        mask[slices[slices >= 0]] = True
        return mask


class FileIndexKind(ABC):
    """A kind of index that describes each data file by itself.

    Most kinds subclass `EntryIndexKind`, which says what follows from matching single entries.
    Instances have no state: they are pickled and sent to executors.
    """

    kind: ClassVar[str]
    """The name in `CREATE INDEX ... USING kind(...)`: small letters, digits and underscores."""
    version: ClassVar[int] = 1
    """Increase it when the meaning of entries changes: runs of another version are not used."""
    options: ClassVar[Mapping[str, str]] = {}
    """The options of the kind in `OPTIONS (...)`, with their defaults."""
    stage: ClassVar[Stage] = Stage.EXPRESSIONS
    describes_files: ClassVar[bool] = True
    is_exact: ClassVar[bool] = True
    """Whether `decode` gives exactly what was encoded, or else perhaps more entries."""
    indexes_expressions: ClassVar[bool] = False
    """Whether it can index an expression such as `upper(name)`, evaluated by lakedex."""

    @abstractmethod
    def entries(self, definition: IndexDefinition, rows: pa.Table) -> pa.Table:
        """The entries of a data file with these rows, which have the columns of the index.

        The schema of the result depends on the types of the columns only. An error means that
        nothing is known of the file, which is then read by every query.
        """

    @abstractmethod
    def can_answer(self, definition: IndexDefinition, question: Question) -> str | None:
        """Why an index says nothing about a predicate; None if it does."""

    @abstractmethod
    def candidates(self, query: FileIndexQuery) -> tuple[Mask, str]:
        """The slices of the snapshot that may match, and a reason for the report."""

    def define(self, request: IndexRequest) -> IndexDefinition:
        """The definition of a new index.

        Raises:
            InvalidInput: a column or an option is wrong; the message says what to do.
        """
        if not request.columns:
            raise InvalidInput(f"the index {request.name} has no column; name one")
        return IndexDefinition(
            index_prefix(self.kind) + request.name,
            self.kind,
            _IDENTITY,
            request.columns,
            {**self.checked_options(request), KIND_VERSION: str(self.version)},
            _DEFINITION_VERSION,
        )

    def checked_options(self, request: IndexRequest) -> dict[str, str]:
        """The options of a new index, with defaults for those that the request leaves out."""
        for name in request.options:
            if name not in self.options:
                hint = did_you_mean(name, self.options) or (
                    f"; there are {', '.join(self.options)}" if self.options else "; it has none"
                )
                raise InvalidInput(f"no option of {self.kind} is called {name!r}{hint}")
        return {**self.options, **request.options}

    def encode(self, definition: IndexDefinition, entries: pa.Table, files: int) -> EncodedEntries:
        """Entries (with the column `file`) of so many files as a run stores them."""
        del definition, files
        return EncodedEntries(entries)

    def decode(self, storage: Storage, head: RunHead) -> pa.Table:
        """The entries of a run, with the column `file`."""
        return read_table(storage, head)

    def why_not(self, definition: IndexDefinition, table: IndexedTable) -> str | None:
        """Why an index cannot be used for any query of a snapshot; None if it can."""
        is_nested = any("." in each for each in definition.source_fields)
        return FIELDS_CHANGED if is_nested and table.read.history is not None else None

    def probes(self, definition: IndexDefinition, rows: pa.Table) -> list[Expr]:
        """Predicates by which `verify` tests the index on rows of the table: by default equality.

        A predicate that is true for one of the rows must keep the slice of that row.
        """
        (path, *others) = definition.source_fields
        if others or definition.function != _IDENTITY or "." in path:
            return []
        values = rows[path].unique().drop_null()
        column = Column((path,), values.type)
        return [Compare(Op.EQ, column, Literal(value.as_py(), values.type)) for value in values]

    def definitions(self, table: IndexedTable) -> dict[str, IndexDefinition]:
        """The indexes of this kind that a table has, by name."""
        return {
            name: each
            for name, each in readable_file_indexes(table.read.config).items()
            if each.index_type == self.kind
        }

    def names(self, table: IndexedTable) -> list[str]:
        """The names of the indexes of this kind."""
        return sorted(self.definitions(table))

    def entry_schema(self, definition: IndexDefinition, schema: pa.Schema) -> pa.Schema:
        """The schema of the entries, without `file`, in a table with these columns."""
        columns = [schema.field(name) for name in source_columns(definition)]
        empty = pa.schema([each.with_nullable(nullable=True) for each in columns]).empty_table()
        return self.entries(definition, empty).schema

    def readable_heads(
        self, definition: IndexDefinition, context: ReadContext, heads: Iterable[RunHead]
    ) -> list[RunHead]:
        """The runs of this version of the kind, and of the types that the columns have now."""
        empty = with_file_numbers([self.entry_schema(definition, context.schema).empty_table()])
        schema = self.encode(definition, empty, 0).table.schema.remove_metadata()
        return [
            head for head in heads if head.version == self.version and head.schema.equals(schema)
        ]

    def coverage_of(
        self,
        definition: IndexDefinition,
        context: ReadContext,
        slices: tuple[FileSlice, ...],
        runs: Sequence[FileInfo],
    ) -> Coverage:
        """What the runs describe of some slices.

        Raises:
            CorruptFile: a run cannot be read.
            IndexUnusable: the index cannot be computed here.
        """
        heads = read_heads(context.storage, runs)
        readable = self.readable_heads(definition, context, heads)
        others = frozenset(head.version for head in heads) - {self.version}
        return replace(coverage(context, definition, slices, readable), other_versions=others)

    def read_entries(self, storage: Storage, head: RunHead) -> pa.Table:
        """The entries of a run, with the column `file`.

        Raises:
            CorruptFile: they cannot be decoded, or are of files that the run does not have.
        """
        try:
            entries = self.decode(storage, head)
            numbers = entries[FILE].to_numpy()
        except (pa.ArrowException, KeyError, IndexError, ValueError) as error:
            raise CorruptFile(head.path, 0, expected="its entries", actual=error) from error
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= head.files.num_rows):
            raise CorruptFile(head.path, 0, expected="numbers of its files", actual=numbers.max())
        return entries

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """Opening the runs and reading their entries."""
        table = question.table
        definition = self.definitions(table)[name]
        problem = self._guarded(lambda: self._problem(definition, question))
        if problem is not None:
            return problem
        runs = list_runs(table.read.storage, definition)
        question.found[_runs_key(name)] = runs
        size = sum(self.lookup_bytes(run) for run in runs)
        requests = len(runs) * 2 * round_trip_seconds(table.read.storage)
        heads = sum(run.size_bytes for run in runs) * _BYTE_S + len(table.slices) * _FILE_S
        once = 0.0 if _cache_key(name) in table.kept else len(runs) * _RUN_S + heads
        return Estimate(once + len(runs) * _RUN_S + size * _BYTE_S + requests, once=once)

    def lookup_bytes(self, run: FileInfo) -> int:
        """How many bytes of a run a lookup reads."""
        return run.size_bytes

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The candidates among the slices that the index covers."""
        table = question.table
        definition = self.definitions(table)[name]
        problem = self._guarded(lambda: self._problem(definition, question))
        if problem is not None:
            return problem
        runs = question.found.get(_runs_key(name))
        known = self._guarded(lambda: self._coverage(table, definition, runs))
        if not known.covered.any():
            return f"no file slice is in it{self._versions(known)}; REFRESH INDEX builds it"
        query = FileIndexQuery(definition, question.predicate, table, known, self.read_entries)
        mask, reason = self._guarded(lambda: self.candidates(query))
        if definition.is_async:
            reason += covered_up_to(table.slices, known.covered)
        elif not known.covered.all():
            newer = int((~known.covered).sum())
            reason += f"; {newer} file slices that it does not have are read{self._versions(known)}"
        here = positions(question)
        return Answer(mask[here], known.covered[here], reason)

    def _versions(self, known: Coverage) -> str:
        """What to say of entries that another version of the kind made."""
        if not known.other_versions:
            return ""
        versions = ", ".join(map(str, sorted(known.other_versions)))
        return f" (entries of version {versions} of {self.kind}, this is version {self.version})"

    def _problem(self, definition: IndexDefinition, question: Question) -> str | None:
        return self.why_not(definition, question.table) or self.can_answer(definition, question)

    def _coverage(
        self, table: IndexedTable, definition: IndexDefinition, runs: list[FileInfo] | None
    ) -> Coverage:
        """The coverage of all slices of the snapshot; the newest one is kept with it."""
        if runs is None:
            runs = list_runs(table.read.storage, definition)
        cached: tuple[list[FileInfo], Coverage] | None = table.kept.get(_cache_key(definition.name))
        if cached is None or cached[0] != runs:
            cached = runs, self.coverage_of(definition, table.read, table.slices, runs)
            table.kept[_cache_key(definition.name)] = cached
        return cached[1]

    def _guarded(self, call: Callable[[], _T]) -> _T:
        """Call code of a kind: whatever it raises makes the index unusable, not the query fail."""
        try:
            return call()
        except LakedexError:
            raise
        except Exception as error:
            raise IndexUnusable(
                f"the index kind {self.kind} raised {type(error).__name__}: {error}"
            ) from error


class EntryIndexKind(FileIndexKind):
    """A file index that answers a condition by matching entries one by one."""

    @abstractmethod
    def answers(self, definition: IndexDefinition, condition: Expr) -> bool:
        """Whether `matches` can tell anything about a condition without AND and OR."""

    @abstractmethod
    def matches(
        self, definition: IndexDefinition, condition: Expr, entries: pa.Table
    ) -> pa.Array | npt.NDArray[np.bool_]:
        """Which entries may be of a file with a row for which the condition is true.

        A file is read if one of its entries matches; `entries` has the column `file` too.
        """

    def can_answer(self, definition: IndexDefinition, question: Question) -> str | None:
        """Why an index says nothing about a predicate; None if it does."""
        if is_answered(question.predicate, lambda leaf: self.answers(definition, leaf)):
            return None
        columns = ", ".join(definition.source_fields)
        return f"the predicate has no condition on {columns} that {self.kind} answers"

    def candidates(self, query: FileIndexQuery) -> tuple[Mask, str]:
        """The slices that have a matching entry for each condition that must hold."""

        def slices_matching(leaf: Expr) -> Mask | None:
            if not self.answers(query.definition, leaf):
                return None
            mask = np.zeros(len(query.table.slices), dtype=np.bool_)
            for run in query.runs:
                entries = query.entries(run)
                chosen = np.asarray(self.matches(query.definition, leaf, entries), dtype=np.bool_)
                mask |= query.slices_of(run, entries[FILE].to_numpy()[chosen])
            return mask

        mask = combined(query.predicate, slices_matching)
        if mask is None:
            mask = np.ones(len(query.table.slices), dtype=np.bool_)
        return mask, f"{int(mask.sum())} file slices have entries that may match"


class UnavailableKind(FileIndexKind):
    """Stands for a kind whose code cannot be used in this process; it describes no file."""

    kind = "unavailable"

    def __init__(self, problem: str) -> None:
        """Say why the kind cannot be used."""
        self.reason = problem

    def entries(self, definition: IndexDefinition, rows: pa.Table) -> pa.Table:
        """Nothing can be computed.

        Raises:
            IndexUnusable: always.
        """
        del definition, rows
        raise IndexUnusable(self.reason)

    def can_answer(self, definition: IndexDefinition, question: Question) -> str | None:
        """Why the kind cannot be used."""
        del definition, question
        return self.reason

    def candidates(self, query: FileIndexQuery) -> tuple[Mask, str]:
        """Every slice."""
        return np.ones(len(query.table.slices), dtype=np.bool_), self.reason


class _Serializer:
    """How kinds of other packages are pickled for processes that may not have the package."""

    dumps: Callable[[FileIndexKind], bytes] = staticmethod(pickle.dumps)


def serialize_kinds_with(dumps: Callable[[FileIndexKind], bytes]) -> None:
    """Pickle kinds that are not part of lakedex with a function whose result `pickle` can load."""
    _Serializer.dumps = staticmethod(dumps)


@dataclass(frozen=True, slots=True)
class FileIndex:
    """An index of a table with its kind, as tasks maintain it; it is sent to executors."""

    kind: FileIndexKind
    definition: IndexDefinition

    @property
    def name(self) -> str:
        """The full name of the index."""
        return self.definition.name

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(source_columns(self.definition))

    def __reduce__(self) -> tuple[Callable[..., FileIndex], tuple[object, ...]]:
        """Kinds of other packages travel by value: executors may not have the package."""
        if type(self.kind).__module__.startswith(_OWN_PACKAGE):
            return FileIndex, (self.kind, self.definition)
        try:
            return _received, (_Serializer.dumps(self.kind), self.definition)
        except Exception as error:  # noqa: BLE001 - it must not fail the write
            problem = f"the index kind {self.kind.kind} cannot be sent to executors: {error!r}"
            log.warning("%s; no file is described by %s", problem, self.name)
            return FileIndex, (UnavailableKind(problem), self.definition)

    def entries(self, rows: pa.Table) -> pa.Table:
        """The entries of a file with these rows.

        Raises:
            LakedexError: the index cannot be computed of these rows.
        """
        columns = rows.select(list(self.sources))
        return self.kind._guarded(lambda: self.kind.entries(self.definition, columns))

    def encoded(self, entries: pa.Table, files: int) -> EncodedEntries:
        """Entries (with the column `file`) of so many files as a run stores them.

        Raises:
            LakedexError: the kind cannot encode them.
        """
        return self.kind._guarded(lambda: self.kind.encode(self.definition, entries, files))

    def entry_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the entries, without `file`, in a table with these columns.

        Raises:
            LakedexError: the index cannot be computed of these columns.
        """
        return self.kind._guarded(lambda: self.kind.entry_schema(self.definition, schema))

    def readable_heads(self, context: ReadContext, heads: Iterable[RunHead]) -> list[RunHead]:
        """The runs of this version of the kind, and of the types that the columns have now.

        Raises:
            LakedexError: the index cannot be computed of these columns.
        """
        return self.kind._guarded(lambda: self.kind.readable_heads(self.definition, context, heads))

    def read_entries(self, storage: Storage, head: RunHead) -> pa.Table:
        """The entries of a run, with the column `file`.

        Raises:
            LakedexError: they cannot be decoded.
        """
        return self.kind._guarded(lambda: self.kind.read_entries(storage, head))


def _received(data: bytes, definition: IndexDefinition) -> FileIndex:
    """An index as another process of the same job sent it."""
    kind: FileIndexKind
    try:
        kind = pickle.loads(data)
    except Exception as error:  # noqa: BLE001 - it must not fail the write
        kind = UnavailableKind(
            f"the index kind {definition.index_type} cannot be loaded on this executor: {error!r}"
        )
    return FileIndex(kind, definition)


def with_file_numbers(parts: Sequence[pa.Table]) -> pa.Table:
    """The entries of several files, with the column `file`: the position of their part."""
    numbers = np.repeat(np.arange(len(parts), dtype=np.int32), [part.num_rows for part in parts])
    return pa.concat_tables(parts).add_column(0, FILE, pa.array(numbers))


def _runs_key(name: str) -> str:
    return f"runs of {name}"


def _cache_key(name: str) -> str:
    return f"coverage of {name}"


def is_answered(predicate: Expr, answers: Callable[[Expr], bool]) -> bool:
    """Whether conditions on leaves say anything about a predicate in normal form."""
    if isinstance(predicate, And):
        return any(is_answered(each, answers) for each in predicate.children)
    if isinstance(predicate, Or):
        return all(is_answered(each, answers) for each in predicate.children)
    return answers(predicate)


def combined(predicate: Expr, leaf: Callable[[Expr], Mask | None]) -> Mask | None:
    """The slices that may match a predicate, from those of its conditions; None for all slices.

    AND intersects what is known; OR needs all its sides. Negations are in the conditions already,
    so that no set of slices is ever complemented.
    """
    if not isinstance(predicate, And | Or):
        return leaf(predicate)
    masks = [combined(each, leaf) for each in predicate.children]
    known = [mask for mask in masks if mask is not None]
    if isinstance(predicate, Or):
        return np.logical_or.reduce(known) if len(known) == len(masks) else None
    return np.logical_and.reduce(known) if known else None
