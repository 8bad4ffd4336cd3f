"""What schedules read again and again is decoded once: the same bytes have the same content.

Only what follows from bytes alone is remembered; each request to the store is made all the same,
at its time and with its faults. That the bytes are decoded rightly, other tests look at.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pyarrow as pa

from lakedex.format.hfile import Cells, HFileReader
from lakedex.format.logfile import LogBlock, hfile_of, read_blocks
from lakedex.index.metadata_table import group_reader, reader
from lakedex.storage.source import MemorySource

_MOST = 20_000
_known: dict[Hashable, Any] = {}


def stand_ins() -> list[tuple[Any, str, Any]]:
    """What of the metadata table's readers is put in the place of what."""
    return [
        (group_reader, "read_blocks", _blocks),
        (group_reader, "hfile_of", _hfile),
        (group_reader, "HFileReader", _open),
        (HFileReader, "scan", _cells),
        (reader, "_merged", _merged),
    ]


def _remembered(key: Hashable, make: Callable[[], Any]) -> Any:
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MOST:
            _known.clear()
        found = _known[key] = make()
    return found


def _blocks(source: MemorySource) -> list[LogBlock]:
    key = "blocks", source.path, source.data
    return list(_remembered(key, lambda: read_blocks(source)))


def _hfile(block: LogBlock) -> HFileReader:
    # The same object each time, as its source is remembered.
    return _remembered(("block", id(block)), lambda: (block, hfile_of(block)))[1]


def _open(source: MemorySource) -> HFileReader:
    return _remembered(("file", source.path, source.data), lambda: HFileReader(source))


def _cells(self: HFileReader) -> Cells:
    return _remembered(("cells", id(self)), lambda: (self, _scan(self)))[1]


def _merged(
    partition: Any, schema: pa.Schema, groups: Sequence[Sequence[group_reader.RawCells]]
) -> list[pa.Table]:
    told = tuple(tuple(map(_told, group)) for group in groups)
    key = "merged", partition, tuple(schema.names), told
    return list(_remembered(key, lambda: _merge(partition, schema, groups)))


def _told(cells: group_reader.RawCells) -> Hashable:
    values = None if cells.values is None else tuple(cells.values.to_pylist())
    return tuple(cells.keys.to_pylist()), values, cells.schema_text


_scan, _merge = HFileReader.scan, reader._merged
