"""Secondary indexes as pruners: column value to record keys, and those to file groups.

The keys of the index are `escaped value $ escaped record key`, so all record keys of a value are
one prefix scan away; where they live the record index knows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakedex.expr.points import points
from lakedex.index.answer import NEWEST_ONLY, NOT_LIVE, Answer, IndexedTable, Question
from lakedex.index.cost import Estimate, count_seconds, scan_seconds
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.keys import record_keys_of_secondary, secondary_prefix
from lakedex.index.record_index import (
    check_seconds,
    live_entries,
    locate,
    locate_seconds,
    row_count,
)
from lakedex.index.secondary.coverage import groups_not_kept_up
from lakedex.index.secondary.spelling import is_sure, spelled_literals

_PREFIX = "secondary_index_"
_RECORD_INDEX = "record_index"
MAX_VALUES = 10_000
_ROWS_OF_A_VALUE = 10
"""How many rows a value has shows only when it is looked up; opening the files costs more."""


class SecondaryIndex:
    """Prunes by `=`, IN and IS NULL on an indexed column."""

    kind = "secondary_index"

    def names(self, table: IndexedTable) -> list[str]:
        """The secondary indexes that are defined or live."""
        return table.named_indexes(_PREFIX)

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """Reading the entries of the values, then looking their record keys up."""
        table = question.table
        definition = table.definitions.get(name)
        if definition is None or len(definition.source_fields) != 1:
            return "it has no definition that names its column"
        values = _asked_values(definition, question)
        if isinstance(values, str):
            return values
        if not (table.is_live(name) and table.is_live(_RECORD_INDEX) and table.is_latest):
            return str(_why_unusable(name, table))
        checked = 0.0 if f"{name}_problem" in table.kept else count_seconds(table.metadata, name)
        rows = _ROWS_OF_A_VALUE * len(values)
        scanned = scan_seconds(table.metadata, name, rows, share=0.0)
        once = checked + check_seconds(table)
        return Estimate(checked + scanned + locate_seconds(table, rows), once=once)

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The file groups that hold rows with the values which the predicate asks for."""
        table = question.table
        definition = table.definitions.get(name)
        if definition is None or len(definition.source_fields) != 1:
            return "it has no definition that names its column"
        values = _asked_values(definition, question)
        if isinstance(values, str):
            return values
        problem = _why_unusable(name, table)
        if problem is not None:
            return problem
        records = _entries(table, definition, values)
        keys = record_keys_of_secondary(records["key"].combine_chunks())
        found = locate(table, keys.unique(), question.partitions)
        if isinstance(found, str):
            return f"the record index that it needs cannot be used: {found}"
        candidates = [file_slice.id in found for file_slice in question.slices]
        stale = groups_not_kept_up(table, name)
        covered = [file_slice.id not in stale for file_slice in question.slices]
        reason = f"{len(values)} values asked, {len(keys)} rows in {len(found)} file groups"
        if stale:
            reason += f"; {len(stale)} file groups changed without the index and are kept"
        return Answer(np.array(candidates, dtype=np.bool_), np.array(covered, np.bool_), reason)


def _asked_values(definition: IndexDefinition, question: Question) -> list[str | None] | str:
    column = definition.source_fields[0]
    read = question.table.read
    if column not in read.schema.names:
        return f"its column {column} is not in the table"
    data_type = read.schema.field(column).type
    if not is_sure(data_type):
        return f"how it spells {data_type} values is not sure"
    asked = points(question.predicate, (column,))
    if asked is None:
        return f"the predicate has no =, IN or IS NULL on {column}"
    if len(asked) > MAX_VALUES:
        return f"{len(asked)} values are too many to look up"
    values = spelled_literals([literal.value for literal in asked], data_type)
    return f"a value does not fit {column} ({data_type})" if values is None else values


def _why_unusable(name: str, table: IndexedTable) -> str | None:
    if not table.is_live(name):
        return NOT_LIVE
    if not table.is_latest:
        return NEWEST_ONLY
    if not table.is_live(_RECORD_INDEX):
        return "it needs the record index, which the table does not have"
    known = f"{name}_problem"
    if known not in table.kept:
        entries, rows = live_entries(table, name), row_count(table)
        table.kept[known] = (
            None
            if entries == rows
            else f"it has {entries} entries for {rows} rows, so it was not kept up"
        )
    problem: str | None = table.kept[known]
    return problem


def _entries(
    table: IndexedTable, definition: IndexDefinition, values: list[str | None]
) -> pa.Table:
    prefixes = [secondary_prefix(value) for value in values]
    shards = None
    if definition.is_placed_by_value:
        groups = len(table.metadata.groups(definition.name))
        shards = shards_of(pa.array(prefixes, pa.string()), groups).tolist()
    return table.metadata.scan_prefixes(definition.name, prefixes, shards)
