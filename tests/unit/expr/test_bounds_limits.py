"""Pruning by bounds at its limits: wrong lengths, deep trees, very many files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakedex.errors import InvalidDefinition, InvalidInput
from lakedex.expr.bounds import ColumnBounds, exact_bounds
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import MAX_DEPTH, Column, Compare, In, IsNull, Literal, Not, Op

A = Column(("a",), pa.int64())
THREE = {A: exact_bounds(pa.array([1, 5, 7]))}


def test_bounds_for_another_number_of_files_are_refused():
    with pytest.raises(InvalidInput, match="3 files, not 2"):
        may_match(IsNull(A), THREE, 2)
    with pytest.raises(InvalidInput, match="differ in length"):
        ColumnBounds(pa.int64(), pa.array([1]), pa.array([2]), *(np.zeros(2, np.int64),) * 3)


def test_a_tree_that_is_too_deep_is_refused_and_a_deep_one_is_not():
    leaf = Compare(Op.EQ, A, Literal(5, pa.int64()))
    tree = leaf
    for _ in range(MAX_DEPTH - 4):
        tree = Not(tree)
    assert may_match(tree, THREE, 3).tolist() == [False, True, False]
    for _ in range(10):
        tree = Not(tree)
    with pytest.raises(InvalidDefinition):
        may_match(tree, THREE, 3)


def test_a_hundred_thousand_files_are_judged_at_once():
    count = 100_000
    numbers = pa.array(np.arange(count))
    zeros = np.zeros(count, np.int64)
    entry = ColumnBounds(pa.int64(), numbers, numbers, zeros, zeros + 5, np.ones(count, np.bool_))
    values = tuple(Literal(value, pa.int64()) for value in range(0, count, 100))
    assert may_match(In(A, values), {A: entry}, count).sum() == len(values)
