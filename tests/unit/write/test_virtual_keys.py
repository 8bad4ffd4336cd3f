"""Tables without meta columns: what their files hold, and what cannot be had with them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakedex
from lakedex.config import keys
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.format.parquet import read_footer
from lakedex.services.compaction import compact_table
from lakedex.storage.source import MemorySource
from lakedex.table.spec import TableSpec
from tests.support.write_lab import SCHEMA, Lab, row, source

VIRTUAL = {keys.POPULATE_META_FIELDS: "false"}


def base_files(lab: Lab) -> list[Path]:
    return sorted(Path(lab.path).glob("*/*.parquet"))


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
def test_files_hold_the_meta_columns_without_values(tmp_path, kind, index):
    lab = Lab(tmp_path, kind, index, properties=VIRTUAL)
    lab.writer.upsert(source([row("a", "p", 1), row("b", "q", 1)]))
    lab.writer.upsert(source([row("a", "p", 2, 5.0), row("c", "q", 1)]))
    lab.writer.delete(source([row("b", "q", 1)]))
    if kind == "mor":
        compact_table(lab.writer)
    lab.holds([row("a", "p", 2, 5.0), row("c", "q", 1)], "id = 'a'", "x = 5.0")
    for path in base_files(lab):
        table = pq.read_table(path)
        assert table.column_names[:5] == [
            *("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key"),
            *("_hoodie_partition_path", "_hoodie_file_name"),
        ]
        assert all(table.column(at).null_count == table.num_rows for at in range(5))
        footer = read_footer(MemorySource(path.read_bytes(), str(path)))
        assert (footer.bloom_text, footer.min_key, footer.max_key) == (None, None, None)
    table = lakedex.open(lab.path)
    assert table.schema.names == SCHEMA.names
    # Asked for by name, the key is computed; the others have no value.
    shown = table.to_arrow(columns=["_hoodie_record_key", "_hoodie_commit_time"]).to_pylist()
    assert sorted(each["_hoodie_record_key"] for each in shown) == ["a", "c"]
    assert {each["_hoodie_commit_time"] for each in shown} == {None}


def test_column_stats_leave_the_meta_columns_out(tmp_path):
    lab = Lab(tmp_path, properties=VIRTUAL)
    lab.writer.upsert(source([row("a", "p", 1)]))
    records = lakedex.open(lab.path).metadata("column_stats")
    names = {each["columnName"] for each in records["ColumnStatsMetadata"].to_pylist()}
    assert names == set(SCHEMA.names)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"hoodie.index.type": "BLOOM"}, r"hoodie\.index\.type=BLOOM"),
        ({"hoodie.index.type": "GLOBAL_BLOOM"}, r"hoodie\.index\.type=GLOBAL_BLOOM"),
        ({"hoodie.metadata.index.bloom.filter.enable": "true"}, "bloom_filters"),
        ({"hoodie.index.type": "RECORD_INDEX"}, "GLOBAL_RECORD_LEVEL_INDEX"),
        ({"hoodie.metadata.record.index.enable": "true"}, "record_index"),
    ],
)
def test_indexes_of_keys_are_refused_without_meta_columns(options, named):
    spec = TableSpec("t", SCHEMA, "id", "ver", "p", properties=VIRTUAL | options)
    with pytest.raises(UnsupportedFeature, match=named):
        spec.resolve()


def test_a_record_key_is_needed():
    with pytest.raises(InvalidInput, match="needs a record key"):
        TableSpec("t", SCHEMA, (), properties=VIRTUAL).resolve()


def test_the_setting_of_a_table_stays(tmp_path):
    for number, (kept, given) in enumerate((("false", "true"), ("true", "false"))):
        lab = Lab(
            tmp_path / str(number),
            properties={keys.POPULATE_META_FIELDS: kept},
            **{keys.POPULATE_META_FIELDS: given},
        )
        with pytest.raises(InvalidInput, match="contradicts"):
            lab.writer.upsert(source([row("a", "p", 1)]))
        assert lab.rows() == []


def test_changes_are_refused(tmp_path):
    lab = Lab(tmp_path, properties=VIRTUAL)
    lab.writer.upsert(source([row("a", "p", 1)]))
    with pytest.raises(UnsupportedFeature, match="without meta columns"):
        lakedex.open(lab.path).changes("000")


def test_keys_of_a_complex_generator_carry_their_column(tmp_path):
    properties = VIRTUAL | {"hoodie.table.keygenerator.type": "COMPLEX"}
    lab = Lab(tmp_path, "cow", properties=properties)
    lab.writer.upsert(source([row("a", "p", 1), row("b", "p", 1)]))
    lab.writer.delete(source([row("a", "p", 1)]))
    lab.holds([row("b", "p", 1)])
    found = lakedex.open(lab.path).to_arrow(columns=["_hoodie_record_key"])
    assert found["_hoodie_record_key"].to_pylist() == ["id:b"]


@pytest.mark.parametrize(
    ("key", "generator", "named"),
    [("id", "COMPLEX", "key generator COMPLEX"), ("day", "SIMPLE", r"date32.*\(column day\)")],
)
def test_keys_that_hudi_computes_otherwise_are_refused_where_logs_are_merged(key, generator, named):
    schema = SCHEMA.append(pa.field("day", pa.date32()))
    properties = VIRTUAL | {"hoodie.table.keygenerator.type": generator}
    with pytest.raises(UnsupportedFeature, match=named):
        TableSpec("t", schema, key, "ver", "p", "mor", properties=properties).resolve()
