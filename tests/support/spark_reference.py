"""Predicates evaluated row by row, by the rules of Spark SQL: the judge of the fast way."""

from __future__ import annotations

import math

from lakedex.expr.tree import (
    And,
    Column,
    Compare,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Op,
    Or,
    StartsWith,
)


def order_key(value):
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def reference(expr, row):
    match expr:
        case Column(path):
            return row[path[0]]
        case Literal(value):
            return value
        case Compare(op, left, right):
            return ref_compare(op, reference(left, row), reference(right, row))
        case In(child, values):
            if not values:
                return False
            answers = [ref_compare(Op.EQ, reference(child, row), v.value) for v in values]
            return ref_or(answers)
        case IsNull(child):
            return reference(child, row) is None
        case IsNotNull(child):
            return reference(child, row) is not None
        case StartsWith(child, prefix):
            value = reference(child, row)
            return None if value is None else value.startswith(prefix)
        case Like(child, pattern):
            value = reference(child, row)
            return None if value is None else ref_like(value, pattern)
        case And(children):
            answers = [reference(child, row) for child in children]
            return False if False in answers else (None if None in answers else True)
        case Or(children):
            return ref_or([reference(child, row) for child in children])
        case Not(child):
            answer = reference(child, row)
            return None if answer is None else not answer
    raise AssertionError(expr)


def ref_or(answers):
    return True if True in answers else (None if None in answers else False)


def ref_compare(op, left, right):
    if op is Op.EQ_NULL_SAFE:
        if left is None or right is None:
            return left is None and right is None
        op = Op.EQ
    if left is None or right is None:
        return None
    a, b = order_key(left), order_key(right)
    return {
        Op.EQ: a == b,
        Op.NE: a != b,
        Op.LT: a < b,
        Op.LTE: a <= b,
        Op.GT: a > b,
        Op.GTE: a >= b,
    }[op]


def ref_like(value, pattern):
    if not pattern:
        return not value
    head = pattern[0]
    if head == "%":
        return any(ref_like(value[i:], pattern[1:]) for i in range(len(value) + 1))
    if head == "_":
        return bool(value) and ref_like(value[1:], pattern[1:])
    if head == "\\":
        pattern = pattern[1:]
    return value[:1] == pattern[0] and ref_like(value[1:], pattern[1:])
