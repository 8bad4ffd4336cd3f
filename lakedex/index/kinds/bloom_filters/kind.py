"""The bloom filter index: which base files cannot hold a record key.

A filter covers the keys of one base file. A slice with log files may hold keys that no base file
has seen, so it is not covered.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from lakedex.config import write_option_names as options_of
from lakedex.errors import InvalidInput
from lakedex.filegroup import RECORD_KEY, FileSlice
from lakedex.format.bloom import BloomFilter
from lakedex.index.advice import HypotheticalIndex
from lakedex.index.contract import ALREADY_LOCATED, Answer, IndexedTable, Mask, Question, Stage
from lakedex.index.cost import Estimate, lookup_seconds
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.bloom_filters.collect import blooms_change
from lakedex.index.kinds.record_index.advice import what_if as key_what_if
from lakedex.index.kinds.record_index.lookup import question_keys
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import BLOOM_PAYLOAD, Kind
from lakedex.index.metadata_table.keys import bloom_key
from lakedex.index.metadata_table.partitions import Change
from lakedex.index.request import CreateRequest, NewIndex
from lakedex.index.size_estimate import IndexedRows
from lakedex.index.written import CommitChanges

PARTITION = "bloom_filters"
_MAX_KEYS = 10_000
_FILTER_S = 0.15e-3
"""Decoding one filter."""
_TEST_S = 0.4e-6
"""Testing one key against one filter."""
_BYTE_S = 1 / 100e6
"""Filters are texts in base64 that have to be decoded."""
_WHY_SYNC = (
    "upserts may find records by it; create one USING bloom_filters on an expression, or USING "
    "bitmap, instead"
)


class BloomFiltersKind(MetadataIndexKind):
    """Prunes by `=` and IN on the record key."""

    kind = "bloom_filters"
    stage = Stage.FILTERS
    describes_files = True
    partition = Kind.BLOOM_FILTERS
    switches = (options_of.BLOOM_FILTERS,)
    aliases = ("bloom_filter",)
    build_order = 2
    usual_file_groups = 4
    collects = True

    def names(self, table: IndexedTable) -> list[str]:
        """The bloom filter index, if the table has one."""
        return [PARTITION] if table.is_live(PARTITION) else []

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """Reading the filter of every base file and testing every key against it."""
        if RECORD_KEY in question.located:
            return ALREADY_LOCATED
        keys = _usable_keys(question)
        if isinstance(keys, str):
            return keys
        return Estimate(filter_seconds(question, name, len(keys)))

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The slices whose base file may hold one of the asked keys."""
        keys = _usable_keys(question)
        if isinstance(keys, str):
            return keys
        return filtered(question.table, name, question.slices, pa.array(keys, pa.string()))

    def define(self, request: CreateRequest) -> NewIndex:
        """The write options that keep bloom filters.

        Filters of another column are an expression index on the column as it is.

        Raises:
            InvalidInput: the columns are not the record key, or an option is wrong.
        """
        options = request.write_options(_WHY_SYNC)
        keys = request.config.record_key_fields
        if request.columns and request.columns != tuple(keys):
            raise InvalidInput(
                f"the index bloom_filters of table {request.table} is on its key "
                f"({', '.join(keys)}), not on {', '.join(request.columns)}"
            )
        return NewIndex({**options, options_of.BLOOM_FILTERS.name: "true"})

    def extend(self, request: CreateRequest) -> None:
        """Check a statement about the filters of the table: nothing can be added to them."""
        self.define(request)

    def rebuild(
        self, request: CreateRequest, name: str, definition: IndexDefinition | None
    ) -> NewIndex:
        """The write option by which they are built again."""
        del request, name, definition
        return NewIndex({options_of.BLOOM_FILTERS.name: "true"})

    def records(
        self,
        name: str,
        changes: CommitChanges,
        instant: str,
        definitions: Mapping[str, IndexDefinition],
    ) -> Change:
        """The filters of new base files, and the keys of removed ones."""
        del definitions
        return blooms_change(changes.notes.get(name, ()), changes.removed, instant)

    def what_if(self, columns: tuple[str, ...], schema: pa.Schema) -> HypotheticalIndex:
        """Filters of record keys."""
        return key_what_if(self, columns, schema)

    def first_file_groups(self, size: IndexedRows) -> int:
        """As options say."""
        return size.options.bloom_filter_groups


def filter_seconds(question: Question, partition: str, values: int) -> float:
    """What `filtered` takes for so many values."""
    tested = sum(1 for each in question.slices if each.base is not None and not each.logs)
    stored = _stored_bytes(question, partition)
    found = lookup_seconds(question.table.metadata, partition, tested)
    return found + stored * _BYTE_S + tested * (_FILTER_S + values * _TEST_S)


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


def _usable_keys(question: Question) -> list[str] | str:
    keys = question_keys(question)
    if isinstance(keys, list) and len(keys) > _MAX_KEYS:
        return f"{len(keys)} keys are too many to test against every filter"
    return keys


def _stored_bytes(question: Question, partition: str) -> int:
    """The bytes of the filters of the question's slices, by their share of all."""
    table = question.table
    stored = sum(group.size_bytes for group in table.metadata.groups(partition))
    return stored * len(question.slices) // max(1, len(table.slices))
