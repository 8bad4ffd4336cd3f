"""Catalyst's functions as those of the tree, where both give the same for every value.

Catalyst has a class for each function, and the optimiser rewrites many functions: `year(ts)`
arrives as `Year(Cast(ts as date))`. A cast to DATE that the tree's function does by itself is left
out again, so that an index on the function is recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from lakedex.expr.bind import bound_type
from lakedex.expr.coercion import Family, family
from lakedex.expr.functions.strings import SPLIT_ITEM
from lakedex.expr.tree import Call, Cast, Column, Expr, Literal
from lakedex.spark.catalyst.columns import fails
from lakedex.spark.catalyst.terms import (
    FilterNode,
    NotTranslatable,
    Rule,
    Term,
    TranslationContext,
    arrow_type,
    failures_of,
    plain_type,
    same_meaning,
)

_WHOLE_REST = 2**31 - 1
Arguments = Callable[[FilterNode, list[Expr], list[pa.DataType]], list[Expr]]


def _as_given(_node: FilterNode, given: list[Expr], _types: list[pa.DataType]) -> list[Expr]:
    return given


def _numbers(node: FilterNode, given: list[Expr], _types: list[pa.DataType]) -> list[Expr]:
    if node.mode == "TRY":
        raise NotTranslatable(f"function {node.kind} in try mode")
    return given


def _texts(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    if family(types[0]) is not Family.STRING:
        raise NotTranslatable(f"function {node.kind} of {types[0]}")
    if any(not isinstance(each, Literal) for each in given[1:]):
        raise NotTranslatable(f"function {node.kind} with more than one column")
    return given


def _joined_texts(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    if any(family(kind) is not Family.STRING for kind in types):
        raise NotTranslatable(f"function {node.kind} of {types[0]}")
    return given


def _trimmed(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    if any(family(kind) is not Family.STRING for kind in types):
        raise NotTranslatable(f"function {node.kind} of {types[0]}")
    return _texts(node, given, types)


def _replaced(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    *texts, start = _texts(node, given, types)
    if not isinstance(start, Literal) or start.value != 1:
        raise NotTranslatable(f"function {node.kind} that does not begin at the beginning")
    return texts


def _rounded(node: FilterNode, given: list[Expr], _types: list[pa.DataType]) -> list[Expr]:
    number, digits = given
    _constant(node, digits)
    return [number] if isinstance(digits, Literal) and digits.value == 0 else given


def _substring(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    text, *bounds = _texts(node, given, types)
    whole_rest = isinstance(bounds[-1], Literal) and bounds[-1].value == _WHOLE_REST
    return [text, *(bounds[:1] if whole_rest else bounds)]


def _of_date(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    if family(types[0]) is not Family.DATE:
        raise NotTranslatable(f"function {node.kind} of {types[0]}")
    return [_without_date_cast(each) for each in given]


def _of_time(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    if family(types[0]) not in (Family.TIMESTAMP, Family.TIMESTAMP_NTZ):
        raise NotTranslatable(f"function {node.kind} of {types[0]}")
    return given


def _with_unit_last(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    _constant(node, given[1])
    return _of_date(node, given, types)


def _with_unit_first(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    _constant(node, given[0])
    _of_time(node, given[1:], types[1:])
    return given


def _formatted(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    _constant(node, given[1])
    return given if node.kind == "FromUnixTime" else _of_time(node, given, types)


def _parsed(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    _constant(node, given[1])
    return _texts(node, given, types)


def _seconds(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    if family(types[0]) is Family.STRING:
        return _parsed(node, given, types)
    if family(types[0]) not in (Family.DATE, Family.TIMESTAMP):
        raise NotTranslatable(f"function {node.kind} of {types[0]}")
    # The pattern is for texts only.
    return given[:1]


def _of_moment(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    if family(types[0]) is not Family.TIMESTAMP:
        raise NotTranslatable(f"function {node.kind} of {types[0]}")
    return given


def _of_whole(node: FilterNode, given: list[Expr], types: list[pa.DataType]) -> list[Expr]:
    if family(types[0]) is not Family.INTEGER:
        raise NotTranslatable(f"function {node.kind} of {types[0]}")
    return given


def _constant(node: FilterNode, expr: Expr) -> None:
    if not isinstance(expr, Literal) or expr.value is None:
        raise NotTranslatable(f"function {node.kind} with a format that is no constant")


def _without_date_cast(expr: Expr) -> Expr:
    """`CAST(ts AS DATE)` as `ts`, for functions that take the day of a timestamp by themselves."""
    if isinstance(expr, Cast) and isinstance(expr.child, Column) and expr.type == pa.date32():
        kind = expr.child.type
        if kind is not None and pa.types.is_timestamp(kind):
            return expr.child
    return expr


def _split(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    """A list of texts, which only the choice of one of them makes a value."""
    text, pattern, limit = (child.expr for child in children)
    _texts(node, [text, pattern], [plain_type(children[0], f"function {node.kind}")])
    if not isinstance(limit, Literal) or limit.value != -1:
        raise NotTranslatable(f"function {node.kind} with a limit")
    return Term(Call("split", (text, pattern)), None, failures_of(children))


def _part_of_split(node: FilterNode, children: list[Term], _context: TranslationContext) -> Term:
    """Only of texts that were split; in ANSI mode a part that is not there is an error."""
    parts, place = (child.expr for child in children)
    if not isinstance(parts, Call) or parts.function != "split" or not isinstance(place, Literal):
        raise NotTranslatable(f"function {node.kind} of a list")
    call = Call(SPLIT_ITEM, (*parts.arguments, Literal(place.value, pa.int32())))
    failures = failures_of(children)
    if True in node.switches:
        failures += (fails(parts.arguments[0], call),)
    return Term(call, pa.string(), failures)


def _rule(name: str, arguments: Arguments, *, patterned: bool = False) -> Rule:
    def translate(node: FilterNode, children: list[Term], context: TranslationContext) -> Term:
        context.check_zone(node)
        if patterned and context.legacy_times:
            raise NotTranslatable(f"function {node.kind} with the patterns of Spark 2")
        types = [plain_type(child, f"function {node.kind}") for child in children]
        call = Call(name, tuple(arguments(node, [child.expr for child in children], types)))
        kind = arrow_type(node.type_name)
        if kind is None or not same_meaning(bound_type(call), kind):
            raise NotTranslatable(f"function {node.kind} that gives {node.type_name}")
        failures = failures_of(children)
        if patterned and node.switches == (True,) and family(types[0]) is Family.STRING:
            failures += (fails(children[0].expr, call),)
        return Term(call, kind, failures)

    return translate


_NUMBERS = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
    "IntegralDivide": "div",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
    "BitwiseNot": "~",
    "UnaryMinus": "negative",
    "Abs": "abs",
    "Floor": "floor",
    "Ceil": "ceil",
}
_TEXTS = {
    "Upper": "upper",
    "Lower": "lower",
    "Length": "length",
    "OctetLength": "octet_length",
    "Reverse": "reverse",
    "StringReplace": "replace",
    "StringLPad": "lpad",
    "StringRPad": "rpad",
    "EndsWith": "endswith",
    "Contains": "contains",
    "RLike": "rlike",
}
_DATES = {
    "Year": "year",
    "Quarter": "quarter",
    "Month": "month",
    "DayOfMonth": "dayofmonth",
    "DayOfWeek": "dayofweek",
    "WeekDay": "weekday",
    "DayOfYear": "dayofyear",
    "WeekOfYear": "weekofyear",
    "DateAdd": "date_add",
    "DateSub": "date_sub",
    "DateDiff": "datediff",
    "LastDay": "last_day",
}
_MOMENTS = {
    "SecondsToTimestamp": "timestamp_seconds",
    "MillisToTimestamp": "timestamp_millis",
    "MicrosToTimestamp": "timestamp_micros",
    "DateFromUnixDate": "date_from_unix_date",
}
_COUNTS = {
    "UnixSeconds": "unix_seconds",
    "UnixMillis": "unix_millis",
    "UnixMicros": "unix_micros",
}

FUNCTIONS: Mapping[str, Rule] = {
    **{kind: _rule(name, _numbers) for kind, name in _NUMBERS.items()},
    **{kind: _rule(name, _texts) for kind, name in _TEXTS.items()},
    **{kind: _rule(name, _of_date) for kind, name in _DATES.items()},
    **{kind: _rule(name, _of_whole) for kind, name in _MOMENTS.items()},
    **{kind: _rule(name, _of_moment) for kind, name in _COUNTS.items()},
    "UnixDate": _rule("unix_date", _as_given),
    "StringTrim": _rule("trim", _trimmed),
    "StringTrimLeft": _rule("ltrim", _trimmed),
    "StringTrimRight": _rule("rtrim", _trimmed),
    "RegExpExtract": _rule("regexp_extract", _texts),
    "RegExpReplace": _rule("regexp_replace", _replaced),
    "StringSplit": _split,
    "GetArrayItem": _part_of_split,
    "Concat": _rule("concat", _joined_texts),
    "Substring": _rule("substring", _substring),
    "Hour": _rule("hour", _of_time),
    "Minute": _rule("minute", _of_time),
    "Second": _rule("second", _of_time),
    "TruncDate": _rule("trunc", _with_unit_last),
    "TruncTimestamp": _rule("date_trunc", _with_unit_first),
    "DateFormatClass": _rule("date_format", _formatted, patterned=True),
    "FromUnixTime": _rule("from_unixtime", _formatted, patterned=True),
    "GetTimestamp": _rule("to_timestamp", _parsed, patterned=True),
    "UnixTimestamp": _rule("unix_timestamp", _seconds, patterned=True),
    "ToUnixTimestamp": _rule("unix_timestamp", _seconds, patterned=True),
    "Round": _rule("round", _rounded),
    "Coalesce": _rule("coalesce", _as_given),
    "Greatest": _rule("greatest", _as_given),
    "Least": _rule("least", _as_given),
}
"""The rule of every class that is translated to a function of the tree."""
