"""Verifies a secondary index: every row's value and key have an entry, and no others do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import IndexUnusable
from lakedex.index.contract import Mask
from lakedex.index.kinds.record_index.check import entry_locations, path_of, report_wrong_locations
from lakedex.index.kinds.secondary.coverage import (
    COVERAGE_START,
    covered_slices,
    covering_noted,
    without_coverage,
)
from lakedex.index.kinds.secondary.key_encoding import encoded, is_certain
from lakedex.index.kinds.secondary.records import PAIR_SCHEMA
from lakedex.index.metadata_table import RECORD_INDEX_PAYLOAD
from lakedex.index.metadata_table.hashing import java_hashes, shards_of
from lakedex.index.metadata_table.keys import (
    placed_values_of_secondary,
    record_keys_of_secondary,
    secondary_keys,
)
from lakedex.index.verification.check import Check, RepairedTable, Subject
from lakedex.index.verification.findings import Findings, Problem, ProblemKind
from lakedex.index.verification.keys import Matched, RowKeys, group_entries, match
from lakedex.index.written import CommitChanges, PairNotes
from lakedex.schema.field_paths import column_at, type_at, values_at

_NOWHERE = -1


@dataclass(slots=True)
class SecondaryIndexCheck(Check):
    """Compares pairs of value and record key, group by group of the index."""

    columns: tuple[str, ...] = field(kw_only=True)
    encoding_is_sure: bool = field(kw_only=True)
    """Whether the text of values in keys is known; else only record keys are compared."""
    by_value: bool = field(kw_only=True)
    covers: bool = field(kw_only=True)
    """Whether entries name the file groups of their rows, and queries use that."""
    group_count: int = field(kw_only=True)
    rows: RowKeys = field(kw_only=True)
    covered: Mask | None = field(default=None, kw_only=True)
    """The slices that an index with `maintenance=async` covers; None for other indexes."""

    def see_rows(self, slice_number: int, rows: pa.Table) -> None:
        """Keep the pairs of some rows."""
        if self.covered is not None and not self.covered[slice_number]:
            return
        keys = self.subject.read.record_keys(rows)
        if self.encoding_is_sure:
            chunked = pa.chunked_array([keys.cast(pa.string())])
            texts = [encoded(values_at(each, rows)) for each in self.columns]
            keys = secondary_keys(texts, chunked)
            groups = shards_of(self._placed(keys), self.group_count)
        else:
            groups = np.zeros(len(keys), dtype=np.int32)
        self.rows.add(keys, slice_number, groups)

    def finish(self) -> None:
        """Compare every group of the index with the pairs that belong to it."""
        if self.covered is not None and not self.covered.all():
            newer = int((~self.covered).sum())
            self.note(f"{newer} file slices are newer than it, and are read (REFRESH INDEX)")
        if self.encoding_is_sure:
            self.by_group(self._compare, self.group_count)
        else:
            self._compare_record_keys(self.rows.of_group(0)[0])

    def close(self) -> None:
        """Release the pairs."""
        self.rows.close()

    def _compare(self, number: int, findings: Findings) -> None:
        keys, slices = self.rows.of_group(number)
        metadata = self.subject.metadata
        if self.covers:
            entries = metadata.scan_ranges(self.name, [(b"", None)], [number], with_places=True)
        else:
            entries = group_entries(metadata, self.name, number)
        if self.covered is not None:
            entries = without_coverage(entries)
        findings.checked[self.name] += len(entries)
        stored = entries["key"].combine_chunks()
        found = match(keys, stored)
        self._report(findings, keys, stored, found)
        if self.covers and len(entries):
            self._report_locations(findings, keys, slices, entries, found)

    def _report_locations(
        self,
        findings: Findings,
        keys: pa.Array,
        slices: npt.NDArray[np.int32],
        entries: pa.Table,
        found: Matched,
    ) -> None:
        """Entries that name another file group of the table than that of their row.

        Those that name none, or one that was replaced, lead to the record index.
        """
        named = entries[RECORD_INDEX_PAYLOAD].is_valid().to_numpy()
        targets, places = entry_locations(entries.filter(pa.array(named)))
        numbers = [self.subject.slices.places.get(place, _NOWHERE) for place in places]
        slice_of = np.full(len(entries), _NOWHERE, dtype=np.int64)
        slice_of[named] = np.array(numbers, np.int64)[targets]
        entry = found.place.fill_null(0).to_numpy(zero_copy_only=False)
        said = np.where(found.place.is_valid(), slice_of[entry], _NOWHERE)
        wrong = np.flatnonzero((said != _NOWHERE) & (said != slices) & ~found.repeated)
        groups = self.subject.slices
        report_wrong_locations(
            findings,
            self.name,
            wrong,
            keys,
            lambda row: groups[slices[row]].id,
            lambda row: f"names {path_of(groups[said[row]].id)}",
        )

    def _compare_record_keys(self, keys: pa.Array) -> None:
        parts = [
            group_entries(self.subject.metadata, self.name, number)["key"]
            for number in range(self.group_count)
        ]
        if self.covered is not None:
            parts = [part.filter(pc.invert(pc.starts_with(part, COVERAGE_START))) for part in parts]
        stored = pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())
        self.count(len(stored))
        kind = _unsure(self.subject, self.columns)
        self.note(f"how it spells {kind} values is not sure; only its record keys were compared")
        record_keys = record_keys_of_secondary(stored.combine_chunks(), len(self.columns))
        self._report(self.subject.findings, keys, record_keys, match(keys, record_keys))

    def _placed(self, keys: pa.Array) -> pa.Array:
        """What decides on the group of each key."""
        if not self.by_value:
            return keys
        return placed_values_of_secondary(keys, len(self.columns))

    def _report(self, findings: Findings, keys: pa.Array, stored: pa.Array, found: Matched) -> None:
        columns = ", ".join(self.columns)
        findings.add_all(
            self.name,
            ProblemKind.MISSING,
            found.missing,
            lambda row: (keys[row].as_py(), f"a row has this {columns} and key, no entry does"),
        )
        if self.covered is not None:
            return  # entries of rows that changed stay until it is built again, and do no harm
        if self.subject.unreadable and len(found.stale):
            text = f"{len(found.stale)} entries may be of rows that could not be read"
            findings.note(self.name, text)
            return
        findings.add_all(
            self.name,
            ProblemKind.STALE,
            found.stale,
            lambda row: (stored[row].as_py(), f"no row has this {columns} and key"),
        )


def _unsure(subject: Subject, columns: tuple[str, ...]) -> pa.DataType | None:
    """The first type among some columns whose texts may differ from engine to engine."""
    types = [type_at(column, subject.schema) for column in columns]
    return next((kind for kind in types if kind is not None and not is_certain(kind)), None)


def start(name: str, subject: Subject) -> Check:
    """The check of one secondary index."""
    definition = subject.definitions.get(name)
    if definition is None or not definition.names_columns:
        raise IndexUnusable("it has no definition that names its column")
    columns = definition.source_fields
    for column in columns:
        if type_at(column, subject.schema) is None:
            raise IndexUnusable(f"its column {column} is not in the table")
    group_count = len(subject.metadata.groups(name))
    covered = None
    if definition.is_async:
        context = subject.read
        covered = covered_slices(subject.metadata, definition, context, subject.slices)
    return SecondaryIndexCheck(
        name,
        subject,
        row_columns=frozenset([*subject.key_columns, *map(column_at, columns)]),
        columns=columns,
        encoding_is_sure=_unsure(subject, columns) is None,
        by_value=definition.is_placed_by_value,
        covers=definition.is_covering
        and name in covering_noted(subject.timeline, subject.definitions),
        group_count=group_count,
        rows=RowKeys(group_count),
        covered=covered,
    )


def repair(name: str, problems: Sequence[Problem], table: RepairedTable) -> CommitChanges:
    """The pairs to write and to delete."""
    definition = table.definitions[name]
    keys = pa.array([problem.key for problem in problems], pa.string())
    columns = len(definition.source_fields)
    placed = placed_values_of_secondary(keys, columns) if definition.is_placed_by_value else keys
    stale = [problem.kind is ProblemKind.STALE for problem in problems]
    # An entry that is no key of such an index may be in any group: it is not found, and stays.
    hashes = java_hashes(placed.fill_null(""))
    rows = pa.table([keys, pa.array(hashes), pa.array(stale)], PAIR_SCHEMA)
    return CommitChanges(notes={name: PairNotes(1, (table.spilled(rows),))})
