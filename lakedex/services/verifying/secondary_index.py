"""Verifies a secondary index: every row's value and key have an entry, and no others do."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import IndexUnusable
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.keys import record_keys_of_secondary, secondary_keys
from lakedex.index.secondary.spelling import is_sure, spelled
from lakedex.services.verifying.check import Check, Subject
from lakedex.services.verifying.entries import group_entries
from lakedex.services.verifying.key_sets import Matched, match
from lakedex.services.verifying.report import Findings, ProblemKind
from lakedex.services.verifying.row_keys import RowKeys

_VALUE_PART = r"(?s)^(?P<value>(?:\\.|[^\\$])*\$)"


@dataclass(slots=True)
class SecondaryIndexCheck(Check):
    """Compares pairs of value and record key, group by group of the index."""

    column: str = field(kw_only=True)
    spelling_is_sure: bool = field(kw_only=True)
    """Whether the text of values in keys is known; else only record keys are compared."""
    by_value: bool = field(kw_only=True)
    group_count: int = field(kw_only=True)
    rows: RowKeys = field(kw_only=True)

    def see_rows(self, slice_number: int, rows: pa.Table) -> None:
        """Keep the pairs of some rows."""
        keys = self.subject.snapshot.read_context.record_keys(rows)
        if self.spelling_is_sure:
            chunked = pa.chunked_array([keys.cast(pa.string())])
            values = pa.chunked_array([spelled(rows[self.column])])
            keys = secondary_keys(values, chunked)
            groups = shards_of(self._placed(keys), self.group_count)
        else:
            groups = np.zeros(len(keys), dtype=np.int32)
        self.rows.add(keys, slice_number, groups)

    def finish(self) -> None:
        """Compare every group of the index with the pairs that belong to it."""
        if self.spelling_is_sure:
            self.by_group(self._compare, self.group_count)
        else:
            self._compare_record_keys(self.rows.of_group(0)[0])

    def close(self) -> None:
        """Forget the pairs."""
        self.rows.close()

    def _compare(self, number: int, findings: Findings) -> None:
        keys, _ = self.rows.of_group(number)
        entries = group_entries(self.subject.metadata, self.name, number)
        findings.checked[self.name] += len(entries)
        stored = entries["key"].combine_chunks()
        self._tell(findings, keys, stored, match(keys, stored))

    def _compare_record_keys(self, keys: pa.Array) -> None:
        parts = [
            group_entries(self.subject.metadata, self.name, number)["key"]
            for number in range(self.group_count)
        ]
        stored = pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())
        self.count(len(stored))
        kind = self.subject.snapshot.schema.field(self.column).type
        self.note(f"how it spells {kind} values is not sure; only its record keys were compared")
        record_keys = record_keys_of_secondary(stored.combine_chunks())
        self._tell(self.subject.findings, keys, record_keys, match(keys, record_keys))

    def _placed(self, keys: pa.Array) -> pa.Array:
        """What decides on the group of each key."""
        if not self.by_value:
            return keys
        return pc.struct_field(pc.extract_regex(keys, _VALUE_PART), "value")

    def _tell(self, findings: Findings, keys: pa.Array, stored: pa.Array, found: Matched) -> None:
        findings.add_all(
            self.name,
            ProblemKind.MISSING,
            found.missing,
            lambda row: (keys[row].as_py(), f"a row has this {self.column} and key, no entry does"),
        )
        if self.subject.unreadable and len(found.stale):
            text = f"{len(found.stale)} entries may be of rows that could not be read"
            findings.note(self.name, text)
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
    group_count = len(subject.metadata.groups(name))
    return SecondaryIndexCheck(
        name,
        subject,
        row_columns=frozenset([*subject.key_columns, column]),
        column=column,
        spelling_is_sure=is_sure(kind),
        by_value=definition.is_placed_by_value,
        group_count=group_count,
        rows=RowKeys(group_count),
    )
