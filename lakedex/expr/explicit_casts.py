"""Calls with explicit casts of their arguments, as in plans of Spark's analyser.

`price * qty` of a double and an integer is a product of two doubles, `hour(day)` the hour of a
timestamp. SQL text omits these casts and a plan contains them; with explicit casts both are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.expr.bind import bound_type
from lakedex.expr.coercion import Family, arithmetic_arguments, family
from lakedex.expr.functions import canonical_name
from lakedex.expr.functions.datetimes import DEFAULT_PATTERN
from lakedex.expr.literal_cast import cast_literal
from lakedex.expr.tree import Call, Cast, Column, Expr, Literal

_MOMENT = pa.timestamp("us", "UTC")
_ANY_ZONE = "UTC"
_PATTERN = Literal(DEFAULT_PATTERN, pa.string())
_ARITHMETIC = frozenset(["+", "-", "*", "/", "%", "div"])
_CHOICES = frozenset(["coalesce", "greatest", "least"])
_OF_DATE = frozenset(
    {"year", "quarter", "month", "dayofmonth", "dayofweek", "weekday", "dayofyear", "weekofyear"}
    | {"date_add", "date_sub", "last_day", "trunc"}
)
_OF_TIME = frozenset(["hour", "minute", "second"])
_TIMES = (Family.TIMESTAMP, Family.TIMESTAMP_NTZ)
_LARGE = 64

Arguments = Sequence[Expr]


def with_casts(expr: Expr) -> Expr:
    """Add the implicit casts of all calls to a bound scalar expression.

    Example:
        >>> total = Call("*", (Column(("p",), pa.float64()), Column(("q",), pa.int32())))
        >>> with_casts(total).arguments[1]
        Cast(child=Column(path=('q',), type=DataType(int32)), type=DataType(double))
    """
    match expr:
        case Cast(child, kind):
            return Cast(with_casts(child), kind)
        case Call(name, arguments):
            inner = tuple(with_casts(argument) for argument in arguments)
            return with_casts_of_call(Call(name, inner))
        case _:
            return expr


def with_casts_of_call(call: Call) -> Call:
    """Add the implicit casts of the arguments of one call.

    Example:
        >>> with_casts_of_call(Call("floor", (Column(("n",), pa.int32()),))).arguments[0].type
        DataType(double)
    """
    name = canonical_name(call.function)
    rule = _RULES.get(name)
    if rule is None:
        return call
    try:
        return rule(name, call.arguments)
    except LakedexError:
        # A call without known types stays as it is.
        return call


def _arithmetic(name: str, arguments: Arguments) -> Call:
    types = [bound_type(argument) for argument in arguments]
    if any(pa.types.is_null(kind) for kind in types):
        return Call(name, tuple(arguments))
    kinds = arithmetic_arguments(name, types)
    return Call(name, tuple(map(_as, arguments, kinds)))


def _joined(name: str, arguments: Arguments) -> Call:
    return Call(name, tuple(_as(argument, pa.string()) for argument in arguments))


def _chosen(name: str, arguments: Arguments) -> Call:
    """Give constants the type of the columns in the same call, if that is one and not narrower."""
    kinds = {bound_type(each) for each in arguments if not isinstance(each, Literal)}
    if len(kinds) != 1:
        return Call(name, tuple(arguments))
    kind = kinds.pop()
    constants = [each for each in arguments if isinstance(each, Literal)]
    if all(_fits(bound_type(each), kind) for each in constants):
        arguments = [_as(each, kind) for each in arguments]
    return Call(name, tuple(arguments))


def _of_date(name: str, arguments: Arguments) -> Call:
    day, *rest = arguments
    if family(bound_type(day)) is Family.STRING:
        day = Cast(day, pa.date32())
    return Call(name, (_without_date_cast(day), *rest))


def _of_time(name: str, arguments: Arguments) -> Call:
    time, *rest = arguments
    if family(bound_type(time)) in (Family.STRING, Family.DATE):
        time = Cast(time, _MOMENT)
    return Call(name, (time, *rest))


def _of_moment(name: str, arguments: Arguments) -> Call:
    """Cast dates and wall-clock times to instants, which the function takes."""
    time, *rest = arguments
    return Call(name, (_as(time, _MOMENT) if _is_no_moment(time) else time, *rest))


def _is_no_moment(time: Expr) -> bool:
    return family(bound_type(time)) is not Family.TIMESTAMP


def _of_unit_and_time(name: str, arguments: Arguments) -> Call:
    unit, time = arguments
    return Call(name, (unit, *_of_time(name, [time]).arguments))


def _from_seconds(name: str, arguments: Arguments) -> Call:
    seconds, *rest = arguments
    return Call(name, (_as(seconds, pa.int64()), *(rest or [_PATTERN])))


def _to_seconds(name: str, arguments: Arguments) -> Call:
    """Remove the pattern of an argument that is not a string; add the default one to a string."""
    time, *rest = arguments
    is_text = family(bound_type(time)) is Family.STRING
    return Call(name, (time, *((rest or [_PATTERN]) if is_text else ())))


def _start_of_text(_name: str, arguments: Arguments) -> Call:
    text, count = arguments
    return Call("substring", (text, Literal(1, pa.int32()), count))


def _rounded(name: str, arguments: Arguments) -> Call:
    """Remove the number of digits if it is 0, which is the default."""
    is_plain = len(arguments) == 2 and isinstance(arguments[1], Literal) and arguments[1].value == 0
    return Call(name, tuple(arguments[:1] if is_plain else arguments))


def _whole(name: str, arguments: Arguments) -> Call:
    """Cast numbers narrower than BIGINT and DOUBLE to doubles, which hold all of them."""
    number, *rest = arguments
    kind = bound_type(number)
    is_small = family(kind) in (Family.INTEGER, Family.FLOAT) and kind.bit_width < _LARGE
    return Call(name, (_as(number, pa.float64()) if is_small else number, *rest))


def _without_date_cast(expr: Expr) -> Expr:
    """Replace `CAST(ts AS DATE)` and `to_date(ts)` by `ts`, of which functions take the day."""
    match expr:
        case Cast(Column(_, source) as child, kind) if kind == pa.date32():
            return child if source is not None and family(source) in _TIMES else expr
        case Call(name, (Column(_, source) as child,)) if canonical_name(name) in _TO_DATE:
            return child if source is not None and family(source) in _TIMES else expr
    return expr


def _as(expr: Expr, kind: pa.DataType) -> Expr:
    own = bound_type(expr)
    if own == kind or (family(own) is Family.STRING and family(kind) is Family.STRING):
        return expr
    if isinstance(expr, Literal):
        return cast_literal(expr, kind, _ANY_ZONE)
    return Cast(expr, kind)


def _fits(own: pa.DataType, kind: pa.DataType) -> bool:
    match family(own), family(kind):
        case Family.NULL, _:
            return True
        case Family.INTEGER, Family.INTEGER:
            return bool(own.bit_width <= kind.bit_width)
        case Family.INTEGER, Family.FLOAT:
            return bool(kind == pa.float64())
        case one, other:
            return one is other and (own == kind or one is Family.STRING)


_TO_DATE = ("to_date", "date")
_RULES: dict[str, Callable[[str, Arguments], Call]] = {
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_CHOICES, _chosen),
    **dict.fromkeys(_OF_DATE, _of_date),
    **dict.fromkeys(_OF_TIME, _of_time),
    "concat": _joined,
    "date_format": _of_moment,
    "date_trunc": _of_unit_and_time,
    "from_unixtime": _from_seconds,
    "unix_timestamp": _to_seconds,
    "ceil": _whole,
    "floor": _whole,
    "left": _start_of_text,
    "round": _rounded,
}
