"""Arrow columns as plain values that JSON has: the form of rows in `--json` and in cells.

| Arrow | JSON |
| --- | --- |
| binary | base64 text |
| decimal, date, time, timestamp | text; instants end in `Z`, wall clock times do not |
| NaN and the infinities | the texts `NaN`, `Infinity`, `-Infinity` |
| map | object if its keys are text, else a list of `{"key": ..., "value": ...}` |
| list, struct | list, object |
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa


def plain_rows(rows: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows as dictionaries of plain values.

    Example:
        >>> list(plain_rows(pa.table({"a": [1.5, float("nan")], "b": [b"x", None]})))
        [{'a': 1.5, 'b': 'eA=='}, {'a': 'NaN', 'b': None}]
    """
    names = rows.schema.names
    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    for batch in batches:
        columns = [plain_values(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


def plain_values(array: pa.Array) -> list[Any]:
    """The values of an array as JSON has them."""
    for matches, convert in _CONVERSIONS:
        if matches(array.type):
            return convert(array)
    values: list[Any] = array.to_pylist()
    return values


def temporal_text(array: pa.Array) -> pa.Array:
    """Dates, times and timestamps as text, also those that Python's classes cannot hold."""
    kind = array.type
    if not pa.types.is_timestamp(kind):
        return array.cast(pa.string())
    text = array.view(pa.int64()).view(pa.timestamp(kind.unit)).cast(pa.string())
    if kind.tz is None:
        return text
    return pa.array([None if each is None else f"{each}Z" for each in text.to_pylist()], text.type)


def is_temporal(kind: pa.DataType) -> bool:
    """Whether values are dates, times or timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether values are bytes, of any length."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _temporal(array: pa.Array) -> list[Any]:
    values: list[Any] = temporal_text(array).to_pylist()
    return values


def _decimals(array: pa.Array) -> list[Any]:
    return [None if each is None else str(each) for each in array.to_pylist()]


def _binaries(array: pa.Array) -> list[Any]:
    encode = base64.b64encode
    return [None if each is None else encode(each).decode("ascii") for each in array.to_pylist()]


def _floats(array: pa.Array) -> list[Any]:
    values = array.to_pylist()
    if pa.types.is_float32(array.type):
        # The shortest text that means this float: 0.1, not 0.10000000149011612.
        texts = array.cast(pa.string()).to_pylist()
        values = [None if each is None else float(each) for each in texts]
    return [each if each is None or math.isfinite(each) else _named(each) for each in values]


def _named(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def _structs(array: pa.StructArray) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [plain_values(child) for child in array.flatten()]
    valid = array.is_valid().to_pylist()
    if not columns:
        return [{} if is_valid else None for is_valid in valid]
    rows = zip(*columns, strict=True)
    pairs = zip(valid, rows, strict=True)
    return [dict(zip(names, row, strict=True)) if ok else None for ok, row in pairs]


def _lists(array: pa.ListArray) -> list[Any]:
    values = plain_values(array.flatten())
    lengths = array.value_lengths().to_pylist()
    found: list[Any] = []
    begin = 0
    for length in lengths:
        found.append(None if length is None else values[begin : begin + length])
        begin += length or 0
    return found


def _maps(array: pa.MapArray) -> list[Any]:
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    keys, items = plain_values(array.keys), plain_values(array.items)
    named = pa.types.is_string(array.type.key_type)
    found: list[Any] = []
    for row, is_valid in enumerate(valid):
        cut = slice(offsets[row], offsets[row + 1])
        pairs = zip(keys[cut], items[cut], strict=True)
        entries = dict(pairs) if named else [{"key": key, "value": item} for key, item in pairs]
        found.append(entries if is_valid else None)
    return found


_CONVERSIONS: list[tuple[Callable[[pa.DataType], bool], Callable[[Any], list[Any]]]] = [
    (is_temporal, _temporal),
    (pa.types.is_decimal, _decimals),
    (is_binary, _binaries),
    (pa.types.is_floating, _floats),
    (pa.types.is_struct, _structs),
    (pa.types.is_map, _maps),
    (pa.types.is_list, _lists),
]
