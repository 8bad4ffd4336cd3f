"""The file slices of a snapshot in a spill file, for the few workers that need one of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import BaseFile, FileSlice, LogFile, parse_data_file
from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.tag.places import Mask, group_names, mask_of

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
