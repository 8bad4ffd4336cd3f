"""Rounding: ceil, floor and round.

`ceil` and `floor` return a BIGINT (of a double: the nearest bound if out of range, 0 for NaN) or a
decimal without digits after the point. `round` rounds halves away from zero. Spark rounds the
decimal text of a double, which depends on the Java version: a double that lies so near the middle
between two results that its last digits decide is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.arrays import array_of, numpy_values, valid_mask
from lakedex.expr.casting import cast, lost_in_cast
from lakedex.expr.functions.spec import Arguments, Constants, FunctionSpec, Order

_MOST_DIGITS = 15
_LARGEST = 2.0**50
_NEAR = 1e-14


def _whole_type(types: Sequence[pa.DataType]) -> pa.DataType:
    kind = types[0]
    if not pa.types.is_decimal(kind):
        return pa.int64()
    return pa.decimal128(min(max(kind.precision - kind.scale + 1, 1), 38), 0)


def _whole(name: str, kernel: Callable[[np.ndarray], np.ndarray], mode: str) -> FunctionSpec:
    def evaluate(arguments: Arguments) -> pa.Array:
        array = arguments.array(0)
        target = _whole_type([array.type])
        if pa.types.is_integer(array.type):
            return cast(array, target)
        if pa.types.is_decimal(array.type):
            return cast(pc.round(_roomy(array), ndigits=0, round_mode=mode), target)
        if not pa.types.is_floating(array.type):
            raise InvalidInput(f"{name} takes numbers, not {array.type}")
        numbers = array_of(
            kernel(numpy_values(array).astype(np.float64)), valid_mask(array), pa.float64()
        )
        if arguments.certain and lost_in_cast(numbers, target).any():
            raise UnsupportedFeature(f"{name} of a number that does not fit in {target}")
        return cast(numbers, target)

    return FunctionSpec(name, (1, 1), _whole_type, evaluate, _order)


def _order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    # A NaN becomes 0, so the bounds of floats are not bounds of the result.
    exact = pa.types.is_integer(types[0]) or pa.types.is_decimal(types[0])
    return Order() if exact and all(value is not ... for value in constants[1:]) else None


def _round(arguments: Arguments) -> pa.Array:
    array = arguments.array(0)
    digits = arguments.constant_int(1) if len(arguments) == 2 else 0
    if digits is None:
        return pa.nulls(arguments.length, array.type)
    if pa.types.is_integer(array.type) and digits >= 0:
        return array
    if array.type == pa.float64() and 0 <= digits <= _MOST_DIGITS:
        return array_of(_rounded(numpy_values(array), digits), valid_mask(array), array.type)
    if not pa.types.is_decimal(array.type) or not 0 <= digits <= array.type.scale:
        raise UnsupportedFeature(f"round of {array.type} to {digits} digits")
    rounded = pc.round(_roomy(array), ndigits=digits, round_mode="half_towards_infinity")
    return cast(rounded, _rounded_decimal(array.type, digits))


def _rounded(numbers: np.ndarray, digits: int) -> np.ndarray:
    """Doubles rounded to `digits` digits after the point."""
    with np.errstate(all="ignore"):
        shifted = np.abs(numbers) * 10.0**digits
        below = np.floor(shifted)
        part = shifted - below
        is_plain = np.isfinite(numbers)
        # Without digits a half is exact; with digits, the product may differ in its last bit.
        near = np.abs(part - 0.5) < _NEAR * np.maximum(below, 1.0)
        near &= (part != 0.5) | (digits > 0)
        if (is_plain & (near | (shifted >= _LARGEST))).any():
            raise UnsupportedFeature(f"round of a double midway between two of {digits} digits")
        whole = below + (part >= 0.5)
        return np.where(is_plain, np.copysign(whole / 10.0**digits, numbers), numbers)


def _rounded_decimal(kind: pa.DataType, digits: int) -> pa.DataType:
    return pa.decimal128(min(kind.precision - kind.scale + digits + 1, 38), digits)


def _roomy(array: pa.Array) -> pa.Array:
    return array.cast(pa.decimal256(76, array.type.scale))


def _round_type(types: Sequence[pa.DataType]) -> pa.DataType:
    return types[0]


def _round_type_by_digits(types: Sequence[pa.DataType], constants: Constants) -> pa.DataType:
    digits = constants[1] if len(constants) == 2 else 0
    if pa.types.is_decimal(types[0]) and isinstance(digits, int) and digits >= 0:
        return _rounded_decimal(types[0], min(digits, types[0].scale))
    return types[0]


FUNCTIONS = (
    _whole("ceil", np.ceil, "up"),
    _whole("floor", np.floor, "down"),
    FunctionSpec(
        "round", (1, 2), _round_type, _round, _order, typed_by_value=_round_type_by_digits
    ),
)
