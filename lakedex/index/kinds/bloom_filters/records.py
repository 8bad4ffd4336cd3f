"""Records of bloom filters: those of new base files come, those of removed files go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakedex.format.avro import METADATA_RECORD, encode_records
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table.change import Change
from lakedex.index.metadata_table.keys import bloom_key
from lakedex.index.metadata_table.partitions import BLOOM_PAYLOAD, RecordType
from lakedex.index.written import BloomText, CommitChanges


def records(
    name: str, changes: CommitChanges, instant: str, definitions: Mapping[str, IndexDefinition]
) -> Change:
    """The filters of the base files that a commit adds, and the keys of those that it removes."""
    del definitions
    return blooms_change(changes.notes.get(name, ()), changes.removed, instant)


def blooms_change(
    blooms: Sequence[BloomText], removed: Mapping[str, Sequence[str]], instant: str
) -> Change:
    """The bloom filters of new base files, and the keys of removed ones."""
    gone = [
        bloom_key(partition, name)
        for partition, files in removed.items()
        for name in files
        if not name.startswith(".")
    ]
    added = _added(blooms, instant)
    return Change(added.keys, added.values, pa.array(gone, pa.string()))


def _added(blooms: Sequence[BloomText], instant: str) -> Change:
    if not blooms:
        return Change()
    keys = [bloom_key(bloom.partition, bloom.file) for bloom in blooms]
    columns = {
        "type": pa.array([bloom.type_code for bloom in blooms], pa.string()),
        "timestamp": pa.array([instant] * len(keys), pa.string()),
        "bloomFilter": pa.array([bloom.text.encode() for bloom in blooms], pa.binary()),
        "isDeleted": pa.array([False] * len(keys), pa.bool_()),
    }
    batch = pa.record_batch(
        {
            "key": pa.repeat("", len(keys)),
            "type": pa.repeat(pa.scalar(RecordType.BLOOM_FILTER.value, pa.int32()), len(keys)),
            BLOOM_PAYLOAD: pa.StructArray.from_arrays(list(columns.values()), list(columns)),
        }
    )
    return Change(pa.array(keys, pa.string()), encode_records(METADATA_RECORD, batch).as_binary())
