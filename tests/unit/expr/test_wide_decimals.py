"""Decimals with more than the 28 digits to which Python's arithmetic rounds."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from lakedex.expr import bind_predicate, parse_predicate
from lakedex.expr.evaluate import filter_table

LARGEST = "9" * 28 + ".99"


@pytest.mark.parametrize(
    "predicate",
    [
        f"d = {LARGEST}",
        f"d = {LARGEST}0",
        f"d >= {LARGEST}0",
        f"d in (1.000, {LARGEST}0)",
        f"d = cast('{LARGEST}' as decimal(30, 2))",
        f"-{LARGEST}0 < d and d > 1",
    ],
)
def test_the_largest_value_of_a_wide_decimal_is_found(predicate):
    # case B8: decimal precision and scale
    rows = pa.table({"d": pa.array([Decimal(LARGEST)], pa.decimal128(30, 2))})
    bound = bind_predicate(parse_predicate(predicate), rows.schema)
    assert filter_table(rows, bound).num_rows == 1
