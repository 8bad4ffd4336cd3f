"""What each scalar function takes and gives, by Spark 3.5's analyser without ANSI mode.

A signature names for every argument the types that the function takes as they are; any other
type is cast to the one that Spark casts it to. The result is a type, or a rule over the
arguments' types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.expr.arithmetic_types import arithmetic_arguments, arithmetic_result
from lakedex.expr.coercion import Family, comparison_type, family
from lakedex.expr.sql_type import type_name

STAMP = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument: the families taken as they are, and the type that others are cast to."""

    takes: frozenset[Family]
    otherwise: pa.DataType | None


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters (the last may repeat), how many are needed, and its result."""

    parameters: tuple[Parameter, ...]
    result: pa.DataType | None
    needed: int
    repeats: bool = False


Types = Sequence[pa.DataType]


def argument_types(name: str, given: Types) -> list[pa.DataType]:
    """The types to which the arguments of a call are cast; the same type means no cast.

    Raises:
        InvalidInput: There is no such function, or not with these arguments.

    Example:
        >>> argument_types("upper", [pa.int32()])
        [DataType(string)]
    """
    if name in ARITHMETIC:
        return arithmetic_arguments(name, given)
    if name in _COMMON_TYPE:
        first = _COMMON_TYPE[name]
        _check_count(name, given, first + 1, None)
        return [*given[:first], *[_common(given[first:])] * (len(given) - first)]
    signature = SIGNATURES.get(name)
    if signature is None:
        raise InvalidInput(f"there is no function {name!r}; known are {', '.join(known())}")
    most = None if signature.repeats else len(signature.parameters)
    _check_count(name, given, signature.needed, most)
    last = len(signature.parameters) - 1
    wanted = (signature.parameters[min(index, last)] for index in range(len(given)))
    return [_argument(name, parameter, kind) for parameter, kind in zip(wanted, given, strict=True)]


def result_type(name: str, arguments: Types) -> pa.DataType:
    """The type of a call whose arguments have been cast to `argument_types`.

    Example:
        >>> result_type("year", [pa.date32()])
        DataType(int32)
    """
    if name in ARITHMETIC:
        return arithmetic_result(name, arguments)
    if name in _COMMON_TYPE:
        return arguments[_COMMON_TYPE[name]]
    result = SIGNATURES[name].result
    return arguments[0] if result is None else result


def known() -> list[str]:
    """The names of all functions, sorted."""
    return sorted({*SIGNATURES, *_COMMON_TYPE, *(name for name in ARITHMETIC if name.isalpha())})


def _argument(name: str, parameter: Parameter, given: pa.DataType) -> pa.DataType:
    kind = family(given)
    if kind in parameter.takes:
        return given
    if kind is Family.OTHER or parameter.otherwise is None:
        raise InvalidInput(f"{name} cannot take {type_name(given)}")
    return parameter.otherwise


def _check_count(name: str, given: Types, least: int, most: int | None) -> None:
    if len(given) < least or (most is not None and len(given) > most):
        raise InvalidInput(f"{name} was given {len(given)} arguments")


def _common(types: Types) -> pa.DataType:
    common = types[0]
    for kind in types[1:]:
        # Unlike a comparison, a choice between a string and something else is a string.
        has_string = Family.STRING in (family(common), family(kind))
        strings = {family(common), family(kind)} - {Family.NULL} == {Family.STRING}
        common = pa.string() if has_string and not strings else comparison_type(common, kind)
    return common


def _takes(*families: Family, otherwise: pa.DataType | None = None) -> Parameter:
    return Parameter(frozenset(families), otherwise)


def _all(
    names: str, parameters: Sequence[Parameter], result: pa.DataType | None, needed: int | None = None
) -> dict[str, Signature]:
    count = len(parameters) if needed is None else needed
    return dict.fromkeys(names.split(), Signature(tuple(parameters), result, count))


_TEXT = _takes(Family.STRING, otherwise=pa.string())
_BYTES = _takes(Family.STRING, Family.BINARY, otherwise=pa.string())
_INT = _takes(Family.INTEGER, otherwise=pa.int32())
_LONG = _takes(Family.INTEGER, otherwise=pa.int64())
_BOOL = _takes(Family.BOOLEAN, otherwise=pa.bool_())
_DAY = _takes(Family.DATE, otherwise=pa.date32())
_CALENDAR = _takes(
    Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ, otherwise=pa.date32()
)
_CLOCK = _takes(Family.TIMESTAMP, Family.TIMESTAMP_NTZ, Family.DATE, otherwise=STAMP)
_TEXT_OR_TIME = _takes(
    Family.STRING, Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ, otherwise=pa.string()
)
_NUMBER = _takes(Family.INTEGER, Family.FLOAT, Family.DECIMAL, otherwise=pa.float64())

_COMMON_TYPE = {"coalesce": 0, "nvl": 0, "ifnull": 0, "greatest": 0, "least": 0, "if": 1}
ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "div", "mod", "&", "|", "^", "~"})
"""Functions whose types depend on all their arguments."""

SIGNATURES: dict[str, Signature] = {
    **_all("upper lower ucase lcase reverse initcap", [_TEXT], pa.string()),
    **_all("trim ltrim rtrim btrim", [_TEXT, _TEXT], pa.string(), 1),
    **_all("substring substr", [_BYTES, _INT, _INT], None, 2),
    **_all("left right", [_TEXT, _INT], pa.string()),
    **_all("length len char_length character_length octet_length", [_BYTES], pa.int32()),
    **_all("contains endswith startswith rlike ilike", [_TEXT, _TEXT], pa.bool_()),
    **_all("like", [_TEXT, _TEXT, _TEXT], pa.bool_(), 2),
    **_all("year month day dayofmonth quarter", [_CALENDAR], pa.int32()),
    **_all("dayofweek dayofyear weekofyear weekday", [_CALENDAR], pa.int32()),
    **_all("hour minute second", [_CLOCK], pa.int32()),
    **_all("date_format", [_CLOCK, _TEXT], pa.string()),
    **_all("from_unixtime", [_LONG, _TEXT], pa.string(), 1),
    **_all("unix_timestamp to_unix_timestamp", [_TEXT_OR_TIME, _TEXT], pa.int64(), 1),
    **_all("to_date", [_TEXT_OR_TIME, _TEXT], pa.date32(), 1),
    **_all("to_timestamp", [_TEXT_OR_TIME, _TEXT], STAMP, 1),
    **_all("date_trunc", [_TEXT, _CLOCK], STAMP),
    **_all("trunc", [_CALENDAR, _TEXT], pa.date32()),
    **_all("date_add date_sub dateadd add_months", [_DAY, _INT], pa.date32()),
    **_all("datediff date_diff", [_DAY, _DAY], pa.int32()),
    **_all("last_day", [_DAY], pa.date32()),
    **_all("current_date", [], pa.date32()),
    **_all("current_timestamp now", [], STAMP),
    **_all("abs negative positive", [_NUMBER], None),
    **_all("not", [_BOOL], pa.bool_()),
    "concat": Signature((_TEXT,), pa.string(), 0, repeats=True),
    "||": Signature((_TEXT,), pa.string(), 2, repeats=True),
}
"""Every function with fixed parameter types, by its lower-case name."""

