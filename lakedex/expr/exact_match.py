"""Predicates over columns with one known value per file, such as partition columns.

They are not estimated: the predicate is evaluated on the values, one row per file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.expr.arrays import valid_mask
from lakedex.expr.evaluate import evaluate, true_rows
from lakedex.expr.leaf_match import Subject
from lakedex.expr.tree import Expr, Not, columns_of


@dataclass(frozen=True, slots=True)
class ExactAnswer:
    """Where the predicate is true, where it is false, and where the values are unknown."""

    true: np.ndarray
    false: np.ndarray
    unknown: np.ndarray

    def may_be(self, *, truth: bool) -> np.ndarray:
        """Files in which a row may make the predicate true (or false)."""
        mask: np.ndarray = (self.true if truth else self.false) | self.unknown
        return mask


def match_exactly(
    leaf: Expr, subject: Callable[[Expr], Subject | None], time_zone: str
) -> ExactAnswer | None:
    """The answer for each file; None when a column of the leaf has no exact values."""
    columns = columns_of(leaf)
    found = [subject(column) for column in columns if len(column.path) == 1]
    bounds = [entry.bounds for entry in found if entry is not None and entry.bounds.exact]
    if not bounds or len(bounds) < len(columns):
        return None
    unknown = np.zeros(len(bounds[0]), np.bool_)
    for entry in bounds:
        unknown |= ~entry.known | (~valid_mask(entry.minimum) & ~entry.all_null)
    try:
        values = [entry.minimum for entry in bounds]
        rows = pa.RecordBatch.from_arrays(values, names=[column.path[0] for column in columns])
        true = true_rows(evaluate(leaf, rows, time_zone=time_zone))
        false = true_rows(evaluate(Not(leaf), rows, time_zone=time_zone))
    except (LakedexError, pa.ArrowException):
        return None
    return ExactAnswer(true, false, unknown)
