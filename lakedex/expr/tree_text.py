"""A predicate tree on one line, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

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
    """What a tree says; `?` stands for what is not known.

    Example:
        >>> from lakedex.expr import parse_predicate
        >>> tree_text(parse_predicate("city = 'austin' AND fare > 20"))
        "city = 'austin' and fare > 20"
    """
    return "-" if expr is None else _TEXTS[type(expr)](expr)


def _inner(expr: Expr) -> str:
    text = tree_text(expr)
    return f"({text})" if isinstance(expr, And | Or) else text


def _list(children: Iterable[Expr]) -> str:
    return ", ".join(map(tree_text, children))


def _value_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return repr(value) if isinstance(value, str | bytes) else str(value)


_TEXTS: dict[type[Expr], Callable[[Any], str]] = {
    Column: lambda own: own.name,
    Literal: lambda own: _value_text(own.value),
    Cast: lambda own: f"cast({tree_text(own.child)}, {own.type})",
    Call: lambda own: f"{own.function}({_list(own.arguments)})",
    Compare: lambda own: f"{tree_text(own.left)} {own.op.value} {tree_text(own.right)}",
    In: lambda own: f"{tree_text(own.child)} in ({', '.join(sorted(map(tree_text, own.values)))})",
    IsNull: lambda own: f"{tree_text(own.child)} is null",
    IsNotNull: lambda own: f"{tree_text(own.child)} is not null",
    Like: lambda own: f"{tree_text(own.child)} like {own.pattern!r} escape {own.escape!r}",
    StartsWith: lambda own: f"{tree_text(own.child)} starts {own.prefix!r}",
    Not: lambda own: f"not ({tree_text(own.child)})",
    And: lambda own: " and ".join(map(_inner, own.children)),
    Or: lambda own: " or ".join(map(_inner, own.children)),
    Unknown: lambda _: "?",
}
