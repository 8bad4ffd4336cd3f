"""The entries of an index without their payloads, and one file group of an index at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile
from lakedex.filegroup import parse_data_file
from lakedex.format.hfile import Cells
from lakedex.format.logfile import BlockKind, decode_delete_block, hfile_of
from lakedex.index.metadata_table import MetadataTable, metadata_partition
from lakedex.index.metadata_table.group_reader import GroupReader

_SCAN_BYTES = 32 << 20


def live_keys(metadata: MetadataTable, partition: str) -> pa.ChunkedArray:
    """The keys of all entries; their payloads, which may be large, are not kept."""
    parts = []
    for group in metadata.groups(partition):
        reader = metadata.group_reader(partition, group.file_id)
        parts.append(_live_keys(reader, group.file_id))
    return pa.chunked_array(parts, pa.string())


def group_entries(metadata: MetadataTable, partition: str, group_number: int) -> pa.Table:
    """All entries of one file group of an index."""
    return metadata.scan_prefixes(partition, [""], [group_number])


def foreign_groups(metadata: MetadataTable, partition: str) -> list[str]:
    """File ids in the folder of an index that do not belong to it."""
    prefix = metadata_partition(partition).file_id_prefix
    file_ids = set()
    for info in metadata.storage.list(partition):
        parsed = parse_data_file(info.path.rpartition("/")[2], info.size_bytes)
        if parsed is not None and not parsed.file_id.startswith(prefix):
            file_ids.add(parsed.file_id)
    return sorted(file_ids)


def _live_keys(reader: GroupReader, path: str) -> pa.Array:
    keys: list[pa.Array] = []
    alive: list[pa.Array] = []
    for cells in _cells(reader):
        keys.append(cells.keys.cast(pa.binary()))
        alive.append(pc.greater(pc.binary_length(cells.values), 0))
    if not keys:
        return pa.array([], pa.string())
    encoded = pa.chunked_array(keys, pa.binary()).combine_chunks().dictionary_encode()
    state = np.zeros(len(encoded.dictionary), dtype=np.bool_)
    flags = pa.chunked_array(alive, pa.bool_()).to_numpy()
    state[encoded.indices.to_numpy()] = flags.astype(np.bool_)
    try:
        return encoded.dictionary.filter(pa.array(state)).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptFile(path, 0, expected="keys in UTF-8", actual=error) from error


def _cells(reader: GroupReader) -> Iterator[Cells]:
    """The cells of a group, oldest first; a deleted key has an empty value."""
    if reader.base is not None:
        yield from reader.base.scan_batches(max_bytes=_SCAN_BYTES)
    for block in reader.log_blocks:
        if block.kind is BlockKind.DELETE:
            gone = decode_delete_block(block).keys.cast(pa.binary())
            yield Cells(gone, pa.repeat(pa.scalar(b""), len(gone)), None)
        else:
            yield from hfile_of(block).scan_batches(max_bytes=_SCAN_BYTES)
