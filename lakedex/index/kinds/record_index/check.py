"""Verifies the record index, key by key, and repairs single entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSliceId
from lakedex.index.kinds.record_index.lookup import LOCATION_FIELDS, distinct_locations
from lakedex.index.metadata_table import RECORD_INDEX_PAYLOAD
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.verification.check import Check, RepairedTable, Subject
from lakedex.index.verification.findings import Findings, Problem, ProblemKind
from lakedex.index.verification.keys import Matched, RowKeys, group_entries, match
from lakedex.index.written import CommitChanges, note_rows
from lakedex.keys import escape_path_value

_NOWHERE = -1


@dataclass(slots=True)
class RecordIndexCheck(Check):
    """Compares keys group by group of the index."""

    group_ids: list[str] = field(kw_only=True)
    rows: RowKeys = field(kw_only=True)

    def see_rows(self, slice_number: int, rows: pa.Table) -> None:
        """Keep the keys of some rows."""
        keys = self.subject.read.record_keys(rows)
        self.rows.add(keys, slice_number, self._groups_of(keys, slice_number))

    def finish(self) -> None:
        """Compare every group of the index with the rows that belong to it."""
        keys, slices = self.rows.of_group(_NOWHERE)
        detail = "the index has no file group for its partition"
        everyone = np.arange(len(keys))
        findings = self.subject.findings
        self._report(findings, ProblemKind.MISSING, everyone, keys, detail, slices)
        self.by_group(self._compare, len(self.group_ids))

    def close(self) -> None:
        """Release the keys."""
        self.rows.close()

    def _compare(self, number: int, findings: Findings) -> None:
        keys, slices = self.rows.of_group(number)
        entries = group_entries(self.subject.metadata, self.name, number)
        findings.checked[self.name] += len(entries)
        targets, locations = entry_locations(entries)
        numbers = np.array(
            [self.subject.slices.places.get(place, _NOWHERE) for place in locations], np.int64
        )
        entry_keys = entries["key"].combine_chunks()
        found = match(keys, entry_keys)
        place = found.place.fill_null(0).to_numpy(zero_copy_only=False)
        has_entry = found.place.is_valid().to_numpy(zero_copy_only=False)
        right = np.zeros(len(keys), dtype=np.bool_)
        if len(entries):
            right = has_entry & (numbers[targets[place]] == slices)
        kind, detail = ProblemKind.MISSING, "its row has no entry"
        self._report(findings, kind, found.missing, keys, detail, slices)
        # Of a key that stands several times the entry can name one place only.
        right_somewhere = np.zeros(int(found.key_codes.max(initial=-1)) + 1, dtype=np.bool_)
        right_somewhere[found.key_codes[right]] = True
        wrong = np.flatnonzero(has_entry & ~right_somewhere[found.key_codes])
        report_wrong_locations(
            findings,
            self.name,
            wrong,
            keys,
            lambda row: self.subject.slices[slices[row]].id,
            lambda row: f"points to {path_of(locations[targets[place[row]]])}",
        )
        self._report_repeated(findings, keys, slices, found)
        unseen = np.isin(numbers[targets[found.stale]], list(self.subject.unreadable))
        findings.add_all(
            self.name,
            ProblemKind.STALE,
            found.stale[~unseen],
            lambda row: (
                entry_keys[row].as_py(),
                f"no row has the key; its entry points to {path_of(locations[targets[row]])}",
                locations[targets[row]],
            ),
        )

    def _report_repeated(
        self, findings: Findings, keys: pa.Array, slices: npt.NDArray[np.int32], found: Matched
    ) -> None:
        rows = np.flatnonzero(found.repeated)
        codes = found.key_codes[rows]
        _, first, counts = np.unique(codes, return_index=True, return_counts=True)
        times = dict(zip(rows[first].tolist(), counts.tolist(), strict=True))
        findings.add_all(
            self.name,
            ProblemKind.DUPLICATE,
            times,
            lambda row: (
                keys[row].as_py(),
                f"{times[row]} rows have the key, one in "
                f"{path_of(self.subject.slices[slices[row]].id)}",
            ),
        )

    def _report(
        self,
        findings: Findings,
        kind: ProblemKind,
        rows: npt.NDArray[np.int64],
        keys: pa.Array,
        detail: str,
        slices: npt.NDArray[np.int32],
    ) -> None:
        findings.add_all(
            self.name,
            kind,
            rows,
            lambda row: (keys[row].as_py(), detail, self.subject.slices[slices[row]].id),
        )

    def _groups_of(self, keys: pa.Array, slice_number: int) -> npt.NDArray[np.int32]:
        """The number of the group that the entry of each key must be in."""
        definition = self.subject.definitions.get(self.name)
        if definition is None or not definition.is_partitioned:
            return shards_of(keys, len(self.group_ids))
        partition = self.subject.slices[slice_number].partition
        start = f"record-index-{escape_path_value(partition, for_file_name=True)}-"
        dashes = start.count("-") + 1
        own = [
            number
            for number, name in enumerate(self.group_ids)
            if name.startswith(start) and name.count("-") == dashes
        ]
        if not own:
            return np.full(len(keys), _NOWHERE, dtype=np.int32)
        found: npt.NDArray[np.int32] = np.array(own, np.int32)[shards_of(keys, len(own))]
        return found


def start(name: str, subject: Subject) -> Check:
    """The check of the record index."""
    groups = [group.file_id for group in subject.metadata.groups(name)]
    return RecordIndexCheck(
        name,
        subject,
        row_columns=frozenset(subject.key_columns),
        group_ids=groups,
        rows=RowKeys(len(groups)),
    )


def entry_locations(entries: pa.Table) -> tuple[npt.NDArray[np.int64], list[FileSliceId]]:
    """For each entry the number of its place, and the places."""
    payload = entries[RECORD_INDEX_PAYLOAD].combine_chunks()
    codes = np.zeros(len(entries), dtype=np.int64)
    for name in LOCATION_FIELDS:
        encoded = pc.dictionary_encode(pc.struct_field(payload, name), null_encoding="encode")
        if len(encoded.dictionary) == 1:
            continue  # all places have the same
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.unique(codes * max(1, len(encoded.dictionary)) + own, return_inverse=True)[1]
    _, first = np.unique(codes, return_index=True)
    places = [next(iter(distinct_locations(entries.slice(row, 1)))) for row in first.tolist()]
    return codes, places


def path_of(place: FileSliceId) -> str:
    """A place as people read it.

    Example:
        >>> path_of(FileSliceId("city=oslo", "f1")), path_of(FileSliceId("", "f1"))
        ('city=oslo/f1', 'f1')
    """
    return f"{place.partition}/{place.file_id}" if place.partition else place.file_id


def report_wrong_locations(
    findings: Findings,
    name: str,
    rows: npt.NDArray[np.intp],
    keys: pa.Array,
    actual: Callable[[int], FileSliceId],
    stated: Callable[[int], str],
) -> None:
    """Report rows whose entry names another place: `stated` describes it, `actual` is right."""
    findings.add_all(
        name,
        ProblemKind.WRONG,
        rows,
        lambda row: (
            keys[row].as_py(),
            f"its entry {stated(row)}, its row is in {path_of(actual(row))}",
            actual(row),
        ),
    )


def repair(name: str, problems: Sequence[Problem], table: RepairedTable) -> CommitChanges:
    """The keys to write and to delete, with their places."""
    del name
    rows = [
        note_rows(pa.array(keys), place.partition, place.file_id, is_delete=is_delete)
        for (place, is_delete), keys in _by_place(problems).items()
    ]
    return CommitChanges(key_notes=(table.spilled(pa.concat_tables(rows)),) if rows else ())


def _by_place(problems: Sequence[Problem]) -> dict[tuple[FileSliceId, bool], list[str]]:
    places: dict[tuple[FileSliceId, bool], list[str]] = defaultdict(list)
    for problem in problems:
        if problem.place is not None:
            places[problem.place, problem.kind is ProblemKind.STALE].append(problem.key)
    return places
