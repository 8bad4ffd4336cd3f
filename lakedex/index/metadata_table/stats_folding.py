"""Joins several statistics records of one key: the rule for column and partition stats.

The newest record stands alone when its bounds are tight or when it, or the one before it, is
marked deleted. Otherwise ranges are widened and counts are added up. Keys with several records
that have to be joined are few (one per column and partition, never one per data record).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.metadata_table.partitions import STATS_PAYLOAD
from lakedex.index.metadata_table.stat_bounds import is_zone_note

_Ints = npt.NDArray[np.int64]
_Bound = dict[str, Any]
_DECIMAL = 10
"""The type ordinal of decimals, whose bounds are bytes."""
_COUNTS = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")


def fold_stats(
    records: pa.Table, codes: _Ints, last: _Ints, alive: npt.NDArray[np.bool_]
) -> pa.Table:
    """Put the joined statistics of each key into the row of its last cell."""
    stats = records[STATS_PAYLOAD].combine_chunks()
    open_ended = ~_flag(stats, "isTightBound") & ~_flag(stats, "isDeleted")
    open_ended &= stats.is_valid().to_numpy(zero_copy_only=False)
    several = np.bincount(codes[alive], minlength=len(last)) > 1
    to_join = several & open_ended[last] & alive[last]
    rows = np.flatnonzero(to_join[codes] & alive)
    if len(rows) == 0:
        return records
    values = stats.take(pa.array(rows)).to_pylist()
    joined: dict[int, dict[str, Any]] = {}
    for code, value in zip(codes[rows].tolist(), values, strict=True):
        joined[code] = _join(joined.get(code), value)
    replaced: dict[int, dict[str, Any]] = defaultdict(dict)
    for code, value in joined.items():
        replaced[int(last[code])] = value
    targets = np.array(sorted(replaced), dtype=np.int64)
    fresh = pa.array([replaced[row] for row in targets.tolist()], type=stats.type)
    source = np.arange(len(stats), dtype=np.int64)
    source[targets] = len(stats) + np.arange(len(targets), dtype=np.int64)
    column = pa.concat_arrays([stats, fresh]).take(pa.array(source))
    position = records.column_names.index(STATS_PAYLOAD)
    return records.set_column(position, records.schema.field(position), column)


def _flag(stats: pa.StructArray, name: str) -> npt.NDArray[np.bool_]:
    values = pc.struct_field(stats, name).to_numpy(zero_copy_only=False)
    return values == np.True_


def _join(older: dict[str, Any] | None, newer: dict[str, Any] | None) -> dict[str, Any]:
    if newer is None:
        return older or {}
    if not older or older["isDeleted"] or newer["isDeleted"] or newer["isTightBound"]:
        return newer
    joined = dict(newer)
    kind = newer.get("valueType")
    is_decimal = kind is not None and kind["typeOrdinal"] == _DECIMAL
    key = _signed if is_decimal else None
    for name, pick in (("minValue", min), ("maxValue", max)):
        joined[name] = _wider(older[name], newer[name], partial(pick, key=key))
    if is_decimal and older.get("valueType") != kind:
        # Unscaled values of two scales are not comparable.
        joined["minValue"] = joined["maxValue"] = None
    if kind is not None and not is_decimal:
        # What is noted of one range need not be true of both, unless both are of one time zone.
        is_same = older.get("valueType") == kind and is_zone_note(kind["additionalInfo"])
        joined["valueType"] = kind if is_same else {**kind, "additionalInfo": None}
    for name in _COUNTS:
        known = older[name] is not None and newer[name] is not None
        joined[name] = older[name] + newer[name] if known else None
    return joined


def _signed(unscaled: bytes) -> int:
    """The unscaled value of a decimal, which is stored as the shortest big-endian bytes."""
    return int.from_bytes(unscaled, "big", signed=True)


def _wider(
    left: _Bound | None, right: _Bound | None, pick: Callable[[Any, Any], Any]
) -> _Bound | None:
    """The wider of two bounds; of a missing bound and a present one, the present one."""
    if left is None or right is None:
        return left or right
    member_left = next((name for name, value in left.items() if value is not None), None)
    member_right = next((name for name, value in right.items() if value is not None), None)
    if member_left is None or member_right is None:
        return right if member_left is None else left
    if member_left != member_right or "value" not in left[member_left]:
        # Two types under one key cannot be compared: no bound is the honest answer.
        return None
    chosen = pick(left[member_left]["value"], right[member_right]["value"])
    return {member_left: {"value": chosen}}
