"""Where record-index entries point: from stored locations to file groups."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import FileSliceId
from lakedex.index.metadata_table import RECORD_INDEX_PAYLOAD
from lakedex.index.metadata_table.keys import file_ids

_FEW_ENTRIES = 1_000
"""Of so few entries grouping them would take longer than to look at each place."""
_RAW_FILE_ID = 1
"""The `fileIdEncoding` of file ids that are no UUIDs and are stored as text."""

PLACE_FIELDS: Final = (
    "partitionName",
    "fileIdHighBits",
    "fileIdLowBits",
    "fileIndex",
    "fileId",
    "fileIdEncoding",
)
"""The fields of an entry that say where its row is."""


def distinct_locations(records: pa.Table) -> set[FileSliceId]:
    """The file groups that record-index entries point to, each once."""
    payload = records[RECORD_INDEX_PAYLOAD].combine_chunks()
    places = pa.table({name: pc.struct_field(payload, name) for name in PLACE_FIELDS})
    distinct = places
    if places.num_rows > _FEW_ENTRIES:
        distinct = places.group_by(list(PLACE_FIELDS)).aggregate([])
    encoding = distinct["fileIdEncoding"].to_pylist()
    named = file_ids(*(_numbers(distinct[name]) for name in PLACE_FIELDS[1:4]))
    raw = distinct["fileId"].to_pylist()
    partitions = distinct["partitionName"].to_pylist()
    return {
        FileSliceId(partitions[row] or "", raw[row] if kind == _RAW_FILE_ID else named[row])
        for row, kind in enumerate(encoding)
    }


def _numbers(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return column.fill_null(-1).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
