"""The specification of a scalar function, and the arguments of a call.

For a function that preserves order (non-decreasing in its only argument that is not a constant),
the bounds of the call follow from those of a column. `Order` states the conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.expr.arrays import Datum, as_array, constant, is_text
from lakedex.expr.casting import cast
from lakedex.expr.time_zones import ZONED, LocalTime, local_time
from lakedex.expr.tree import Expr, Literal


@dataclass(frozen=True, slots=True)
class Order:
    """How a function preserves the order of its argument.

    Attributes:
        clock: it uses the wall clock, which in most regions goes back once a year.
        years: only for the years 0 to 9999, because text with more digits sorts differently.
    """

    clock: bool = False
    years: bool = False


@dataclass(frozen=True, slots=True)
class Arguments:
    """The evaluated arguments of one call."""

    name: str
    values: Sequence[Datum]
    length: int
    time_zone: str
    certain: bool = False
    """Whether values whose result depends on ANSI mode are rejected."""

    def __len__(self) -> int:
        return len(self.values)

    def array(self, index: int) -> pa.Array:
        """An argument as an array."""
        return as_array(self.values[index], self.length)

    def text(self, index: int) -> pa.Array:
        """An argument as strings, cast if necessary."""
        array = self.array(index)
        return array if is_text(array.type) else cast(array, pa.string(), time_zone=self.time_zone)

    def constant(self, index: int) -> object:
        """An argument that must be a constant; None for SQL's NULL."""
        return constant(self.values[index], f"argument {index + 1} of {self.name}")

    def constant_int(self, index: int) -> int | None:
        """A constant integer, or None for NULL."""
        value = self.constant(index)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise InvalidInput(f"argument {index + 1} of {self.name} must be an integer")

    def constant_text(self, index: int) -> str | None:
        """A constant string, or None for NULL."""
        value = self.constant(index)
        if value is None or isinstance(value, str):
            return value
        raise InvalidInput(f"argument {index + 1} of {self.name} must be a string")

    def date(self, index: int) -> LocalTime:
        """An argument as wall-clock time; a string is parsed as a date."""
        array = self.array(index)
        if is_text(array.type):
            array = cast(array, pa.date32())
        return local_time(array, self.time_zone)

    def time(self, index: int) -> LocalTime:
        """An argument as wall-clock time; a string is parsed as a timestamp."""
        array = self.array(index)
        if is_text(array.type):
            array = cast(array, ZONED, time_zone=self.time_zone)
        return local_time(array, self.time_zone)


Constants = Sequence[object]
"""The constant arguments of a call, with `...` for arguments that are not constants."""


def constants_of(arguments: Sequence[Expr]) -> list[object]:
    """The values of the constants among arguments, `...` for the others."""
    return [each.value if isinstance(each, Literal) else ... for each in arguments]


def never(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    """The order of a function that does not preserve order."""
    return None


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """One scalar function.

    Attributes:
        name: its Spark name in lower case.
        arity: the fewest and the most arguments.
        result_type: from the argument types to the type of the result.
        evaluate: from arguments to an array of `Arguments.length` rows.
        order: from argument types and constants to how order is preserved, None if it is not.
        typed_by_value: from argument types and constants to the type of the result, if it also
            depends on the constants.
        portable: whether every engine has the same result for every character; upper and lower
            case depend on the Unicode version.
    """

    name: str
    arity: tuple[int, int]
    result_type: Callable[[Sequence[pa.DataType]], pa.DataType]
    evaluate: Callable[[Arguments], pa.Array]
    order: Callable[[Sequence[pa.DataType], Constants], Order | None] = never
    portable: bool = True
    typed_by_value: Callable[[Sequence[pa.DataType], Constants], pa.DataType] | None = None

    def type_of(self, types: Sequence[pa.DataType], constants: Constants) -> pa.DataType:
        """The type of the result, from the types of the arguments and the constants among them."""
        if self.typed_by_value is not None:
            return self.typed_by_value(types, constants)
        return self.result_type(types)

    def check_arity(self, count: int) -> None:
        """Reject a wrong number of arguments.

        Raises:
            InvalidInput: The number is wrong; the message names the function and its arity.
        """
        fewest, most = self.arity
        if not fewest <= count <= most:
            takes = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise InvalidInput(f"function {self.name} takes {takes} arguments, not {count}")


def always(kind: pa.DataType) -> Callable[[Sequence[pa.DataType]], pa.DataType]:
    """A result type that does not depend on the arguments."""
    return lambda types: kind
