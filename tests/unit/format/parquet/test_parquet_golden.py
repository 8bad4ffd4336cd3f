"""Footers and bloom filters of every base file that Hudi wrote."""

from __future__ import annotations

import base64
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakedex.format.bloom import BloomFilter
from lakedex.format.parquet import read_footer

GOLDEN = sorted(path.stem for path in (Path(__file__).parents[3] / "golden").glob("*.zip"))
LOG_FILES_ONLY = "bucket_consistent"


@pytest.mark.parametrize("name", GOLDEN)
def test_footer_filters_hold_every_record_key(golden, name):
    files = [
        path for path in Path(golden(name).path).rglob("*.parquet") if ".hoodie" not in path.parts
    ]
    assert files or name == LOG_FILES_ONLY
    for path in files:
        footer = read_footer(path)
        keys = pq.read_table(path, columns=["_hoodie_record_key"]).column(0)
        assert footer.row_count == len(keys)
        assert footer.bloom is not None
        assert footer.bloom.contains(keys).all()
        assert footer.bloom.encode().encode() == footer.bloom_text
        assert (footer.min_key, footer.max_key) == (min(keys.to_pylist()), max(keys.to_pylist()))


@pytest.mark.parametrize("name", ["cow_trips_all_indexes", "mor_trips_all_indexes"])
def test_metadata_filters_hold_the_keys_of_a_base_file(golden, name):
    table = golden(name)
    files = [path for path in Path(table.path).rglob("*.parquet") if ".hoodie" not in path.parts]
    keys = [pq.read_table(path, columns=["_hoodie_record_key"]).column(0) for path in files]
    rows = table.expected["metadata_rows"]["bloom_filters"]
    assert rows
    for row in rows:
        stored = row["BloomFilterMetadata"]
        bloom = BloomFilter.decode(
            base64.b64decode(stored["bloomFilter"]), type_code=stored["type"]
        )
        assert any(bloom.contains(column).all() for column in keys)
