"""Verifies the record index: the entry of every row's key points to the place of the row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.index.metadata_table.hashing import shards_of
from lakedex.keys import escape_path_value
from lakedex.services.verifying.check import Check, Subject
from lakedex.services.verifying.entries import group_entries
from lakedex.services.verifying.entry_places import entry_places, path_of, tell_wrong_places
from lakedex.services.verifying.key_sets import Matched, match
from lakedex.services.verifying.report import Findings, ProblemKind
from lakedex.services.verifying.row_keys import RowKeys

_NOWHERE = -1


@dataclass(slots=True)
class RecordIndexCheck(Check):
    """Compares keys group by group of the index."""

    group_ids: list[str] = field(kw_only=True)
    rows: RowKeys = field(kw_only=True)

    def see_rows(self, slice_number: int, rows: pa.Table) -> None:
        """Keep the keys of some rows."""
        keys = self.subject.snapshot.read_context.record_keys(rows)
        self.rows.add(keys, slice_number, self._groups_of(keys, slice_number))

    def finish(self) -> None:
        """Compare every group of the index with the rows that belong to it."""
        keys, slices = self.rows.of_group(_NOWHERE)
        detail = "the index has no file group for its partition"
        everyone = np.arange(len(keys))
        findings = self.subject.findings
        self._tell(findings, ProblemKind.MISSING, everyone, keys, detail, slices)
        self.by_group(self._compare, len(self.group_ids))

    def close(self) -> None:
        """Forget the keys."""
        self.rows.close()

    def _compare(self, number: int, findings: Findings) -> None:
        keys, slices = self.rows.of_group(number)
        entries = group_entries(self.subject.metadata, self.name, number)
        findings.checked[self.name] += len(entries)
        targets, locations = entry_places(entries)
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
        self._tell(findings, kind, found.missing, keys, detail, slices)
        # Of a key that stands several times the entry can name one place only.
        right_somewhere = np.zeros(int(found.key_codes.max(initial=-1)) + 1, dtype=np.bool_)
        right_somewhere[found.key_codes[right]] = True
        wrong = np.flatnonzero(has_entry & ~right_somewhere[found.key_codes])
        tell_wrong_places(
            findings,
            self.name,
            wrong,
            keys,
            lambda row: self.subject.slices[slices[row]].id,
            lambda row: f"points to {path_of(locations[targets[place[row]]])}",
        )
        self._tell_repeated(findings, keys, slices, found)
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

    def _tell_repeated(
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

    def _tell(
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
