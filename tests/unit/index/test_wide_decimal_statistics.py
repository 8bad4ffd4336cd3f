"""Statistics of decimals with more digits than Python's decimals round to by themselves."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import lakedex
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("d", pa.decimal128(38, 3))])
WIDE = "12345678901234567890123456789012345"


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("op", ["=", "<=", ">=", "<=>"])
def test_the_bounds_of_wide_decimals_do_not_exclude_their_own_values(tmp_path, sign, op):
    # case B8: decimal precision and scale
    values = [f"{sign}{WIDE}.{end}" for end in ("677", "678", "679")]
    builder = TableBuilder(
        tmp_path / "t",
        SCHEMA,
        record_key="id",
        partition_by="p",
        indexes=("column_stats", "partition_stats"),
    )
    builder.commit(
        [(value[-3:], pa.table({"id": [value], "d": [Decimal(value)]})) for value in values]
    )
    table = lakedex.open(builder.finish())
    for value in values:
        found = table.to_arrow(f"d {op} {value}", columns=["id"])["id"].to_pylist()
        assert value in found
    assert len(table.files(f"d = {values[1]}")) == 1
