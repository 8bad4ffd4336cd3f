"""Reads the stored versions of records that a write moves to another partition.

The file slices of the snapshot are in a spill file (`SliceCatalog`), for the few workers that need
one of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import (
    RECORD_KEY,
    BaseFile,
    FileSlice,
    LogFile,
    ReadContext,
    parse_data_file,
    read_slice,
)
from lakedex.filegroup.ordering import ordering_of
from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.merge import Entries, newest_per_key
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.rows import FILE_ID, KEY, PARTITION
from lakedex.write.tag.locations import Mask, Positions, group_names, mask_of, positions_of

_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.string()),
        pa.field("file_id", pa.string()),
        pa.field("base_instant", pa.string()),
        pa.field("names", pa.list_(pa.string())),
        pa.field("sizes", pa.list_(pa.int64())),
    ]
)


def spill_slices(storage: Storage, scratch: str, slices: Sequence[FileSlice]) -> Segment:
    """Put slices into the write's scratch folder."""
    writer = SpillWriter(storage, f"{scratch}/slices-{uuid.uuid4().hex}", holds_small=True)
    columns = [
        [file_slice.partition for file_slice in slices],
        [file_slice.file_id for file_slice in slices],
        [file_slice.base_instant for file_slice in slices],
        [list(file_slice.file_names) for file_slice in slices],
        [_sizes(file_slice) for file_slice in slices],
    ]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, _SCHEMA, strict=True)]
    segment = writer.add(pa.table(arrays, schema=_SCHEMA))
    writer.finish()
    return segment


class SliceCatalog:
    """The slices of the snapshot that a write began with."""

    def __init__(self, storage: Storage, segment: Segment) -> None:
        """Read the spilled table; slices are made when they are asked for."""
        found = read_segments(storage, [segment])
        self._table = _SCHEMA.empty_table() if found is None else found
        self._names = group_names(self._table["partition"], self._table["file_id"])

    def has(self, groups: pa.Array) -> Mask:
        """Which of the groups (see `group_names`) the snapshot has."""
        return mask_of(pc.is_in(groups, value_set=self._names))

    def slices(self, groups: Iterable[str]) -> dict[str, FileSlice]:
        """The slices of the groups that the snapshot has, by group name."""
        wanted = pa.array(sorted(groups), pa.string())
        at = np.flatnonzero(mask_of(pc.is_in(self._names, value_set=wanted)))
        chosen = flat(self._names).take(pa.array(at)).to_pylist()
        rows = self._table.take(pa.array(at)).to_pylist()
        return {name: _slice(row) for name, row in zip(chosen, rows, strict=True)}


def _sizes(file_slice: FileSlice) -> list[int]:
    base = [file_slice.base.size_bytes] if file_slice.base else []
    return base + [log.size_bytes for log in file_slice.logs]


def _slice(row: dict[str, Any]) -> FileSlice:
    parsed = [parse_data_file(*file) for file in zip(row["names"], row["sizes"], strict=True)]
    base = next((file for file in parsed if isinstance(file, BaseFile)), None)
    logs = tuple(file for file in parsed if isinstance(file, LogFile))
    return FileSlice(row["partition"], row["file_id"], row["base_instant"], base, logs)


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
