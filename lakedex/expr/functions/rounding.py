"""Rounding: ceil, floor and round.

`ceil` and `floor` give a BIGINT (of a double: the nearest bound when out of range, 0 for NaN) or
a decimal without digits after the point. `round` rounds halves away from zero; doubles are
refused, because Spark rounds the shortest decimal text of a double, which differs by Java version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.arrays import array_of, numpy_values, valid_mask
from lakedex.expr.casting import cast
from lakedex.expr.functions.spec import Arguments, Constants, FunctionSpec, Order


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
        return cast(numbers, target)

    return FunctionSpec(name, (1, 1), _whole_type, evaluate, _order)


def _order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    # A NaN becomes 0, so the bounds of floats say nothing about the result.
    exact = pa.types.is_integer(types[0]) or pa.types.is_decimal(types[0])
    return Order() if exact and all(value is not ... for value in constants[1:]) else None


def _round(arguments: Arguments) -> pa.Array:
    array = arguments.array(0)
    digits = arguments.constant_int(1) if len(arguments) == 2 else 0
    if digits is None:
        return pa.nulls(arguments.length, array.type)
    if pa.types.is_integer(array.type) and digits >= 0:
        return array
    if not pa.types.is_decimal(array.type) or not 0 <= digits <= array.type.scale:
        raise UnsupportedFeature(f"round of {array.type} to {digits} digits")
    rounded = pc.round(_roomy(array), ndigits=digits, round_mode="half_towards_infinity")
    precision = min(array.type.precision - array.type.scale + digits + 1, 38)
    return cast(rounded, pa.decimal128(precision, digits))


def _roomy(array: pa.Array) -> pa.Array:
    return array.cast(pa.decimal256(76, array.type.scale))


def _round_type(types: Sequence[pa.DataType]) -> pa.DataType:
    return types[0]


FUNCTIONS = (
    _whole("ceil", np.ceil, "up"),
    _whole("floor", np.floor, "down"),
    FunctionSpec("round", (1, 2), _round_type, _round, _order),
)
