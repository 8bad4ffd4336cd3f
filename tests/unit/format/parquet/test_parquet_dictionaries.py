"""Which columns of a base file are written with a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.format.parquet import write_base_file
from lakedex.format.parquet.writer import seldom_repeats

ROWS = 5_000


def _written(columns: dict[str, object]) -> tuple[pq.FileMetaData, pa.Table, pa.Buffer]:
    table, sink = pa.table(columns), pa.BufferOutputStream()
    metadata = write_base_file(table, sink, avro_schema_text="{}")
    return metadata, table, sink.getvalue()


def _has_dictionary(metadata: pq.FileMetaData) -> dict[str, bool]:
    group = metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {column.path_in_schema: column.has_dictionary_page for column in columns}


def test_values_that_seldom_repeat_are_written_plainly() -> None:
    numbers = np.arange(ROWS)
    rng = np.random.default_rng(1)
    metadata, table, file = _written(
        {
            "key": np.char.add("ride-", numbers.astype(str)),
            "fare": rng.random(ROWS),
            "city": np.char.add("city-", (numbers % 50).astype(str)),
            "sorted": numbers // 5,
            "half_null": pa.array(numbers, mask=numbers % 2 == 0),
            "tags": pa.array([["a"]] * ROWS),
            "place": pa.array([{"at": {"x": 1}}] * ROWS),
            "seen": pa.array([[("a", [1])]] * ROWS, pa.map_(pa.string(), pa.list_(pa.int64()))),
        }
    )
    assert _has_dictionary(metadata) == {
        "key": False,
        "fare": False,
        "city": True,
        "sorted": True,
        "half_null": True,
        "tags.list.element": True,
        "place.at.x": True,
        "seen.key_value.key": True,
        "seen.key_value.value.list.element": True,
    }
    assert pq.read_table(pa.BufferReader(file)).equals(table)


def test_few_rows_are_not_looked_at() -> None:
    assert not seldom_repeats(pa.chunked_array([pa.array(range(100))]))


def test_values_spread_over_chunks_are_sampled_as_one() -> None:
    half = pa.array(range(ROWS))
    assert not seldom_repeats(pa.chunked_array([half, half, half, half]))
    assert seldom_repeats(pa.chunked_array([half, pa.array(range(ROWS, 2 * ROWS))]))
