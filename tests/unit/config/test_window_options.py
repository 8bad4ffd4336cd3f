"""The options of a record index of the newest days: what they go with, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakedex.config import TableConfig
from lakedex.config.write_index import Outside, WriteIndex
from lakedex.config.write_options import WriteOptions
from lakedex.errors import InvalidInput
from lakedex.table.spec import TableSpec

DAYS = "lakedex.record.index.window.days"
FORMAT = "lakedex.record.index.window.format"
OUTSIDE = "lakedex.record.index.window.outside"
TYPE = "hoodie.index.type"
RECORD_INDEX = {TYPE: "RECORD_INDEX"}


def table(fields: str = "day", partitions: str = "") -> TableConfig:
    props = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.table.partition.fields": fields,
        "hoodie.table.metadata.partitions": partitions,
    }
    return TableConfig.from_properties(props, "hoodie.properties")


def spec(properties: dict[str, str], partition_by: str = "day") -> TableSpec:
    schema = pa.schema([("id", pa.string()), ("day", pa.string())])
    return TableSpec("t", schema, "id", partition_by=partition_by, properties=properties)


@pytest.mark.parametrize(
    ("index", "lookup"), [("RECORD_INDEX", "GLOBAL_BLOOM"), ("RECORD_LEVEL_INDEX", "BLOOM")]
)
def test_a_window_is_kept_and_no_other_engine_sees_a_record_index(index, lookup):
    options = WriteOptions.resolve(table(), {}, {TYPE: index, DAYS: "30"})
    assert (options.window.days, options.window.outside) == (30, Outside.LOOKUP)
    assert options.lookup_index is WriteIndex[lookup]
    assert "record_index" not in options.metadata.partitions
    kept = options.kept()
    assert (kept[DAYS], kept[OUTSIDE]) == ("30", "lookup")
    again = WriteOptions.resolve(table(), kept, {})
    assert again.window == options.window
    assert again.index_type is options.index_type


def test_a_record_index_that_hudi_made_beside_it_is_kept_in_step():
    kept = WriteOptions.resolve(table(), {}, RECORD_INDEX | {DAYS: "30"}).kept()
    found = table(partitions="files,record_index")
    options = WriteOptions.resolve(found, kept, {}, record_index_partitioned=False)
    assert options.metadata.has("record_index")
    assert options.window.days == 30


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (RECORD_INDEX | {DAYS: "0"}, DAYS),
        (RECORD_INDEX | {DAYS: "a week"}, DAYS),
        (RECORD_INDEX | {DAYS: ""}, DAYS),
        (RECORD_INDEX | {DAYS: "7", OUTSIDE: "ignore"}, OUTSIDE),
        (RECORD_INDEX | {OUTSIDE: "lookup"}, OUTSIDE),
        (RECORD_INDEX | {FORMAT: "yyyy"}, FORMAT),
        ({DAYS: "7"}, "SIMPLE"),
        ({TYPE: "BLOOM", DAYS: "7"}, "BLOOM"),
        (RECORD_INDEX | {DAYS: "7", "hoodie.metadata.record.index.enable": "true"}, "leave one"),
        (RECORD_INDEX | {DAYS: "7", "hoodie.metadata.enable": "false"}, "excludes"),
        (RECORD_INDEX | {"lakedex.record.index.window.dais": "7"}, "did you mean"),
    ],
    ids=str,
)
def test_bad_values_are_refused_by_name(given, named):
    with pytest.raises(InvalidInput, match=named):
        WriteOptions.resolve(table(), {}, given)
    with pytest.raises(InvalidInput, match=named):
        spec(given).resolve()


@pytest.mark.parametrize("text", ["%Y-%m-%d", "dd", "'yyyy", "EEE", "yyyy-QQ"])
def test_a_format_that_gives_no_day_is_refused(text):
    with pytest.raises(InvalidInput, match=FORMAT):
        spec(RECORD_INDEX | {DAYS: "7", FORMAT: text}).resolve()


def test_a_table_without_partitions_has_no_window():
    with pytest.raises(InvalidInput, match="partitions by date"):
        spec(RECORD_INDEX | {DAYS: "7"}, partition_by="").resolve()


def test_a_writer_that_says_otherwise_is_refused():
    kept = WriteOptions.resolve(table(), {}, RECORD_INDEX | {DAYS: "30"}).kept()
    for said in ({DAYS: "31"}, {OUTSIDE: "insert"}):
        with pytest.raises(InvalidInput, match="contradicts"):
            WriteOptions.resolve(table(), kept, said)


@pytest.mark.parametrize("built", [True, False])
def test_a_whole_record_index_does_not_become_a_smaller_one(built):
    kept = WriteOptions.resolve(table(), {}, RECORD_INDEX).kept()
    found = table(partitions="files,record_index" if built else "")
    with pytest.raises(InvalidInput, match=DAYS):
        WriteOptions.resolve(found, kept if not built else {}, RECORD_INDEX | {DAYS: "7"})
