"""The ordering values of rows: what decides between versions of a record.

An ordering field is a column, or a field inside a struct by the name `column.field`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from lakedex.keys.generator import values_of
from lakedex.schema.field_paths import flat

_ROLE = "ordering"


def raw_ordering(rows: pa.Table, fields: Sequence[str]) -> list[pa.Array]:
    """The values of the ordering fields as the rows have them, nulls included.

    Example:
        >>> rows = pa.table({"s": [{"ver": 7}, None]})
        >>> [values.to_pylist() for values in raw_ordering(rows, ["s.ver"])]
        [[7, None]]
    """
    return [values_of(rows, name, role=_ROLE) for name in fields]


def ordering_of(rows: pa.Table, fields: Sequence[str]) -> list[pa.Array]:
    """The values of the ordering fields as they are compared."""
    return [ordering_values(values) for values in raw_ordering(rows, fields)]


def ordering_values(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Ordering values without nulls: a missing value counts as the lowest, numbers as 0."""
    whole = flat(values)
    if whole.null_count == 0:
        return whole
    return whole.fill_null(_lowest(whole.type))


def _lowest(data_type: pa.DataType) -> pa.Scalar:
    is_a = pa.types
    if is_a.is_string(data_type) or is_a.is_binary(data_type):
        return pa.scalar(b"").cast(data_type)
    if is_a.is_fixed_size_binary(data_type):
        return pa.scalar(bytes(data_type.byte_width), data_type)
    if is_a.is_decimal(data_type):
        return pa.scalar(Decimal(0), data_type)
    width = pa.int32() if is_a.is_date32(data_type) or is_a.is_time32(data_type) else pa.int64()
    return pa.scalar(0, width).cast(data_type)
