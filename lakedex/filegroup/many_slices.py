"""The rows of some keys in many slices at once.

A write that must know the values which it replaces reads a few rows of slice after slice.
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
from lakedex.filegroup.log_changes import change_set, plain_blocks
from lakedex.filegroup.ordering import ordering_of
from lakedex.filegroup.reading import base_rows, read_slice
from lakedex.filegroup.slices import FileSlice
from lakedex.format.logfile import LogBlock, count_records, decode_matching
from lakedex.schema.field_paths import flat

WANTED = "wanted"
"""The column with the number of the request by which a row was found."""
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


class KeyTags:
    """Keys of several questions, so that those of different ones are never the same."""

    def __init__(self, keys: pa.Array, numbers: _Numbers) -> None:
        """Look whether a key stands in more than one question; most often none does."""
        self._keys = keys
        self._numbers = numbers
        self.are_plain = pc.count_distinct(keys, mode="all").as_py() == len(keys)

    def of(self, keys: pa.Array | pa.ChunkedArray, numbers: _Numbers) -> pa.Array:
        """Such keys with the numbers of their questions; as they are where that is enough."""
        whole = flat(keys)
        return whole if self.are_plain else _tag(whole, numbers)

    def requested(
        self, keys: pa.Array | pa.ChunkedArray, numbers: _Numbers
    ) -> npt.NDArray[np.bool_]:
        """Which keys are wanted by the request that they belong to."""
        if not self.are_plain:
            own = _tag(self._keys, self._numbers)
            found = pc.is_in(_tag(flat(keys), numbers), value_set=own)
            return found.to_numpy(zero_copy_only=False).astype(np.bool_)
        # A key may be in a slice of another request.
        place = pc.index_in(keys, value_set=self._keys).fill_null(-1).to_numpy()
        return (place >= 0) & (np.append(self._numbers, -1)[place] == numbers)


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
        if self._numbers:
            requested = [self._wanted[number].keys.cast(pa.string()) for number in self._numbers]
            numbers = np.repeat(np.array(self._numbers), [len(keys) for keys in requested])
            keys = pa.concat_arrays(requested)
            tags = KeyTags(keys, numbers)
            stored = pa.concat_tables([self._base(number) for number in self._numbers])
            yield from self._merged(stored, keys, tags) if self._blocks else (stored,)
        self._start_anew()

    def _base(self, number: int) -> pa.Table:
        """The wanted rows of a base file: the keys of one slice are the fastest to look for."""
        each = self._wanted[number]
        parts = [
            rows.filter(pc.is_in(rows[RECORD_KEY], value_set=each.keys))
            for rows in base_rows(self._context, each.file_slice, self._target)
        ]
        return _numbered(pa.concat_tables([self._target.empty_table(), *parts]), number)

    def _merged(self, stored: pa.Table, keys: pa.Array, tags: KeyTags) -> Iterator[pa.Table]:
        rows = self._changed_rows(keys, tags)
        changes = change_set(self._context, rows, _tagged(tags, rows))
        ordering = ordering_of(stored, self._context.ordering_fields)
        yield changes.apply(stored, _tagged(tags, stored), ordering)
        yield changes.inserts()

    def _changed_rows(self, keys: pa.Array, tags: KeyTags) -> pa.Table:
        """The wanted records of all blocks with the numbers of their questions."""
        stored, places = decode_matching(
            self._blocks, key=RECORD_KEY, wanted=keys, columns=self._target.names
        )
        rows = self._context.conform(
            pa.Table.from_batches([stored]), self._blocks[0].instant_time, self._target, ""
        )
        counts = [count_records(block) for block in self._blocks]
        block_of = np.repeat(np.array(self._block_of, dtype=np.int64), counts)
        return _asked_of(tags, _with_numbers(rows, block_of[places]))


def _asked_of(tags: KeyTags, rows: pa.Table) -> pa.Table:
    return rows.filter(pa.array(tags.requested(rows[RECORD_KEY], rows[WANTED].to_numpy())))


def _tagged(tags: KeyTags, rows: pa.Table) -> pa.Array:
    return tags.of(rows[RECORD_KEY], rows[WANTED].to_numpy())


def _numbered(rows: pa.Table, number: int) -> pa.Table:
    return _with_numbers(rows, np.full(rows.num_rows, number, dtype=np.int64))


def _with_numbers(rows: pa.Table, numbers: _Numbers) -> pa.Table:
    return rows.append_column(WANTED, pa.array(numbers))


def _tag(keys: pa.Array, numbers: _Numbers) -> pa.Array:
    return pc.binary_join_element_wise(pa.array(numbers).cast(pa.string()), keys, ":")
