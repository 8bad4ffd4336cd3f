"""Spark's CAST without ANSI mode, over whole columns: what cannot be converted is null."""

from __future__ import annotations

from lakedex.expr.casting.dispatch import cast

__all__ = ["cast"]
