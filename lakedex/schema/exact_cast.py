"""Plain values in another type, or not at all: no rounding, no overflow, no guess.

A float that goes to a double column takes the way over its text, as Hudi does it, so that 1.1
stays 1.1. Numbers become text the way Java prints them.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.schema.conversions import java_number_text
from lakedex.schema.sql_type import type_name
from lakedex.schema.storable import is_bytes, is_text

_WIDE_DIGITS = 38


def exact_cast(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """A column of a plain type as `target`; `path` names it in errors.

    Example:
        >>> exact_cast(pa.array([1.1], pa.float32()), pa.float64(), "x").to_pylist()
        [1.1]
        >>> exact_cast(pa.array([1 << 40]), pa.int32(), "n")
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: column n: ...

    Raises:
        InvalidInput: the types do not go together, or a value does not fit.
    """
    if array.type == target:
        return array
    for goes, step in _STEPS:
        if goes(array.type, target):
            try:
                return step(array, target)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
                raise InvalidInput(
                    f"column {path}: a value of type {array.type} does not fit {target}: {error}"
                ) from None
    raise mismatch(array.type, target, path)


def mismatch(given: pa.DataType, target: pa.DataType, path: str) -> InvalidInput:
    """The error for a column whose type has no exact conversion, with the cast to write.

    Example:
        >>> print(mismatch(pa.float64(), pa.decimal128(12, 2), "fare"))
        column fare is DECIMAL(12,2) in the table and DOUBLE in the input; cast it first:
        cast(fare AS DECIMAL(12,2)) in SQL, or
        df.withColumn("fare", df["fare"].cast("DECIMAL(12,2)")) in Spark
    """
    wanted, shown = type_name(target), type_name(given)
    message = f"column {path} is {wanted} in the table and {shown} in the input"
    if "." in path or pa.types.is_nested(target) or pa.types.is_nested(given):
        return InvalidInput(message)
    return InvalidInput(
        f"{message}; cast it first: cast({path} AS {wanted}) in SQL, or "
        f'df.withColumn("{path}", df["{path}"].cast("{wanted}")) in Spark'
    )


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(target)


def _float_by_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(pa.float32()).cast(pa.string()).cast(target)


def _integer_to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    # By the widest decimal: Arrow wants room for all values of the integer type at once.
    return array.cast(pa.decimal128(_WIDE_DIGITS, 0)).cast(target)


def _float_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type == pa.float16():
        array = array.cast(pa.float32())
    return java_number_text(array)


def _same_zone(old: pa.DataType, new: pa.DataType) -> bool:
    both = pa.types.is_timestamp(old) and pa.types.is_timestamp(new)
    return both and (old.tz is None) == (new.tz is None)


_number = pa.types.is_integer
_float = pa.types.is_floating
_decimal = pa.types.is_decimal
_STEPS: tuple[
    tuple[
        Callable[[pa.DataType, pa.DataType], bool],
        Callable[[pa.Array, pa.DataType], pa.Array],
    ],
    ...,
] = (
    (lambda old, new: _number(old) and _number(new), _cast),
    (lambda old, new: _number(old) and _float(new), _cast),
    (lambda old, new: old != pa.float64() and _float(old) and new == pa.float64(), _float_by_text),
    (lambda old, new: old == pa.float16() and new == pa.float32(), _cast),
    (lambda old, new: _decimal(old) and _decimal(new), _cast),
    (lambda old, new: _number(old) and _decimal(new), _integer_to_decimal),
    (lambda old, new: is_text(old) and is_text(new), _cast),
    (lambda old, new: _float(old) and is_text(new), _float_text),
    (
        lambda old, new: is_text(new) and (_number(old) or _decimal(old) or pa.types.is_date(old)),
        _cast,
    ),
    (lambda old, new: (is_bytes(old) or is_text(old)) and is_bytes(new), _cast),
    (lambda old, new: pa.types.is_date(old) and pa.types.is_date(new), _cast),
    (_same_zone, _cast),
)
