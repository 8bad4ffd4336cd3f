"""Spark's CAST without ANSI mode, over whole columns: what cannot be converted is null."""

from __future__ import annotations

from lakedex.expr.casting.dispatch import cast
from lakedex.expr.casting.lossy import lost_in_cast

__all__ = ["cast", "lost_in_cast"]
