"""Verifies a bitmap index: the values that it has of a file are those of the file, and no others.

Files that it does not know are no problem: queries read them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.filegroup import FileSliceId
from lakedex.index.kinds.bitmap.definitions import bitmap_definitions, bitmap_target, source_columns
from lakedex.index.kinds.bitmap.merging import pairs_of
from lakedex.index.kinds.bitmap.run import Ints
from lakedex.index.kinds.bitmap.store import file_keys, keys_of, list_runs, read_heads
from lakedex.index.kinds.expression.target import ExpressionTarget
from lakedex.services.verifying.check import Check, FileRows, Subject
from lakedex.services.verifying.report import ProblemKind
from lakedex.table import Snapshot


@dataclass(slots=True)
class BitmapCheck(Check):
    """Compares pairs of a file and a value."""

    target: ExpressionTarget = field(kw_only=True)
    _seen: list[tuple[int, pa.Array]] = field(default_factory=list)
    _untold: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def see_file(self, part: FileRows) -> None:
        """Keep the distinct values of some rows of a file."""
        try:
            values = self.target.values(part.rows).unique().cast(self.target.type)
        except (LakedexError, KeyError):
            with self._lock:
                self._untold.add(part.file_number)
            return
        with self._lock:
            self._seen.append((part.file_number, values))

    def finish(self) -> None:
        """Compare both ways, for the files that the index knows."""
        known, values, numbers = self._entries()
        self.count(len(values))
        unread = [
            at
            for at, owner in enumerate(self.subject.files.slice_of.tolist())
            if owner in self.subject.unreadable
        ]
        known &= ~np.isin(np.arange(len(known)), [*unread, *self._untold])
        missing = int((~known).sum())
        if missing:
            self.note(f"{missing} of {len(known)} files are not in it, and are always read")
        seen = pa.concat_arrays(
            [pa.array([], self.target.type), *(values for _, values in self._seen)]
        )
        seen_in = np.repeat(
            np.array([number for number, _ in self._seen], dtype=np.int64),
            [len(values) for _, values in self._seen],
        )
        both = pc.dictionary_encode(pa.concat_arrays([values, seen]), null_encoding="encode")
        codes = both.indices.to_numpy().astype(np.int64)
        distinct = max(1, len(both.dictionary))
        owners = np.concatenate([numbers, seen_in])
        pairs = owners * distinct + codes
        ours, real = np.split(pairs, [len(values)])
        is_known = np.append(known, False)
        ours, real = ours[is_known[numbers]], real[is_known[seen_in]]
        paths = self.subject.file_paths()

        def tell(kind: ProblemKind, wrong: Ints, detail: str) -> None:
            def describe(at: int) -> tuple[str, str, FileSliceId, tuple[str, ...]]:
                owner, code = divmod(int(wrong[at]), distinct)
                value, path = str(both.dictionary[code].as_py()), paths[owner]
                return value, f"{detail}: {path}", self.subject.slice_of(owner), (path,)

            self.subject.findings.add_all(self.name, kind, range(len(wrong)), describe)

        tell(ProblemKind.MISSING, np.setdiff1d(real, ours), "the index does not have it of")
        tell(ProblemKind.STALE, np.setdiff1d(ours, real), "no row has it in")

    def _entries(self) -> tuple[np.ndarray, pa.Array, Ints]:
        """Which files are known, and the values of files by their numbers in the snapshot."""
        storage = self.subject.snapshot.storage
        wanted = file_keys(self.subject.slices)
        known = np.zeros(len(wanted), dtype=np.bool_)
        values, numbers = [pa.array([], self.target.type)], [np.zeros(0, np.int64)]
        for head in read_heads(storage, list_runs(storage, self.target.definition)):
            if head.type != self.target.type:
                continue
            at = pc.index_in(keys_of(head.files), value_set=wanted).fill_null(-1).to_numpy()
            known[at[at >= 0]] = True
            own, files = pairs_of(storage, head)
            place = at[files].astype(np.int64)
            values.append(own.filter(pa.array(place >= 0)))
            numbers.append(place[place >= 0])
        return known, pa.concat_arrays(values), np.concatenate(numbers)


def bitmap_names(snapshot: Snapshot) -> list[str]:
    """The bitmap indexes of a table."""
    return sorted(bitmap_definitions(snapshot.config))


def start(name: str, subject: Subject) -> Check:
    """The check of one index.

    Raises:
        IndexUnusable: it cannot be computed here.
    """
    definition = bitmap_definitions(subject.snapshot.config)[name]
    target = bitmap_target(definition, subject.snapshot.schema)
    columns = frozenset(source_columns(definition))
    return BitmapCheck(name, subject, file_columns=columns, target=target)
