"""Conversion between Arrow arrays and numpy: values, validity and constants.

A `Datum` is an Arrow array, or an Arrow scalar that represents the same value in every row.
Kernels that Arrow lacks operate on the numpy values, which are zero where the array is null.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput

Datum: TypeAlias = pa.Array | pa.Scalar
"""An array, or one value for all rows."""

MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = 86_400 * MICROS_PER_SECOND


def as_array(datum: Datum, length: int) -> pa.Array:
    """The datum as an array of `length` rows.

    Example:
        >>> as_array(pa.scalar(7), 2).to_pylist()
        [7, 7]
    """
    if isinstance(datum, pa.Scalar):
        return pa.repeat(datum, length)
    if isinstance(datum, pa.ChunkedArray):
        return datum.combine_chunks()
    return datum


def valid_mask(array: pa.Array) -> np.ndarray:
    """A mask of the rows that are not null."""
    mask: np.ndarray = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return mask


def numpy_values(array: pa.Array) -> np.ndarray:
    """The values of a flat array of fixed width, zero where the array is null.

    Dates become days, timestamps and times become counts of their unit, booleans become numpy
    booleans.
    """
    plain = array
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        plain = array.view(pa.int32())
    elif pa.types.is_temporal(array.type):
        plain = array.view(pa.int64())
    if plain.null_count:
        plain = plain.fill_null(pa.scalar(0).cast(plain.type))
    values: np.ndarray = plain.to_numpy(zero_copy_only=False)
    return values


def numpy_type(kind: pa.DataType) -> np.dtype:
    """The numpy type of a numeric Arrow type; Arrow's own method needs pandas in older releases.

    Example:
        >>> numpy_type(pa.int16())
        dtype('int16')
    """
    return pa.array([], kind).to_numpy(zero_copy_only=False).dtype


def array_of(values: np.ndarray, valid: np.ndarray | None, kind: pa.DataType) -> pa.Array:
    """An Arrow array of `kind` from its numpy values, null where `valid` is false.

    Example:
        >>> array_of(np.array([1, 2]), np.array([True, False]), pa.date32()).to_pylist()
        [datetime.date(1970, 1, 2), None]
    """
    mask = None if valid is None or valid.all() else ~valid
    if pa.types.is_date32(kind):
        return pa.array(values.astype(np.int32), mask=mask).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values.astype(np.int64), mask=mask).view(kind)
    return pa.array(values, type=kind, mask=mask)


def masked(array: pa.Array, keep: np.ndarray) -> pa.Array:
    """The array with nulls where `keep` is false."""
    if keep.all():
        return array
    return pc.if_else(pa.array(keep), array, pa.scalar(None, array.type))


def constant(datum: Datum, what: str) -> object:
    """The Python value of an argument that must be a constant.

    Raises:
        InvalidInput: when it is a column or another row-wise expression.
    """
    if not isinstance(datum, pa.Scalar):
        raise InvalidInput(f"{what} must be a constant")
    return datum.as_py()


def is_text(kind: pa.DataType) -> bool:
    """Whether the type is a string type."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_bytes(kind: pa.DataType) -> bool:
    """Whether the type is a binary type."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )
