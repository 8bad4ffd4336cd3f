"""The bloom filter index: which base files cannot hold a record key.

A filter covers the keys of one base file. A slice with log files may hold keys that no base file
has seen, so it is not covered.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakedex.filegroup import FileSlice
from lakedex.format.bloom import BloomFilter
from lakedex.index.answer import Answer, IndexedTable, Mask, Question
from lakedex.index.metadata_table import BLOOM_PAYLOAD
from lakedex.index.metadata_table.keys import bloom_key
from lakedex.index.record_index import record_keys

PARTITION = "bloom_filters"
_MAX_KEYS = 10_000


class BloomFilterIndex:
    """Prunes by `=` and IN on the record key."""

    kind = "bloom_filters"

    def names(self, table: IndexedTable) -> list[str]:
        """The bloom filter index, if the table has one."""
        return [PARTITION] if table.is_live(PARTITION) else []

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The slices whose base file may hold one of the asked keys."""
        table = question.table
        keys = record_keys(question.predicate, table.read)
        if isinstance(keys, str):
            return keys
        if len(keys) > _MAX_KEYS:
            return f"{len(keys)} keys are too many to test against every filter"
        costly = _why_too_costly(table, question)
        if costly is not None:
            return costly
        return filtered(table, name, question.slices, pa.array(keys, pa.string()))


def filtered(
    table: IndexedTable, partition: str, slices: tuple[FileSlice, ...], values: pa.Array
) -> Answer:
    """The slices whose filter may hold one of the values, filters read from `partition`."""
    wanted = [
        bloom_key(file_slice.partition, file_slice.base.name) if file_slice.base else ""
        for file_slice in slices
    ]
    covered = np.array([not s.logs and s.base is not None for s in slices], dtype=np.bool_)
    candidates = np.ones(len(slices), dtype=np.bool_)
    asked = pa.array([key for key, tested in zip(wanted, covered, strict=True) if tested])
    records = table.metadata.lookup(partition, asked.cast(pa.string()))
    filters = dict(zip(records["key"].to_pylist(), range(len(records)), strict=True))
    for position in np.flatnonzero(covered).tolist():
        row = filters.get(wanted[position])
        if row is None:
            covered[position] = False
        else:
            candidates[position] = bool(_may_hold(records, row, values, partition).any())
    return Answer(candidates, covered, f"{len(values)} keys tested against {len(filters)} filters")


def _may_hold(records: pa.Table, row: int, values: pa.Array, path: str) -> Mask:
    payload = records[BLOOM_PAYLOAD][row]
    text = payload["bloomFilter"].as_py()
    found = BloomFilter.decode(text, type_code=payload["type"].as_py(), path=path)
    return found.contains(values)


def _why_too_costly(table: IndexedTable, question: Question) -> str | None:
    """Filters can be larger than the files that they would save."""
    stored = sum(group.size_bytes for group in table.metadata.groups(PARTITION))
    bases = sum(1 for file_slice in table.slices if file_slice.base is not None)
    share = stored * len(question.slices) // max(1, bases)
    files = sum(file_slice.size_bytes for file_slice in question.slices)
    if share <= files:
        return None
    return f"its filters ({share:,} bytes) are larger than the files left ({files:,} bytes)"
