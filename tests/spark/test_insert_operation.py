"""What an INSERT INTO does, by the settings of several releases of Hudi."""

from __future__ import annotations

import pytest

from lakedex.errors import InvalidInput
from lakedex.spark.sql.inserting import insert_operation

WRITE = "hoodie.datasource.write.operation"
INSERT = "hoodie.spark.sql.insert.into.operation"
MODE, BULK = "hoodie.sql.insert.mode", "hoodie.sql.bulk.insert.enable"
FAILS = {"hoodie.datasource.insert.dup.policy": "fail"}


@pytest.mark.parametrize(
    ("told", "kept", "expected"),
    [
        ({}, {}, ("insert", {})),
        ({INSERT: "UPSERT"}, {}, ("upsert", {})),
        ({INSERT: "bulk_insert"}, {INSERT: "upsert"}, ("bulk_insert", {})),
        ({}, {INSERT: "upsert"}, ("upsert", {})),
        ({WRITE: "upsert", INSERT: "insert"}, {}, ("upsert", {})),
        ({INSERT: "insert"}, {WRITE: "upsert"}, ("insert", {})),
        ({}, {WRITE: "upsert"}, ("upsert", {})),
        ({}, {WRITE: "insert_overwrite_table"}, ("insert", {})),
        ({MODE: "upsert"}, {}, ("upsert", {})),
        ({MODE: "strict"}, {}, ("insert", FAILS)),
        ({MODE: "non-strict"}, {MODE: "upsert"}, ("insert", {})),
        ({MODE: "upsert"}, {INSERT: "insert"}, ("insert", {})),
        ({MODE: "non-strict", BULK: "true"}, {}, ("bulk_insert", {})),
        ({BULK: "true"}, {}, ("bulk_insert", {})),
    ],
)
def test_the_session_goes_before_the_table(told, kept, expected):
    assert insert_operation(told, kept, has_key=True) == expected


def test_without_a_key_rows_are_added():
    assert insert_operation({MODE: "upsert"}, {}, has_key=False) == ("insert", {})


@pytest.mark.parametrize(
    ("told", "kept"),
    [({WRITE: "delete"}, {}), ({INSERT: "merge"}, {}), ({}, {INSERT: "x"}), ({MODE: "lax"}, {})],
)
def test_other_operations_are_refused(told, kept):
    with pytest.raises(InvalidInput, match=r"of an INSERT hoodie.* is one of"):
        insert_operation(told, kept, has_key=True)
