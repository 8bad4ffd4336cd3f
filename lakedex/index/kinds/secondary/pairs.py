"""Pairs of column value and record key: what a write adds to a secondary index, and takes away.

A pair is spelled as the key that it has in the index. What a write did to some rows follows from
the pairs before and after it: those that came get an entry, those that went a tombstone, and a
value that stayed as it was costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.filegroup import RECORD_KEY, FileSliceId
from lakedex.format.hfile import MAX_KEY_BYTES
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.secondary.key_encoding import spelled
from lakedex.index.kinds.secondary.records import PAIR_SCHEMA, PLACED_PAIR_SCHEMA
from lakedex.index.metadata_table.hashing import java_hashes
from lakedex.index.metadata_table.keys import escaped_secondary, secondary_values
from lakedex.schema.field_paths import flat, values_at

PREFIX: Final = "secondary_index_"


@dataclass(frozen=True, slots=True)
class SecondaryTarget:
    """A secondary index as the workers of a write know it."""

    name: str
    columns: tuple[str, ...]
    """Its columns, or fields of struct columns such as `home.city`."""
    shards: int
    """How many file groups it has."""
    buckets: int
    """Into how many buckets its pairs are put: a pair's bucket is its shard modulo this."""
    by_value: bool = True
    """Whether a pair's file group follows from the value alone, not from the whole key."""
    covers: bool = False
    """Whether entries name the file group of their rows."""
    is_async: bool = False
    """Whether the index says which file slices it covers, as writers do not maintain it."""

    @property
    def told(self) -> str:
        """The columns, for messages."""
        return ", ".join(self.columns)

    @classmethod
    def of(cls, definition: IndexDefinition, shards: int, buckets: int) -> SecondaryTarget:
        """The target that a definition describes."""
        columns, by_value = definition.source_fields, definition.is_placed_by_value
        buckets = min(shards, buckets)
        return cls(
            definition.name,
            columns,
            shards,
            buckets,
            by_value,
            covers=definition.is_covering,
            is_async=definition.is_async,
        )


def pair_rows(
    target: SecondaryTarget, rows: pa.Table, *, is_delete: bool, place: FileSliceId | None = None
) -> pa.Table:
    r"""The pairs of rows that have a record key and the index's columns, in `PAIR_SCHEMA`.

    Those of a covering index have the `place` of the rows, too (`PLACED_PAIR_SCHEMA`).

    Example:
        >>> target = SecondaryTarget("secondary_index_i", ("city",), 1, 1)
        >>> rows = pa.table({"_hoodie_record_key": ["k1", "k2"], "city": ["a$b", None]})
        >>> pair_rows(target, rows, is_delete=False)["key"].to_pylist()
        ['a\\$b$k1', '\x00$k2']
    """
    return _Pairs.of(target, rows).told(target, is_delete=is_delete, place=place)


def pair_changes(
    target: SecondaryTarget,
    before: pa.Table,
    after: pa.Table,
    others: pa.Table | None = None,
    place: FileSliceId | None = None,
) -> pa.Table:
    """What becomes of the pairs of some rows that a write changed.

    Args:
        target: The index.
        before: The rows as they were.
        after: The same rows as they are now; rows that went are missing, new ones are there.
        others: Rows that were not touched, though they have a record key in common with those.
        place: The file group that all of them are in.

    Example:
        >>> target = SecondaryTarget("secondary_index_i", ("city",), 1, 1)
        >>> old = pa.table({"_hoodie_record_key": ["k1", "k2"], "city": ["a", "b"]})
        >>> new = pa.table({"_hoodie_record_key": ["k1", "k2"], "city": ["a", "c"]})
        >>> pair_changes(target, old, new).select(["key", "is_delete"]).to_pylist()
        [{'key': 'c$k2', 'is_delete': False}, {'key': 'b$k2', 'is_delete': True}]
    """
    came, went = _Pairs.of(target, after), _Pairs.of(target, before)
    kept = came.keys
    if others is not None and others.num_rows:
        kept = pa.concat_arrays([kept, _Pairs.of(target, others).keys])
    fresh, gone = came.missing_in(went.keys), went.missing_in(kept)
    return pa.concat_tables(
        [fresh.told(target, is_delete=False, place=place), gone.told(target, is_delete=True)]
    )


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Pairs as they stand in the index, and their values alone."""

    keys: pa.Array
    values: pa.Array

    @classmethod
    def of(cls, target: SecondaryTarget, rows: pa.Table) -> _Pairs:
        values = secondary_values([spelled(values_at(each, rows)) for each in target.columns])
        keys = escaped_secondary(flat(rows[RECORD_KEY]))
        joined = pc.binary_join_element_wise(values, keys, "")
        _check_lengths(target, joined)
        return cls(joined, values)

    def missing_in(self, others: pa.Array) -> _Pairs:
        """Those that are not among some others."""
        is_missing = pc.invert(pc.is_in(self.keys, value_set=others))
        return _Pairs(self.keys.filter(is_missing), self.values.filter(is_missing))

    def told(
        self, target: SecondaryTarget, *, is_delete: bool, place: FileSliceId | None = None
    ) -> pa.Table:
        """The pairs as workers hand them on; what decides on their file groups is made here."""
        count = len(self.keys)
        hashes = pa.array(java_hashes(self.values if target.by_value else self.keys), pa.int32())
        marks = pa.repeat(pa.scalar(is_delete), count)
        if not target.covers:
            return pa.Table.from_arrays([self.keys, hashes, marks], schema=PAIR_SCHEMA)
        where = (None, None) if place is None else (place.partition, place.file_id)
        places = [pa.repeat(pa.scalar(each, pa.string()), count) for each in where]
        return pa.Table.from_arrays([self.keys, hashes, marks, *places], schema=PLACED_PAIR_SCHEMA)


def _check_lengths(target: SecondaryTarget, keys: pa.Array) -> None:
    """Refuse values that no index file can hold, before anything is written to the index."""
    longest = pc.max(pc.binary_length(keys)).as_py() or 0
    if longest > MAX_KEY_BYTES:
        raise InvalidInput(
            f"a value of column {target.told!r} makes an entry of {longest} bytes in the index "
            f"{target.name}, which holds at most {MAX_KEY_BYTES}: shorten it, or drop the index"
        )
