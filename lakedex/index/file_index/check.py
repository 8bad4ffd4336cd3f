"""Verifies a file index: its entries of a file are those of the rows of the file, and no others.

Files that no run describes are no problem: queries read them. Then lookups are tried: a predicate
that is true for a sampled row must keep the slice of that row.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.expr.bind import bind_predicate
from lakedex.expr.evaluate import evaluate
from lakedex.expr.tree import Expr
from lakedex.filegroup import FileSliceId
from lakedex.index.contract import IndexedTable, Question
from lakedex.index.file_index import FileIndex
from lakedex.index.file_index.kind import with_file_numbers
from lakedex.index.file_index.run import FILE, file_keys, keys_of, list_runs, read_heads
from lakedex.index.verification.check import Check, FileRows, Subject
from lakedex.index.verification.findings import ProblemKind

Ints = npt.NDArray[np.int64]
_SAMPLED_SLICES = 16
_SAMPLED_ROWS = 8
_LONGEST_TEXT = 100


@dataclass(slots=True)
class FileIndexCheck(Check):
    """Compares the entries of each file, then tries lookups of sampled rows."""

    index: FileIndex = field(kw_only=True)
    _pending: dict[int, tuple[int, list[pa.Table]]] = field(default_factory=dict)
    """The file that is being shown of each slice, and its rows so far."""
    _seen: list[tuple[int, pa.Table]] = field(default_factory=list)
    _not_computed: set[int] = field(default_factory=set)
    _samples: dict[int, pa.Table] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def see_file(self, part: FileRows) -> None:
        """Keep the rows of a file until the next one of its slice is shown."""
        rows = part.rows.select(list(self.index.sources))
        known = self._pending.get(part.slice_number)
        if known is not None and known[0] == part.file_number:
            known[1].append(rows)
            return
        if known is not None:
            self._compute(*known)
        with self._lock:
            self._pending[part.slice_number] = part.file_number, [rows]

    def see_rows(self, slice_number: int, rows: pa.Table) -> None:
        """Sample some merged rows of a slice."""
        with self._lock:
            is_new = rows.num_rows > 0 and slice_number not in self._samples
            if is_new and len(self._samples) < _SAMPLED_SLICES:
                at = np.linspace(0, rows.num_rows - 1, _SAMPLED_ROWS).astype(np.int64)
                self._samples[slice_number] = rows.take(pa.array(np.unique(at)))

    def finish(self) -> None:
        """Compare both ways, for the files that the index describes; then try lookups."""
        for file_number, parts in self._pending.values():
            self._compute(file_number, parts)
        described, entries = self._entries()
        self.count(entries.num_rows)
        unread = [
            at
            for at, owner in enumerate(self.subject.files.slice_of.tolist())
            if owner in self.subject.unreadable
        ]
        described &= ~np.isin(np.arange(len(described)), [*unread, *self._not_computed])
        missing = int((~described).sum())
        if missing:
            self.note(f"{missing} of {len(described)} files are not in it, and are always read")
        self._compare(described, entries)
        if not self.subject.findings.problems.get(self.name):
            self._try_lookups()

    def _compute(self, file_number: int, parts: list[pa.Table]) -> None:
        try:
            entries = self.index.entries(pa.concat_tables(parts))
        except LakedexError:
            with self._lock:
                self._not_computed.add(file_number)
            return
        with self._lock:
            self._seen.append((file_number, entries))

    def _compare(self, described: npt.NDArray[np.bool_], stored: pa.Table) -> None:
        computed = self._computed()
        both = pa.concat_tables([stored, computed])
        contents = both.drop_columns([FILE])
        codes, first = _entry_codes(contents)
        distinct = max(1, len(first))
        owners = both[FILE].to_numpy().astype(np.int64)
        pairs = owners * distinct + codes
        ours, real = np.split(pairs, [stored.num_rows])
        is_described = np.append(described, [False])
        ours = ours[is_described[owners[: stored.num_rows]]]
        real = real[is_described[owners[stored.num_rows :]]]
        paths = self.subject.file_paths()

        def report(kind: ProblemKind, wrong: Ints, detail: str) -> None:
            def describe(at: int) -> tuple[str, str, FileSliceId, tuple[str, ...]]:
                owner, code = divmod(int(wrong[at]), distinct)
                path, text = paths[owner], _entry_text(contents, int(first[code]))
                return text, f"{detail}: {path}", self.subject.slice_of(owner), (path,)

            self.subject.findings.add_all(self.name, kind, range(len(wrong)), describe)

        report(ProblemKind.MISSING, np.setdiff1d(real, ours), "the index does not have it of")
        if self.index.kind.is_exact:
            report(ProblemKind.STALE, np.setdiff1d(ours, real), "no row has it in")

    def _computed(self) -> pa.Table:
        """The entries that the rows of each file give, by file number."""
        schema = self.index.entry_schema(self.subject.schema)
        shown = {number for number, _ in self._seen}
        # Of a file that only deletes no rows are shown.
        without_rows = self.index.entries(self._no_rows())
        parts = [
            *self._seen,
            *(
                (number, without_rows)
                for number in range(len(self.subject.files.slice_of))
                if number not in shown and number not in self._not_computed
            ),
        ]
        entries = with_file_numbers([schema.empty_table(), *(each for _, each in parts)])
        numbers = np.array([-1, *(number for number, _ in parts)], dtype=np.int64)
        owners = numbers[entries[FILE].to_numpy()]
        return entries.set_column(0, FILE, pa.array(owners))

    def _no_rows(self) -> pa.Table:
        fields = [self.subject.schema.field(name) for name in self.index.sources]
        return pa.schema([each.with_nullable(nullable=True) for each in fields]).empty_table()

    def _entries(self) -> tuple[npt.NDArray[np.bool_], pa.Table]:
        """Which files are described, and the entries by the number of the file in the snapshot."""
        context, index = self.subject.read, self.index
        keys = file_keys(self.subject.slices)
        described = np.zeros(len(keys), dtype=np.bool_)
        schema = index.entry_schema(context.schema)
        parts = [
            with_file_numbers([schema.empty_table()]).cast(pa.schema([(FILE, pa.int64()), *schema]))
        ]
        heads = read_heads(context.storage, list_runs(context.storage, index.definition))
        for head in index.readable_heads(context, heads):
            at = pc.index_in(keys_of(head.files), value_set=keys).fill_null(-1).to_numpy()
            described[at[at >= 0]] = True
            entries = index.read_entries(context.storage, head)
            owners = at[entries[FILE].to_numpy()].astype(np.int64)
            entries = entries.set_column(0, FILE, pa.array(owners))
            parts.append(entries.filter(pa.array(owners >= 0)))
        return described, pa.concat_tables(parts)

    def _try_lookups(self) -> None:
        """Hold answers of the index against a scan of sampled rows."""
        table = self.subject.table
        kind = self.index.kind
        for number, rows in self._samples.items():
            for probe in kind.probes(self.index.definition, rows):
                self._try(table, number, rows, probe)

    def _try(self, table: IndexedTable, number: int, rows: pa.Table, probe: Expr) -> None:
        predicate = bind_predicate(probe, rows.schema, time_zone=self.subject.time_zone)
        matching = evaluate(predicate, rows, time_zone=self.subject.time_zone)
        if not pc.any(matching).as_py():
            return
        answer = self.index.kind.lookup(self.name, Question(predicate, table.slices, table))
        self.count(1)
        if not isinstance(answer, str) and not answer.keep[number]:
            place = self.subject.slices[number]
            files = tuple(place.path_of(name) for name in place.file_names)
            detail = "the index leaves out a file slice that has a matching row"
            self.problem(ProblemKind.WRONG, str(probe), detail, place.id, files)


def file_index_check(index: FileIndex, subject: Subject) -> Check:
    """The check of an index."""
    columns = frozenset(index.sources)
    return FileIndexCheck(
        index.name, subject, file_columns=columns, row_columns=columns, index=index
    )


def _entry_codes(entries: pa.Table) -> tuple[Ints, Ints]:
    """A number for each entry, equal for equal entries; and the position of one of each number."""
    codes = np.zeros(entries.num_rows, dtype=np.int64)
    for column in entries.columns:
        values = column.combine_chunks()
        if pa.types.is_nested(values.type):
            values = pa.array([str(each) for each in values.to_pylist()], pa.string())
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        own = encoded.indices.to_numpy().astype(np.int64)
        pairs = codes * max(1, len(encoded.dictionary)) + own
        codes = np.unique(pairs, return_inverse=True)[1].reshape(-1)
    first = np.unique(codes, return_index=True)[1]
    return codes, first


def _entry_text(entries: pa.Table, at: int) -> str:
    values = [str(column[at].as_py())[:_LONGEST_TEXT] for column in entries.columns]
    return ", ".join(values)
