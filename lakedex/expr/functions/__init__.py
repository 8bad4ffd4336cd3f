"""Scalar functions by their Spark names: types, evaluation on columns, and order for pruning."""

from __future__ import annotations

from lakedex.expr.functions.registry import canonical_name, function, function_names
from lakedex.expr.functions.spec import Arguments, FunctionSpec, Order, constants_of

__all__ = [
    "Arguments",
    "FunctionSpec",
    "Order",
    "canonical_name",
    "constants_of",
    "function",
    "function_names",
]
