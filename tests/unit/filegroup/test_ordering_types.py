"""Ordering columns of every type: later versions win, deletes without a value too."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import lakedex
from lakedex.filegroup.log_changes import ordering_values
from tests.support.table_builder import TableBuilder

VALUES = {
    pa.int32(): [1, 2, 3],
    pa.int64(): [1, 2, 3],
    pa.float64(): [1.5, 2.5, 3.5],
    pa.string(): ["a", "b", "c"],
    pa.date32(): [date(2024, 1, day) for day in (1, 2, 3)],
    pa.timestamp("us", "UTC"): [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)],
    pa.decimal128(10, 2): [Decimal("1.25"), Decimal("2.25"), Decimal("3.25")],
}


@pytest.mark.parametrize("data_type", VALUES, ids=str)
def test_event_time_decides_and_a_delete_without_one_is_unconditional(tmp_path, data_type):
    low, middle, high = VALUES[data_type]
    schema = pa.schema([("id", pa.string()), ("at", data_type)])
    builder = TableBuilder(tmp_path / "t", schema, record_key="id", ordering="at", table_type="mor")
    builder.commit([((), pa.table({"id": ["a", "b", "c"], "at": [middle] * 3}, schema))])
    builder.log_commit(updates=pa.table({"id": ["a", "b"], "at": [high, low]}, schema))
    builder.log_commit(deletes=["c"])
    rows = lakedex.open(builder.finish()).to_arrow(columns=["id", "at"]).sort_by("id")
    assert rows.to_pydict() == {"id": ["a", "b"], "at": [high, middle]}


@pytest.mark.parametrize(
    "data_type", [*VALUES, pa.bool_(), pa.binary(), pa.binary(4), pa.time32("ms"), pa.time64("us")]
)
def test_a_missing_ordering_value_of_any_type_is_filled(data_type):
    assert ordering_values(pa.nulls(2, data_type)).null_count == 0
