"""Verifies a windowed record index: it finds every row of the slices that it covers, and no other.

What it does not cover is no problem: writers look there themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import IndexUnusable
from lakedex.filegroup import FileSlice
from lakedex.filegroup.stored_keys import stored_keys
from lakedex.index.kinds.windowed.lookup import GROUPS, find_keys, open_run
from lakedex.index.kinds.windowed.state import WindowState, digest_of, open_window
from lakedex.index.verification.check import Check, Subject
from lakedex.index.verification.findings import ProblemKind
from lakedex.index.verification.keys import RowKeys

_Ints = npt.NDArray[np.int64]
_KeysOfSlices = list[tuple[int, pa.Array]]


@dataclass(slots=True)
class WindowedRecordIndexCheck(Check):
    """Looks every key up, those of rows and those of entries."""

    state: WindowState = field(default_factory=lambda: WindowState(0, "", 1))
    covered: dict[int, int] = field(default_factory=dict)
    """The slices that the index knows as they are, with their numbers in entries."""
    _rows: RowKeys = field(default_factory=lambda: RowKeys(1))

    def see_rows(self, slice_number: int, rows: pa.Table) -> None:
        """Keep the keys of a covered slice."""
        if slice_number in self.covered:
            keys = self.subject.read.record_keys(rows)
            self._rows.add(keys, slice_number, np.zeros(len(keys), dtype=np.int32))

    def finish(self) -> None:
        """Compare what the index finds with the rows, and with deleted rows in base files."""
        slices = [number for number in self.covered if number not in self.subject.unreadable]
        row_keys, seen_in = self._rows.of_group(0)
        kept = np.isin(seen_in, slices)
        row_keys, row_slices = row_keys.filter(pa.array(kept)), seen_in[kept].astype(np.int64)
        deleted = self._deleted(slices)
        keys = pa.concat_arrays(
            [self._entry_keys(), row_keys, *(each for _, each in deleted)]
        ).unique()
        found = find_keys(
            self.subject.storage,
            self.state.runs,
            self._groups(slices),
            keys.cast("string"),
        )
        self.count(len(found.query))
        numbers = np.array(slices, dtype=np.int64)
        codes = found.query * max(1, len(self.subject.slices)) + numbers[found.group]
        live = codes[found.is_live]
        rows = self._codes(keys, row_keys, row_slices)
        self._report(ProblemKind.MISSING, keys, rows, live, "its row has no entry")
        self._report(ProblemKind.STALE, keys, live, rows, "no row has the key there")
        for number, gone in deleted:
            base = self._codes(keys, gone, np.full(len(gone), number, dtype=np.int64))
            detail = "a deleted record in the base file has no entry"
            self._report(ProblemKind.MISSING, keys, base, codes[~found.is_live], detail)

    def close(self) -> None:
        """Release the keys."""
        self._rows.close()

    def _report(
        self, kind: ProblemKind, keys: pa.Array, ones: _Ints, others: _Ints, detail: str
    ) -> None:
        """Report pairs of key and slice that are among the ones and not among the others."""
        count = max(1, len(self.subject.slices))
        wrong = np.setdiff1d(ones, others)

        def describe(at: int) -> tuple[str, str]:
            key, number = divmod(int(wrong[at]), count)
            place = self.subject.slices[number]
            return keys[key].as_py(), f"{detail}: {place.path_of(place.file_id)}"

        self.subject.findings.add_all(self.name, kind, range(len(wrong)), describe)

    def _codes(self, keys: pa.Array, some: pa.Array, slices: _Ints) -> _Ints:
        """A number for each pair of key and slice."""
        at = pc.index_in(some.cast(keys.type), value_set=keys).to_numpy(zero_copy_only=False)
        found: _Ints = at.astype(np.int64) * max(1, len(self.subject.slices)) + slices
        return found

    def _deleted(self, slices: list[int]) -> _KeysOfSlices:
        """Keys of base files that log files deleted."""
        found: _KeysOfSlices = []
        for number in slices:
            current = self.subject.slices[number]
            if current.base is not None and current.logs:
                stored = stored_keys(self.subject.read, current)
                dead = stored.keys.filter(pa.array(~stored.live)).cast(pa.large_string())
                found.append((number, dead))
        return found

    def _entry_keys(self) -> pa.Array:
        storage = self.subject.storage
        parts = [
            cells.keys.cast(pa.string()).cast(pa.large_string())
            for file in self.state.files()
            for cells in open_run(storage, file).scan_batches()
        ]
        return pa.concat_arrays([pa.array([], pa.large_string()), *parts])

    def _groups(self, slices: list[int]) -> pa.Table:
        places = [self.subject.slices[number] for number in slices]
        columns = [
            [self.covered[number] for number in slices],
            [self.state.groups[place.id].based for place in places],
            [place.partition for place in places],
            [place.file_id for place in places],
        ]
        arrays = [pa.array(c, field.type) for c, field in zip(columns, GROUPS, strict=True)]
        return pa.table(arrays, schema=GROUPS)


def start(name: str, subject: Subject) -> Check:
    """The check of the index as of the state that counts.

    Raises:
        IndexUnusable: there is none any more.
    """
    state = open_window(subject.storage, subject.timeline.is_committed_write).state
    if state is None:
        raise IndexUnusable("it was removed meanwhile")
    covered = {
        number: state.groups[current.id].number
        for number, current in enumerate(subject.slices)
        if _is_covered(state, current)
    }
    rest = len(subject.slices) - len(covered)
    if rest:
        text = f"{rest} of {len(subject.slices)} file slices are not in it, and looked through"
        subject.findings.note(name, text)
    columns = frozenset(subject.key_columns)
    return WindowedRecordIndexCheck(
        name, subject, row_columns=columns, state=state, covered=covered
    )


def _is_covered(state: WindowState, current: FileSlice) -> bool:
    known = state.groups.get(current.id)
    return known is not None and known.digest == digest_of(current.file_names)
