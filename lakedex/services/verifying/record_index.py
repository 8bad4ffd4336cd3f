"""Verifies the record index: the entry of every row's key points to the place of the row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSliceId
from lakedex.index.metadata_table import RECORD_INDEX_PAYLOAD
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.record_index.locations import distinct_locations
from lakedex.keys import escape_path_value
from lakedex.services.verifying.check import Check, Subject
from lakedex.services.verifying.entries import group_entries
from lakedex.services.verifying.key_sets import RowKeys, match, pieces_by_group
from lakedex.services.verifying.report import ProblemKind

_NOWHERE = -1
_PLACE = (
    "partitionName",
    "fileIdHighBits",
    "fileIdLowBits",
    "fileIndex",
    "fileId",
    "fileIdEncoding",
)


@dataclass(slots=True)
class RecordIndexCheck(Check):
    """Compares keys group by group of the index."""

    _rows: RowKeys = field(default_factory=RowKeys)

    def see_rows(self, slice_number: int, rows: pa.Table) -> None:
        """Keep the keys of some rows."""
        self._rows.add(self.subject.snapshot.read_context.record_keys(rows), slice_number)

    def finish(self) -> None:
        """Compare every group of the index with the rows that belong to it."""
        keys, slices = self._rows.all()
        places = self._groups_of(keys, slices)
        group_count = len(self.subject.metadata.groups(self.name))
        homeless = np.flatnonzero(places == _NOWHERE)
        self._tell(
            ProblemKind.MISSING,
            homeless,
            keys,
            "the index has no file group for its partition",
            slices,
        )
        kept = np.flatnonzero(places != _NOWHERE)
        pieces = pieces_by_group(places[kept], group_count)
        for number, piece in enumerate(pieces):
            rows = kept[piece]
            self._compare(number, keys.take(pa.array(rows)), slices[rows])

    def _compare(self, number: int, keys: pa.Array, slices: npt.NDArray[np.int32]) -> None:
        entries = group_entries(self.subject.metadata, self.name, number)
        self.count(len(entries))
        targets, locations = _locations(entries)
        numbers = np.array(
            [self.subject.slice_numbers.get(place, _NOWHERE) for place in locations], np.int64
        )
        entry_keys = entries["key"].combine_chunks()
        found = match(keys, entry_keys)
        place = found.place.fill_null(0).to_numpy(zero_copy_only=False)
        has_entry = found.place.is_valid().to_numpy(zero_copy_only=False)
        right = np.zeros(len(keys), dtype=np.bool_)
        if len(entries):
            right = has_entry & (numbers[targets[place]] == slices)
        self._tell(ProblemKind.MISSING, found.missing, keys, "its row has no entry", slices)
        # Of a key that stands several times the entry can name one place only.
        right_somewhere = np.zeros(len(keys), dtype=np.bool_)
        right_somewhere[found.key_codes[right]] = True
        wrong = np.flatnonzero(has_entry & ~right_somewhere[found.key_codes])
        self.subject.findings.add_all(
            self.name,
            ProblemKind.WRONG,
            wrong,
            lambda row: (
                keys[row].as_py(),
                f"its entry points to {_path(locations[targets[place[row]]])}, "
                f"its row is in {_path(self.subject.slices[slices[row]].id)}",
                self.subject.slices[slices[row]].id,
            ),
        )
        self._tell_repeated(keys, slices, found.repeated, found.key_codes)
        unseen = np.isin(numbers[targets[found.stale]], list(self.subject.unreadable))
        self.subject.findings.add_all(
            self.name,
            ProblemKind.STALE,
            found.stale[~unseen],
            lambda row: (
                entry_keys[row].as_py(),
                f"no row has the key; its entry points to {_path(locations[targets[row]])}",
                locations[targets[row]],
            ),
        )

    def _tell_repeated(
        self,
        keys: pa.Array,
        slices: npt.NDArray[np.int32],
        repeated: npt.NDArray[np.bool_],
        codes: npt.NDArray[np.int64],
    ) -> None:
        rows = np.flatnonzero(repeated)
        _, first, counts = np.unique(codes[rows], return_index=True, return_counts=True)
        times = dict(zip(rows[first].tolist(), counts.tolist(), strict=True))
        self.subject.findings.add_all(
            self.name,
            ProblemKind.DUPLICATE,
            times,
            lambda row: (
                keys[row].as_py(),
                f"{times[row]} rows have the key, one in "
                f"{_path(self.subject.slices[slices[row]].id)}",
            ),
        )

    def _tell(
        self,
        kind: ProblemKind,
        rows: npt.NDArray[np.int64],
        keys: pa.Array,
        detail: str,
        slices: npt.NDArray[np.int32],
    ) -> None:
        self.subject.findings.add_all(
            self.name,
            kind,
            rows,
            lambda row: (keys[row].as_py(), detail, self.subject.slices[slices[row]].id),
        )

    def _groups_of(self, keys: pa.Array, slices: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The number of the group that the entry of each key must be in."""
        groups = [group.file_id for group in self.subject.metadata.groups(self.name)]
        definition = self.subject.definitions.get(self.name)
        if definition is None or not definition.is_partitioned:
            return shards_of(keys, len(groups))
        found = np.full(len(keys), _NOWHERE, dtype=np.int32)
        partitions = [each.partition for each in self.subject.slices]
        for partition in sorted(set(partitions)):
            escaped = escape_path_value(partition, for_file_name=True)
            start = f"record-index-{escaped}-"
            own = [row for row, name in enumerate(groups) if name.startswith(start)]
            own = [row for row in own if groups[row].count("-") == start.count("-") + 1]
            members = np.flatnonzero([path == partition for path in partitions])
            rows = np.flatnonzero(np.isin(slices, members))
            if own and len(rows):
                shards = shards_of(keys.take(pa.array(rows)), len(own))
                found[rows] = np.array(own, np.int32)[shards]
        return found


def start(name: str, subject: Subject) -> Check:
    """The check of the record index."""
    return RecordIndexCheck(name, subject, row_columns=frozenset(subject.key_columns))


def _locations(entries: pa.Table) -> tuple[npt.NDArray[np.int64], list[FileSliceId]]:
    """For each entry the number of its place, and the places."""
    payload = entries[RECORD_INDEX_PAYLOAD].combine_chunks()
    codes = np.zeros(len(entries), dtype=np.int64)
    for name in _PLACE:
        encoded = pc.dictionary_encode(pc.struct_field(payload, name), null_encoding="encode")
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.unique(codes * max(1, len(encoded.dictionary)) + own, return_inverse=True)[1]
    _, first = np.unique(codes, return_index=True)
    places = [next(iter(distinct_locations(entries.slice(row, 1)))) for row in first.tolist()]
    return codes, places


def _path(place: FileSliceId) -> str:
    return f"{place.partition}/{place.file_id}" if place.partition else place.file_id
