"""Which columns of a base file have statistics: those that no reader can be misled by."""

from __future__ import annotations

import math

import pyarrow as pa

from lakedex.format.parquet import write_base_file


def ranges(table: pa.Table) -> dict[str, tuple | None]:
    metadata = write_base_file(table, pa.BufferOutputStream(), avro_schema_text="{}")
    chunks = [metadata.row_group(0).column(number) for number in range(metadata.num_columns)]
    return {
        chunk.path_in_schema: chunk.statistics and (chunk.statistics.min, chunk.statistics.max)
        for chunk in chunks
    }


def test_a_column_with_a_nan_has_no_statistics_and_the_others_keep_theirs():  # case B1
    table = pa.table({"a": [1.0, math.nan], "b": [1.0, 2.0], "s": ["x", "y"]})
    assert ranges(table) == {"a": None, "b": (1.0, 2.0), "s": ("x", "y")}


def test_floats_inside_lists_maps_and_structs_have_no_statistics():
    table = pa.table({"l": [[1.0], [math.nan]], "n": [1, 2], "t": [{"x": {"y": 1.0}}, None]})
    assert ranges(table) == {"l.list.element": None, "n": (1, 2), "t.x.y": None}


def test_without_floats_every_column_has_statistics():
    table = pa.table({"l": [[1], [2]], "s": ["x", None]})
    assert ranges(table) == {"l.list.element": (1, 2), "s": ("x", "x")}
