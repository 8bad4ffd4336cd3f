"""Pairs of file groups that a write replaces: secondary indexes must forget them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.engine import Engine
from lakedex.filegroup import FileSlice, ReadContext
from lakedex.filegroup.reading import read_slice
from lakedex.format.spill import Segment
from lakedex.index.written import KeyNote
from lakedex.write.facts import TableFacts
from lakedex.write.handles.notes import PairTaker
from lakedex.write.handles.outcome import ChangedRows
from lakedex.write.rows import FILE_ID, KEY, PARTITION
from lakedex.write.tag.catalog import SliceCatalog, spill_slices
from lakedex.write.tag.places import group_names
from lakedex.write.tag.record_places import RecordIndexAccess, record_places
from lakedex.write.tag.stored_rows import read_stored


@dataclass(frozen=True)
class _Task:
    facts: TableFacts
    slices: tuple[FileSlice, ...]
    index: RecordIndexAccess | None
    staying: Segment | None
    """The catalog of the slices that stay."""


def note_replaced_pairs(
    engine: Engine,
    facts: TableFacts,
    index: RecordIndexAccess | None,
    replaced: Sequence[FileSlice],
    staying: Sequence[FileSlice],
) -> list[dict[str, tuple[KeyNote, ...]]]:
    """Tombstones for the pairs of the replaced slices, by name of the index.

    A key that was overwritten in one partition after another stands in both for a while. When the
    older place goes, a pair that the newer one has as well must stay; the record index (`index`,
    if there is one over the whole table) knows where that is.
    """
    if not facts.secondary or not replaced:
        return []
    catalog = None
    if index is not None and staying:
        catalog = spill_slices(facts.address.open(), facts.scratch, staying)
    count = max(1, min(len(replaced), engine.parallelism * 2))
    tasks = [_Task(facts, tuple(replaced[at::count]), index, catalog) for at in range(count)]
    return engine.map("note replaced values", _note_pairs, tasks)


def _note_pairs(task: _Task) -> dict[str, tuple[KeyNote, ...]]:
    context = task.facts.read_context()
    columns = list(dict.fromkeys([KEY, *task.facts.indexed_columns]))
    taker = PairTaker(task.facts, context.storage)
    nothing = context.target(columns).empty_table()
    catalog = None
    if task.staying is not None:
        catalog = SliceCatalog(context.storage, task.staying)
    for current in task.slices:
        for rows in read_slice(context, current, columns):
            others = None
            if task.index is not None and catalog is not None:
                others = _elsewhere(context, task.index, catalog, rows)
            taker.add(ChangedRows(rows, nothing, others))
    return taker.finish()


def _elsewhere(
    context: ReadContext, index: RecordIndexAccess, catalog: SliceCatalog, rows: pa.Table
) -> pa.Table | None:
    """The rows of the same keys in slices that stay."""
    keys = rows[KEY].combine_chunks()
    places = record_places(context.storage, index, pa.table({KEY: keys}))
    stays = catalog.has(group_names(places[PARTITION], places[FILE_ID]))
    if not np.any(stays):
        return None
    found = read_stored(context, catalog, places.filter(pa.array(stays)), rows.column_names)
    return found.rows.filter(pc.is_in(found.rows[KEY], value_set=keys))
