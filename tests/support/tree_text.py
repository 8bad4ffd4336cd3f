"""A predicate tree on one line, for tables of expected trees."""

from __future__ import annotations

from datetime import datetime

from lakedex.expr.tree import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    Unknown,
)


def tree_text(expr: Expr | None) -> str:
    match expr:
        case None:
            return "-"
        case Column():
            return expr.name
        case Literal(value):
            return _value_text(value)
        case Cast(child, kind):
            return f"cast({tree_text(child)}, {kind})"
        case Call(name, arguments):
            return f"{name}({_list(arguments)})"
        case Compare(op, left, right):
            return f"{tree_text(left)} {op.value} {tree_text(right)}"
        case In(child, values):
            return f"{tree_text(child)} in ({', '.join(sorted(map(tree_text, values)))})"
        case IsNull(child):
            return f"{tree_text(child)} is null"
        case IsNotNull(child):
            return f"{tree_text(child)} is not null"
        case Like(child, pattern, escape):
            return f"{tree_text(child)} like {pattern!r} escape {escape!r}"
        case StartsWith(child, prefix):
            return f"{tree_text(child)} starts {prefix!r}"
        case Not(child):
            return f"not ({tree_text(child)})"
        case And(children):
            return " and ".join(map(_inner, children))
        case Or(children):
            return " or ".join(map(_inner, children))
        case Unknown():
            return "?"
    raise AssertionError(expr)


def _inner(expr: Expr) -> str:
    text = tree_text(expr)
    return f"({text})" if isinstance(expr, And | Or) else text


def _list(children: tuple[Expr, ...]) -> str:
    return ", ".join(map(tree_text, children))


def _value_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return repr(value) if isinstance(value, str | bytes) else str(value)
