"""hudi-rs and lakedex read the same rows from the tables that real Hudi wrote."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hudi import HudiTable

import lakedex
from tests.support.golden import golden_names

# What hudi-rs 0.5.0 cannot read, with the reason; reading one of them rightly fails the test.
CANNOT_READ = {
    "bucket_consistent": "drops file groups without a base file: 0 of 230 rows",
    "cow_nonpartitioned": "panics on a column of type local-timestamp-micros",
    "mor_nonpartitioned": "panics on a column of type local-timestamp-micros",
    "schema_evolution": "finds columns by name, so a renamed one is null in older files",
    "vectors_blobs_cow": "gives vectors as bytes",
    "vectors_blobs_mor": "gives vectors as bytes, and up on the enum of a blob in a log block",
}
KEY = ("_hoodie_partition_path", "_hoodie_record_key")


def rows_by_hudi_rs(path: str) -> list[dict] | None:
    """The sorted rows, None where hudi-rs gives up."""
    try:
        batches = HudiTable(path).read()
    except BaseException as error:  # a Rust panic is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return None
    return in_order(pa.Table.from_batches(batches)) if batches else []


def in_order(rows: pa.Table) -> list[dict]:
    return sorted(rows.to_pylist(), key=lambda row: [row[name] for name in KEY])


@pytest.mark.parametrize("name", golden_names())
def test_both_readers_give_the_same_rows_of_a_golden_table(golden, name):
    path = golden(name).path
    ours = lakedex.open(path).to_arrow()
    theirs = rows_by_hudi_rs(path)
    if name in CANNOT_READ:
        assert theirs != in_order(ours), f"hudi-rs reads {name} now: {CANNOT_READ[name]}"
        return
    assert theirs == in_order(ours)
