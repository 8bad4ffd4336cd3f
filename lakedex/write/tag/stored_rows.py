"""The stored versions of single records: what a write must know of a record that it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import RECORD_KEY, ReadContext, read_slice
from lakedex.filegroup.ordering import ordering_of
from lakedex.merge import Entries, newest_per_key
from lakedex.schema.field_paths import flat
from lakedex.write.rows import FILE_ID, KEY, PARTITION
from lakedex.write.tag.catalog import SliceCatalog
from lakedex.write.tag.places import Mask, Positions, group_names, positions_of


@dataclass(frozen=True)
class StoredRows:
    """Stored rows, and for each the number of the place that it was read from."""

    place: Positions
    rows: pa.Table


def read_stored(
    context: ReadContext, catalog: SliceCatalog, places: pa.Table, columns: Sequence[str]
) -> StoredRows:
    """The records at some places, with the given columns; none for one that is not there."""
    names = group_names(places[PARTITION], places[FILE_ID])
    encoded = names.dictionary_encode()
    codes = positions_of(encoded.indices)
    slices = catalog.slices(encoded.dictionary.to_pylist())
    needed = list(dict.fromkeys([RECORD_KEY, *columns]))
    numbers, tables = [], [context.target(columns).empty_table()]
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        if name not in slices:
            continue
        wanted = np.flatnonzero(codes == code)
        keys = flat(places[KEY]).take(pa.array(wanted))
        for rows in read_slice(context, slices[name], needed):
            at = positions_of(pc.index_in(context.record_keys(rows), value_set=keys))
            hits = np.flatnonzero(at >= 0)
            numbers.append(wanted[at[hits]])
            tables.append(rows.take(pa.array(hits)).select(list(columns)))
    found = np.concatenate([np.zeros(0, dtype=np.int64), *numbers])
    return StoredRows(found, pa.concat_tables(tables))


def late_rows(
    incoming: pa.Table, row_of_stored: Positions, stored: pa.Table, ordering: Sequence[str]
) -> Mask:
    """Which incoming rows have a lower ordering value than a stored version of their record.

    Args:
        incoming: The rows of the write.
        row_of_stored: The incoming row that each stored one is a version of.
        stored: Stored rows with the ordering columns.
        ordering: The ordering columns.
    """
    late = np.zeros(incoming.num_rows, dtype=np.bool_)
    asked = np.unique(row_of_stored)
    if not ordering or not len(asked):
        return late
    newer = [values.take(pa.array(asked)) for values in ordering_of(incoming, ordering)]
    values = tuple(
        pa.concat_arrays([known, new.cast(known.type)])
        for known, new in zip(ordering_of(stored, ordering), newer, strict=True)
    )
    codes = pa.array(np.concatenate([row_of_stored, asked]))
    no = np.zeros(len(codes), dtype=np.bool_)
    # The incoming row comes last, so that it wins among equal ones.
    winners = newest_per_key(Entries(codes, values, no, no, no)).positions
    beaten = winners[winners < len(row_of_stored)]
    late[row_of_stored[beaten]] = True
    return late
