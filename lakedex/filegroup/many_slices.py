"""The rows of some keys in many slices at once.

A write that must know the values which it replaces asks slice after slice for a few of their rows.
Most of what that costs does not depend on how many rows there are, so the log blocks of all slices
are decoded together and merged together. Slices that are not plain are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup.context import RECORD_KEY, ReadContext
from lakedex.filegroup.log_changes import change_set, ordering_values, plain_blocks
from lakedex.filegroup.reading import base_rows, read_slice
from lakedex.filegroup.slices import FileSlice
from lakedex.format.logfile import LogBlock, count_records, decode_avro_blocks

WANTED = "wanted"
"""The column that tells by which question a row was found."""
_TOGETHER_BYTES = 16 << 20
"""Log blocks are decoded together up to so many bytes."""
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WantedRows:
    """A question: rows of a slice by their record keys."""

    file_slice: FileSlice
    keys: pa.Array


def read_wanted(
    context: ReadContext, wanted: Sequence[WantedRows], columns: Sequence[str]
) -> pa.Table:
    """The merged rows of each question, with its number in the column `wanted`."""
    needed = list(dict.fromkeys([*columns, *context.merge_columns()]))
    target = context.target(needed)
    found = [_numbered(target.empty_table(), 0)]
    together = _Together(context, target, wanted)
    for number, each in enumerate(wanted):
        blocks = plain_blocks(context, each.file_slice)
        if blocks is None:
            rows = _one_by_one(context, each, needed)
            found.append(_numbered(rows, number))
        else:
            found += together.add(number, blocks)
    found += together.finish()
    return pa.concat_tables(found).select([*columns, WANTED])


def _one_by_one(context: ReadContext, each: WantedRows, columns: list[str]) -> pa.Table:
    parts = (
        rows.filter(pc.is_in(rows[RECORD_KEY], value_set=each.keys))
        for rows in read_slice(context, each.file_slice, columns)
    )
    return pa.concat_tables([context.target(columns).empty_table(), *parts])


class _Together:
    """Gathers slices, and merges what is gathered whenever it is much."""

    def __init__(
        self, context: ReadContext, target: pa.Schema, wanted: Sequence[WantedRows]
    ) -> None:
        self._context = context
        self._target = target
        self._wanted = wanted
        self._start_anew()

    def _start_anew(self) -> None:
        self._numbers: list[int] = []
        self._blocks: list[LogBlock] = []
        self._block_of: list[int] = []
        self._size = 0

    def add(self, number: int, blocks: list[LogBlock]) -> Iterator[pa.Table]:
        """Take in a slice with its log blocks."""
        size = sum(block.content.size for block in blocks)
        other_form = self._blocks and blocks and self._schema != blocks[0].schema_text
        if self._numbers and (other_form or self._size + size > _TOGETHER_BYTES):
            yield from self.finish()
        self._numbers.append(number)
        self._blocks += blocks
        self._block_of += [number] * len(blocks)
        self._size += size

    @property
    def _schema(self) -> str:
        return self._blocks[0].schema_text

    def finish(self) -> Iterator[pa.Table]:
        """Merge what was gathered."""
        base = [self._base(number) for number in self._numbers]
        stored = pa.concat_tables([_numbered(self._target.empty_table(), 0), *base])
        if not self._blocks:
            yield stored
        else:
            yield from self._merged(stored)
        self._start_anew()

    def _base(self, number: int) -> pa.Table:
        each = self._wanted[number]
        parts = [
            rows.filter(pc.is_in(rows[RECORD_KEY], value_set=each.keys))
            for rows in base_rows(self._context, each.file_slice, self._target)
        ]
        whole = pa.concat_tables([self._target.empty_table(), *parts])
        return _numbered(whole, number)

    def _merged(self, stored: pa.Table) -> Iterator[pa.Table]:
        changed = self._changed_rows()
        tagged = tagged_keys(changed)
        rows = changed.filter(pc.is_in(tagged, value_set=self._asked()))
        changes = change_set(self._context, rows, tagged_keys(rows))
        ordering = [ordering_values(stored[name]) for name in self._context.ordering_fields]
        yield changes.apply(stored, tagged_keys(stored), ordering)
        yield changes.inserts()

    def _changed_rows(self) -> pa.Table:
        """The records of all blocks with the numbers of their questions."""
        stored = decode_avro_blocks(self._blocks, columns=self._target.names)
        rows = self._context.conform(
            pa.Table.from_batches([stored]), self._blocks[0].instant_time, self._target, ""
        )
        counts = [count_records(block) for block in self._blocks]
        numbers = np.repeat(np.array(self._block_of, dtype=np.int64), counts)
        return _with_numbers(rows, numbers)

    def _asked(self) -> pa.Array:
        """All wanted keys of the gathered slices, tagged."""
        numbers = sorted(set(self._block_of))
        keys = [self._wanted[number].keys.cast(pa.string()) for number in numbers]
        tags = np.repeat(np.array(numbers, dtype=np.int64), [len(part) for part in keys])
        return _tag(pa.concat_arrays(keys), tags)


def _numbered(rows: pa.Table, number: int) -> pa.Table:
    return _with_numbers(rows, np.full(rows.num_rows, number, dtype=np.int64))


def _with_numbers(rows: pa.Table, numbers: _Numbers) -> pa.Table:
    return rows.append_column(WANTED, pa.array(numbers))


def tagged_keys(rows: pa.Table) -> pa.Array:
    """Record keys with the numbers of their questions: no key is in two slices then."""
    keys = rows[RECORD_KEY].combine_chunks()
    if isinstance(keys, pa.ChunkedArray):
        keys = pa.concat_arrays(keys.chunks)
    return _tag(keys, rows[WANTED].to_numpy())


def _tag(keys: pa.Array, numbers: _Numbers) -> pa.Array:
    return pc.binary_join_element_wise(pa.array(numbers).cast(pa.string()), keys, ":")
