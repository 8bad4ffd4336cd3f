"""Which functions keep order, over which ranges: the proofs, one entry for each function.

`Order` of a function's specification says that it never falls between two given ends. Here stands
what more is proved, and what is not listed is not believed:

* *without an end*: over all values from a given one on, or up to it. A function of this list is
  never null and never wraps around, however far away the value is. Text of times has one
  exception, which is told: years from 10000 on begin with a plus sign, before all digits. Years
  before 0 begin with a minus sign, before all digits as well, where they belong.
* *within a period*: months rise within one year, hours within one day, and then start again.

Whole numbers need no proof of the first kind: the last value of their type is an end, and where
it wraps around, as seconds do in `from_unixtime`, a range without that end proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Final

import pyarrow as pa

from lakedex.expr.functions import canonical_name
from lakedex.expr.ranges import Form
from lakedex.expr.temporal.pattern import parse_pattern
from lakedex.expr.tree import Call, Cast, Expr, Literal

_TIMES: Final = frozenset([Form.TIME, Form.ZONED_TIME])
_DAYS: Final = _TIMES | {Form.DATE}
_MOST_DAYS: Final = 10**9
"""The days of the last timestamp are some 10^8, so the sum stays below 2^31."""


def _few_days(call: Call) -> bool:
    days = call.arguments[1]
    return (
        isinstance(days, Literal) and isinstance(days.value, int) and abs(days.value) < _MOST_DAYS
    )


def _always(_call: Call) -> bool:
    return True


def _unit(name: str) -> Literal:
    return Literal(name, pa.string())


_Proof = tuple[frozenset[Form], Callable[[Call], bool]]
_WITHOUT_END: Final[dict[str, _Proof]] = {
    "date": (_DAYS, _always),
    "date_add": (_TIMES, _few_days),
    "date_format": (_DAYS, _always),
    "date_sub": (_TIMES, _few_days),
    "left": (frozenset([Form.TEXT]), _always),
    "substring": (frozenset([Form.TEXT]), _always),
    "to_date": (_DAYS, _always),
    "to_timestamp": (frozenset([Form.ZONED_TIME]), _always),
    "unix_timestamp": (frozenset([Form.ZONED_TIME]), _always),
    "year": (_DAYS, _always),
}
_PERIODS: Final[dict[str, Callable[[Expr], Call]]] = {
    "dayofmonth": lambda operand: Call("trunc", (operand, _unit("month"))),
    "dayofyear": lambda operand: Call("year", (operand,)),
    "hour": lambda operand: Call("to_date", (operand,)),
    "minute": lambda operand: Call("date_trunc", (_unit("hour"), operand)),
    "month": lambda operand: Call("year", (operand,)),
    "quarter": lambda operand: Call("year", (operand,)),
    "second": lambda operand: Call("date_trunc", (_unit("minute"), operand)),
    "weekday": lambda operand: Call("trunc", (operand, _unit("week"))),
}


def rises_without_end(expr: Expr, form: Form | None) -> bool:
    """Whether an expression that keeps order does so up to any value of its operand.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> rises_without_end(Call("year", (Column(("ts",)),)), Form.ZONED_TIME)
        True
        >>> rises_without_end(Call("from_unixtime", (Column(("n",)),)), Form.INTEGER)
        False
    """
    if isinstance(expr, Cast):
        return form in _TIMES and (pa.types.is_date(expr.type) or expr.type == pa.int64())
    if not isinstance(expr, Call):
        return False
    forms, holds = _WITHOUT_END.get(canonical_name(expr.function), (frozenset(), _always))
    return form in forms and holds(expr)


def far_years(expr: Expr) -> str | None:
    """How the text of years begins that sort before all others; None where there is no such text.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> far_years(Call("date_format", (Column(("ts",)), Literal("yyyy-MM"))))
        '+'
    """
    if not isinstance(expr, Call) or canonical_name(expr.function) != "date_format":
        return None
    pattern = expr.arguments[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    leading = takewhile(lambda token: isinstance(token, str), parse_pattern(pattern.value))
    return "".join([*map(str, leading), "+"])


def period_of(expr: Expr, operand: Expr) -> Call | None:
    """What must be the same at both ends for the expression to rise between them.

    Example:
        >>> from lakedex.expr.tree import Column
        >>> ts = Column(("ts",))
        >>> period_of(Call("month", (ts,)), ts).function
        'year'
    """
    if not isinstance(expr, Call):
        return None
    period = _PERIODS.get(canonical_name(expr.function))
    return None if period is None else period(operand)
