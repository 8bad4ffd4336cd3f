"""Arithmetic and rounding of Spark without ANSI mode.

Integers wrap around, division by zero is null, `/` of integers is a double, `%` has the sign of its
left side. Decimals are computed exactly and then converted to the result type; they become null if
they do not fit. With `certain`, everything that fails in ANSI mode is rejected.

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
from lakedex.expr.coercion import arithmetic_arguments, arithmetic_result
from lakedex.expr.functions.spec import Arguments, Constants, FunctionSpec, Order, never

_FLIPS = ("abs", "negative")
Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_EXACT_DECIMAL = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def _result(name: str) -> Callable[[Sequence[pa.DataType]], pa.DataType]:
    return lambda types: arithmetic_result(name, arithmetic_arguments(name, types))


def _binary(name: str, kernel: Kernel, *, zero_is_null: bool = False) -> FunctionSpec:
    def evaluate(arguments: Arguments) -> pa.Array:
        given = [arguments.array(index) for index in range(2)]
        kinds = arithmetic_arguments(name, [array.type for array in given])
        left, right = (
            cast(array, kind, time_zone=arguments.time_zone)
            for array, kind in zip(given, kinds, strict=True)
        )
        if pa.types.is_decimal(left.type):
            found = _decimals(name, left, right)
            lost = valid_mask(left) & valid_mask(right) & ~valid_mask(found)
            if arguments.certain and lost.any():
                raise UnsupportedFeature(f"{left.type} {name} {right.type} with too many digits")
            return found
        if arguments.certain:
            _check_whole(name, left, right)
        divisor = numpy_values(right)
        valid = valid_mask(left) & valid_mask(right)
        if zero_is_null:
            if arguments.certain and (valid & (divisor == 0)).any():
                raise UnsupportedFeature(f"{name} by zero")
            valid &= divisor != 0
            divisor = np.where(valid, divisor, np.ones_like(divisor))
        with np.errstate(all="ignore"):
            values = kernel(numpy_values(left), divisor)
        return array_of(values, valid, left.type)

    order = _shift_order if name in ("+", "-") else never
    return FunctionSpec(name, (2, 2), _result(name), evaluate, order)


def _check_whole(name: str, left: pa.Array, right: pa.Array) -> None:
    """Reject integers whose result does not fit its type."""
    if not pa.types.is_integer(left.type):
        return
    if name in _CHECKED:
        _CHECKED[name](left, right)
    elif name == "div":
        smallest = np.iinfo(np.int64).min
        if ((numpy_values(left) == smallest) & (numpy_values(right) == -1)).any():
            raise UnsupportedFeature("div of the smallest number by -1")


def _shift_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    """Adding or subtracting an integer preserves order unless it wraps, which the caller checks."""
    whole = all(pa.types.is_integer(kind) for kind in types) and len(set(types)) == 1
    return Order() if whole and constants[0] is ... and constants[1] is not ... else None


def _decimals(name: str, left: pa.Array, right: pa.Array) -> pa.Array:
    target = arithmetic_result(name, [left.type, right.type])
    if name not in _EXACT_DECIMAL:
        raise UnsupportedFeature(f"{name} on decimals")
    wide = [
        array.cast(pa.decimal256(array.type.precision, array.type.scale)) for array in (left, right)
    ]
    try:
        exact = _EXACT_DECIMAL[name](*wide)
    except pa.ArrowInvalid as error:
        raise UnsupportedFeature(f"{left.type} {name} {right.type}") from error
    return cast(exact, target)


def _integral_divide(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    quotient = left // right
    # Numpy rounds down, Java rounds towards zero.
    inexact = (left % right != 0) & ((left < 0) != (right < 0))
    result: np.ndarray = quotient + inexact
    return result


def _unary(
    name: str,
    numbers: Callable[[np.ndarray], np.ndarray],
    decimals: Callable[[pa.Array], pa.Array],
) -> FunctionSpec:
    def evaluate(arguments: Arguments) -> pa.Array:
        array = arguments.array(0)
        if pa.types.is_null(array.type):
            return array
        if pa.types.is_decimal(array.type):
            return decimals(array)
        given = numpy_values(array)
        if arguments.certain and pa.types.is_integer(array.type):
            smallest = np.iinfo(given.dtype).min
            if name in _FLIPS and (given == smallest).any():
                raise UnsupportedFeature(f"{name} of the smallest number of {array.type}")
        with np.errstate(all="ignore"):
            values = numbers(given)
        return array_of(values, valid_mask(array), array.type)

    return FunctionSpec(name, (1, 1), lambda types: types[0], evaluate)


_ARITHMETIC = (
    _binary("+", np.add),
    _binary("-", np.subtract),
    _binary("*", np.multiply),
    _binary("/", np.divide, zero_is_null=True),
    _binary("%", np.fmod, zero_is_null=True),
    _binary("div", _integral_divide, zero_is_null=True),
    _binary("&", np.bitwise_and),
    _binary("|", np.bitwise_or),
    _binary("^", np.bitwise_xor),
    _unary("~", np.invert, pc.negate),
    _unary("abs", np.abs, pc.abs),
    _unary("negative", np.negative, pc.negate),
    _unary("positive", np.positive, lambda array: array),
)


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

    return FunctionSpec(name, (1, 1), _whole_type, evaluate, _rounding_order)


def _rounding_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
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


_ROUNDING = (
    _whole("ceil", np.ceil, "up"),
    _whole("floor", np.floor, "down"),
    FunctionSpec(
        "round", (1, 2), _round_type, _round, _rounding_order, typed_by_value=_round_type_by_digits
    ),
)

FUNCTIONS = (*_ARITHMETIC, *_ROUNDING)
