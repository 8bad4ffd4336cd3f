"""Conditions on `coalesce(a, b)` as conditions on a and b, of which more is known.

`coalesce(a, 0) > 5` is true where `a > 5` is, or where a is null and `0 > 5`. Ranges, null counts
and keys are of columns, so only the second way of saying it leaves files out.
"""

from __future__ import annotations

from collections.abc import Callable

from lakedex.expr.carried import type_of
from lakedex.expr.tree import Call, Expr, IsNull, all_of, any_of

_MOST_CHOICES = 8
"""Each choice makes the tree deeper."""


def spread_choice(subject: Expr, condition: Callable[[Expr], Expr]) -> Expr | None:
    """A condition on a choice as one on what is chosen from, true for the same rows.

    Args:
        subject: What the condition is on, bound.
        condition: Makes the condition of an expression; never true of null.

    Returns:
        None where the subject is no choice.

    Example:
        >>> import pyarrow as pa
        >>> from lakedex.expr.tree import Column, Compare, Literal, Op
        >>> from lakedex.expr.tree_text import tree_text
        >>> a, zero = Column(("a",), pa.int64()), Literal(0, pa.int64())
        >>> choice = Call("coalesce", (a, zero))
        >>> tree_text(spread_choice(choice, lambda each: Compare(Op.GT, each, zero)))
        'a > 0 or (a is null and 0 > 0)'
    """
    if not isinstance(subject, Call) or subject.function != "coalesce":
        return None
    choices = subject.arguments
    types = {type_of(choice) for choice in choices}
    if len(types) > 1 or None in types or len(choices) > _MOST_CHOICES:
        return None
    *before, last = choices
    found = condition(last)
    for choice in reversed(before):
        found = any_of([condition(choice), all_of([IsNull(choice), found])])
    return found
