"""Functions that test or choose: contains, greatest, if and similar functions.

`cast_fails(x, NULL)` exists in the tree only: whether ANSI mode fails to cast a number to the type
of the NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.expr.arrays import is_text
from lakedex.expr.casting import cast, lost_in_cast
from lakedex.expr.comparison import compare
from lakedex.expr.functions.spec import Arguments, FunctionSpec, always
from lakedex.expr.like import matches_like, parse_like
from lakedex.expr.tree import Op


def _common_type(types: Sequence[pa.DataType]) -> pa.DataType:
    return next((kind for kind in types if not pa.types.is_null(kind)), pa.null())


def _alike(arguments: Arguments, first: int = 0) -> list[pa.Array]:
    """The arguments from `first` on in one type, to which binding has cast them."""
    arrays = [arguments.array(index) for index in range(first, len(arguments))]
    kind = _common_type([array.type for array in arrays])
    return [cast(array, kind, time_zone=arguments.time_zone) for array in arrays]


def _coalesce(arguments: Arguments) -> pa.Array:
    return pc.coalesce(*_alike(arguments))


def _extreme(op: Op) -> Callable[[Arguments], pa.Array]:
    def better(best: pa.Array, other: pa.Array) -> pa.Array:
        wins = pc.fill_null(compare(op, other, best), fill_value=False)
        chosen = pc.if_else(wins, other, best)
        return pc.coalesce(chosen, other)

    return lambda arguments: reduce(better, _alike(arguments))


def _if(arguments: Arguments) -> pa.Array:
    condition = pc.fill_null(arguments.array(0), fill_value=False)
    return pc.if_else(condition, *_alike(arguments, 1))


def _text_test(kernel: Callable[..., pa.Array]) -> Callable[[Arguments], pa.Array]:
    def evaluate(arguments: Arguments) -> pa.Array:
        pattern = arguments.constant_text(1)
        if pattern is None:
            return pa.nulls(arguments.length, pa.bool_())
        return kernel(arguments.text(0), pattern=pattern)

    return evaluate


def _like(arguments: Arguments) -> pa.Array:
    pattern = arguments.constant_text(1)
    escape = arguments.constant_text(2) if len(arguments) == 3 else "\\"
    if pattern is None or escape is None:
        return pa.nulls(arguments.length, pa.bool_())
    return matches_like(arguments.text(0), parse_like(pattern, escape))


def _not(arguments: Arguments) -> pa.Array:
    array = arguments.array(0)
    if not pa.types.is_boolean(array.type):
        raise InvalidInput(f"not takes a boolean, not {array.type}")
    return pc.invert(array)


def _octet_length(arguments: Arguments) -> pa.Array:
    array = arguments.array(0)
    is_string = is_text(array.type)
    octets = array.cast(pa.binary()) if is_string else array
    return pc.binary_length(octets).cast(pa.int32())


def _cast_fails(arguments: Arguments) -> pa.Array:
    return pa.array(lost_in_cast(arguments.array(0), arguments.values[1].type))


_BOOLEAN = always(pa.bool_())
CAST_FAILS: Final = "cast_fails"

FUNCTIONS = (
    FunctionSpec(CAST_FAILS, (2, 2), _BOOLEAN, _cast_fails),
    FunctionSpec("coalesce", (1, 255), _common_type, _coalesce),
    FunctionSpec("greatest", (2, 255), _common_type, _extreme(Op.GT)),
    FunctionSpec("least", (2, 255), _common_type, _extreme(Op.LT)),
    FunctionSpec("if", (3, 3), lambda types: _common_type(types[1:]), _if),
    FunctionSpec("startswith", (2, 2), _BOOLEAN, _text_test(pc.starts_with)),
    FunctionSpec("endswith", (2, 2), _BOOLEAN, _text_test(pc.ends_with)),
    FunctionSpec("contains", (2, 2), _BOOLEAN, _text_test(pc.match_substring)),
    FunctionSpec("like", (2, 3), _BOOLEAN, _like),
    FunctionSpec("not", (1, 1), _BOOLEAN, _not),
    FunctionSpec("octet_length", (1, 1), always(pa.int32()), _octet_length),
)
