"""Verifies a secondary index: every row's value and key have an entry, and no others do."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import IndexUnusable
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.keys import record_keys_of_secondary, secondary_keys
from lakedex.index.secondary.spelling import is_sure, spelled
from lakedex.services.verifying.check import Check, Subject
from lakedex.services.verifying.entries import group_entries
from lakedex.services.verifying.key_sets import Matched, RowKeys, match, pieces_by_group
from lakedex.services.verifying.report import ProblemKind

_VALUE_PART = r"(?s)^(?P<value>(?:\\.|[^\\$])*\$)"


@dataclass(slots=True)
class SecondaryIndexCheck(Check):
    """Compares pairs of value and record key, group by group of the index."""

    column: str = field(kw_only=True)
    spelling_is_sure: bool = field(kw_only=True)
    """Whether the text of values in keys is known; else only record keys are compared."""
    by_value: bool = field(kw_only=True)
    _rows: RowKeys = field(default_factory=RowKeys)

    def see_rows(self, slice_number: int, rows: pa.Table) -> None:
        """Keep the pairs of some rows."""
        keys = self.subject.snapshot.read_context.record_keys(rows)
        if self.spelling_is_sure:
            chunked = pa.chunked_array([keys.cast(pa.string())])
            values = pa.chunked_array([spelled(rows[self.column])])
            keys = secondary_keys(values, chunked)
        self._rows.add(keys, slice_number)

    def finish(self) -> None:
        """Compare every group of the index with the pairs that belong to it."""
        keys, _ = self._rows.all()
        group_count = len(self.subject.metadata.groups(self.name))
        if not self.spelling_is_sure:
            self._compare_record_keys(keys, group_count)
            return
        pieces = pieces_by_group(shards_of(self._placed(keys), group_count), group_count)
        for number, piece in enumerate(pieces):
            entries = group_entries(self.subject.metadata, self.name, number)
            self.count(len(entries))
            own = keys.take(pa.array(piece))
            stored = entries["key"].combine_chunks()
            self._tell(own, stored, match(own, stored))

    def _compare_record_keys(self, keys: pa.Array, group_count: int) -> None:
        parts = [
            group_entries(self.subject.metadata, self.name, number)["key"]
            for number in range(group_count)
        ]
        stored = pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())
        self.count(len(stored))
        kind = self.subject.snapshot.schema.field(self.column).type
        self.note(f"how it spells {kind} values is not sure; only its record keys were compared")
        record_keys = record_keys_of_secondary(stored.combine_chunks())
        self._tell(keys, record_keys, match(keys, record_keys))

    def _placed(self, keys: pa.Array) -> pa.Array:
        """What decides on the group of each key."""
        if not self.by_value:
            return keys
        return pc.struct_field(pc.extract_regex(keys, _VALUE_PART), "value")

    def _tell(self, keys: pa.Array, stored: pa.Array, found: Matched) -> None:
        findings = self.subject.findings
        findings.add_all(
            self.name,
            ProblemKind.MISSING,
            found.missing,
            lambda row: (keys[row].as_py(), f"a row has this {self.column} and key, no entry does"),
        )
        if self.subject.unreadable and len(found.stale):
            self.note(f"{len(found.stale)} entries may be of rows that could not be read")
            return
        findings.add_all(
            self.name,
            ProblemKind.STALE,
            found.stale,
            lambda row: (stored[row].as_py(), f"no row has this {self.column} and key"),
        )


def start(name: str, subject: Subject) -> Check:
    """The check of one secondary index."""
    definition = subject.definitions.get(name)
    if definition is None or len(definition.source_fields) != 1:
        raise IndexUnusable("it has no definition that names its column")
    column = definition.source_fields[0]
    if column not in subject.snapshot.schema.names:
        raise IndexUnusable(f"its column {column} is not in the table")
    kind = subject.snapshot.schema.field(column).type
    return SecondaryIndexCheck(
        name,
        subject,
        row_columns=frozenset([*subject.key_columns, column]),
        column=column,
        spelling_is_sure=is_sure(kind),
        by_value=definition.is_placed_by_value,
    )
