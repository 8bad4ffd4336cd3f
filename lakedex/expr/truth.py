"""The three truth values as constants."""

from __future__ import annotations

import pyarrow as pa

from lakedex.expr.tree import Literal

TRUE = Literal(value=True, type=pa.bool_())
"""Keeps every row."""

FALSE = Literal(value=False, type=pa.bool_())
"""Keeps no row."""

NULL = Literal(value=None, type=pa.bool_())
"""Keeps no row either, and neither does NOT over it."""


def truth(*, value: bool) -> Literal:
    """`TRUE` or `FALSE`.

    Example:
        >>> truth(value=True).value
        True
    """
    return TRUE if value else FALSE
