"""Statistics of long text: nulls that Hudi counts may be values that Parquet left out."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from lakedex.index.metadata_table.keys import column_stats_key
from tests.support.damage import Damage
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("s", pa.string())])
LONG = 5_000


@pytest.mark.parametrize(("low", "nulls"), [(None, 3), ("m", 2)])
def test_a_file_whose_long_texts_were_counted_as_nulls_is_not_pruned(tmp_path, low, nulls):
    # case B2: statistics of long strings
    builder = TableBuilder(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="p", indexes=("column_stats",)
    )
    texts = ["a" * LONG, "m", "z" * LONG]
    first = pa.table({"id": ["a", "b", "c"], "s": texts})
    builder.commit([("eu", first), ("us", pa.table({"id": ["d"], "s": ["q"]}))])
    builder.finish()
    damage = Damage(tmp_path / "t")
    chosen = next(each for each in damage.open().snapshot.slices if each.partition == "p=eu")

    def as_hudi(record) -> None:
        bound = None if low is None else {"member6": {"value": low}}
        record["ColumnStatsMetadata"] |= {
            "minValue": bound,
            "maxValue": bound,
            "nullCount": nulls,
            "totalUncompressedSize": 2 * LONG,
        }

    key = column_stats_key("s", chosen.partition, chosen.base.name)
    damage.edit("column_stats", key, as_hudi)
    table = lakedex.open(str(damage.path))
    for question, ids in {"s = 'm'": ["b"], "s > 'y'": ["c"], "s is null": []}.items():
        assert table.to_arrow(question, columns=["id"])["id"].to_pylist() == ids
    # A file that is too small to hide anything is still pruned.
    assert [each.partition for each in table.files("s = 'm'")] == ["p=eu"]
