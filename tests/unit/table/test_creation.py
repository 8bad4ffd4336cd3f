"""Creating tables: the very properties that Hudi writes, or an error and no byte changed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from lakedex.config import parse_properties
from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.schema import arrow_schema, parse_avro_record
from lakedex.schema.arrow_types import column_defaults, keep_defaults
from lakedex.schema.conform import conform
from lakedex.storage import LocalStorage
from lakedex.table.creation import create_table
from lakedex.table.own_properties import (
    OWN_PROPERTIES_PATH,
    read_own_properties,
    write_own_properties,
)
from lakedex.table.spec import TableSpec
from lakedex.timeline.properties_file import load_table_config

# What the first commit adds, and the zone of the timeline, which is ours to choose.
LATER = {
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
    "hoodie.table.index.defs.path",
    "hoodie.table.timeline.timezone",
}
MADE_BY_SQL = [
    "archived",
    "clustered",
    "cow_nonpartitioned",
    "cow_trips_all_indexes",
    "mor_nonpartitioned",
    "mor_trips_all_indexes",
    "schema_evolution",
    "sharded_record_index",
    "two_secondary_mor",
]
SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("p", pa.string())])


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("name", MADE_BY_SQL)
def test_the_properties_are_those_that_hudi_writes(golden, tmp_path, name):
    text = (Path(golden(name).path) / ".hoodie" / "hoodie.properties").read_text("utf-8")
    real = parse_properties(text)
    columns = arrow_schema(parse_avro_record(real["hoodie.table.create.schema"]))
    spec = TableSpec(
        real["hoodie.table.name"],
        columns,
        real["hoodie.table.recordkey.fields"],
        ordering=real.get("hoodie.table.ordering.fields"),
        partition_by=real.get("hoodie.table.partition.fields", ""),
        table_type={"COPY_ON_WRITE": "cow"}.get(real["hoodie.table.type"], "mor"),
    )
    config = create_table(LocalStorage(str(tmp_path / name)), spec)
    own = dict(load_table_config(LocalStorage(str(tmp_path / name))).raw)
    assert own == config.raw
    assert own["hoodie.table.timeline.timezone"] == "UTC"
    assert {key: value for key, value in own.items() if key not in LATER} == {
        key: value for key, value in real.items() if key not in LATER
    }


def test_the_folders_are_there_and_the_settings_are_kept(tmp_path):
    storage = LocalStorage(str(tmp_path / "t"))
    options = {"hoodie.index.type": "BLOOM", "hoodie.metadata.record.index.enable": True}
    create_table(storage, TableSpec("t", SCHEMA, "id", properties=options))
    assert sorted(snapshot(tmp_path / "t")) == [
        ".hoodie",
        ".hoodie/.lakedex",
        ".hoodie/.lakedex/lakedex.properties",
        ".hoodie/hoodie.properties",
        ".hoodie/hoodie.properties.backup",
        ".hoodie/lakedex.properties",
        ".hoodie/timeline",
        ".hoodie/timeline/history",
    ]
    kept = read_own_properties(storage)
    assert kept["hoodie.index.type"] == "BLOOM"
    assert kept["hoodie.metadata.global.record.level.index.enable"] == "true"
    assert kept["hoodie.metadata.global.record.level.index.min.filegroup.count"] == "10"
    before = (tmp_path / "t" / OWN_PROPERTIES_PATH).stat().st_mtime_ns
    write_own_properties(storage, kept)
    assert (tmp_path / "t" / OWN_PROPERTIES_PATH).stat().st_mtime_ns == before
    write_own_properties(storage, {"a": "ü:=x"})
    assert read_own_properties(storage) == {"a": "ü:=x"}


@pytest.mark.parametrize(
    ("record_key", "partition_by", "properties", "generator"),
    [
        ("id", "", {}, "NON_PARTITION"),
        ("id", "p", {}, "SIMPLE"),
        (["id", "v"], "p", {}, "COMPLEX"),
        ("id", ["p", "v"], {}, "COMPLEX"),
        ("id", "p", {"hoodie.table.keygenerator.type": "COMPLEX"}, "COMPLEX"),
        (
            "id",
            "p",
            {
                "hoodie.datasource.write.keygenerator.class": (
                    "org.apache.hudi.keygen.ComplexAvroKeyGenerator"
                )
            },
            "COMPLEX",
        ),
        (
            "id",
            ["p", "v:TIMESTAMP"],
            {
                "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
                "hoodie.keygen.timebased.output.dateformat": "yyyy",
            },
            "CUSTOM",
        ),
    ],
)
def test_the_key_generator_is_named(tmp_path, record_key, partition_by, properties, generator):
    spec = TableSpec("t", SCHEMA, record_key, partition_by=partition_by, properties=properties)
    config = create_table(LocalStorage(str(tmp_path)), spec)
    assert config.keygen_type == generator
    if generator == "CUSTOM":
        assert config.raw["hoodie.table.partition.fields"] == "p:SIMPLE,v:TIMESTAMP"
        assert config.timebased_keygen["output.dateformat"] == "yyyy"


def test_without_ordering_the_later_write_wins(tmp_path):
    config = create_table(LocalStorage(str(tmp_path)), TableSpec("t", SCHEMA, "id"))
    assert config.raw["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert "hoodie.table.ordering.fields" not in config.raw


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"name": ""}, InvalidInput, "table name ''"),
        ({"name": "../x"}, InvalidInput, "table name '../x'"),
        ({"name": "a\nb"}, InvalidInput, "table name"),
        ({"database": "a/b"}, InvalidInput, "database name 'a/b'"),
        ({"record_key": "nope"}, InvalidInput, "record key column 'nope'"),
        ({"record_key": ["id", "id"]}, InvalidInput, "different names"),
        ({"ordering": "nope"}, InvalidInput, "ordering column 'nope'"),
        ({"partition_by": "nope"}, InvalidInput, "partition column 'nope'"),
        ({"partition_by": "v:TIMESTAMP"}, InvalidInput, "timebased.timestamp.type"),
        ({"partition_by": "p:DAY"}, InvalidInput, "'day'"),
        ({"table_type": "delta"}, InvalidInput, "'delta'"),
        ({"properties": {"hoodie.inex.type": "BLOOM"}}, InvalidInput, "did you mean"),
        ({"properties": {"hoodie.index.type": ["BLOOM"]}}, InvalidInput, "must be text"),
        ({"properties": {"hoodie.table.type": "MERGE_ON_READ"}}, InvalidInput, "contradicts"),
        ({"properties": {"hoodie.record.merge.mode": "CUSTOM"}}, UnsupportedFeature, "CUSTOM"),
        (
            {"properties": {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}},
            InvalidInput,
            "needs ordering",
        ),
        ({"properties": {"hoodie.table.keygenerator.class": "x.Y"}}, UnsupportedFeature, "x.Y"),
        (
            {"properties": {"hoodie.metadata.index.column.stats.column.list": "id,nope"}},
            InvalidInput,
            "'nope', which is no column",
        ),
        (
            {"properties": {"hoodie.compact.inline": "true"}},
            InvalidInput,
            "hoodie.compact.inline=true: a copy-on-write table",
        ),
        ({"schema": pa.schema([("id", pa.int8()), ("ID", pa.int8())])}, InvalidInput, "id and ID"),
        ({"schema": pa.schema([("id", pa.int8())] * 2)}, InvalidInput, "column id twice"),
        ({"schema": pa.schema([("id", pa.null())])}, InvalidInput, "void"),
        (
            {"schema": pa.schema([("id", pa.int8()), ("d", pa.duration("s"))])},
            InvalidInput,
            "interval",
        ),
        ({"schema": pa.schema([("id", pa.int8()), ("a-b", pa.int8())])}, InvalidInput, "'a-b'"),
        (
            {"schema": pa.schema([("id", pa.int8()), ("_hoodie_x", pa.int8())])},
            InvalidInput,
            "reserved",
        ),
    ],
)
def test_a_bad_spec_writes_nothing(tmp_path, changes, error, words):
    spec = {"name": "t", "schema": SCHEMA, "record_key": "id", **changes}
    with pytest.raises(error, match=words):
        create_table(LocalStorage(str(tmp_path / "t")), TableSpec(**spec))
    assert snapshot(tmp_path) == {}


def test_two_tables_on_one_path_are_refused_and_nothing_changes(tmp_path):
    storage = LocalStorage(str(tmp_path))
    create_table(storage, TableSpec("t", SCHEMA, "id"))
    before = snapshot(tmp_path)
    with pytest.raises(InvalidInput, match="there is a table already at"):
        create_table(storage, TableSpec("u", SCHEMA, "v"))
    assert snapshot(tmp_path) == before
    # A table whose properties are just being changed by a JVM writer is a table, too.
    properties = tmp_path / ".hoodie" / "hoodie.properties"
    properties.rename(properties.with_suffix(".properties.backup"))
    with pytest.raises(InvalidInput, match="there is a table already at"):
        create_table(storage, TableSpec("u", SCHEMA, "v"))


def test_foreign_data_is_not_taken_over(tmp_path):
    (tmp_path / "notes.txt").write_text("fine")
    (tmp_path / "p=1").mkdir()
    (tmp_path / "p=1" / "part-0.parquet").write_bytes(b"PAR1")
    before = snapshot(tmp_path)
    with pytest.raises(InvalidInput, match=r"p=1/part-0\.parquet"):
        create_table(LocalStorage(str(tmp_path)), TableSpec("t", SCHEMA, "id"))
    assert snapshot(tmp_path) == before
    (tmp_path / "p=1" / "part-0.parquet").unlink()
    create_table(LocalStorage(str(tmp_path)), TableSpec("t", SCHEMA, "id"))


def test_of_many_creators_at_once_one_wins_with_its_own_settings(tmp_path):
    kinds = ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"]

    def create(number: int) -> str | None:
        options = {"hoodie.index.type": kinds[number % 4]}
        try:
            spec = TableSpec(f"t{number}", SCHEMA, "id", properties=options)
            create_table(LocalStorage(str(tmp_path)), spec)
        except LakedexError:
            return None
        return f"t{number} {kinds[number % 4]}"

    with ThreadPoolExecutor(8) as pool:
        winners = [name for name in pool.map(create, range(8)) if name]
    assert len(winners) == 1
    storage = LocalStorage(str(tmp_path))
    kept = read_own_properties(storage)
    assert winners == [f"{load_table_config(storage).name} {kept['hoodie.index.type']}"]


def test_names_that_avro_cannot_hold_are_masked_as_hudi_does(tmp_path):
    config = create_table(LocalStorage(str(tmp_path)), TableSpec("1my-table", SCHEMA, "id"))
    record = json.loads(config.create_schema)
    assert (record["name"], record["namespace"]) == ("__my__table_record", "hoodie.__my__table")


def test_defaults_are_kept_in_the_create_schema(tmp_path):
    fields = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("n", pa.int64(), nullable=False, metadata={"default": "7"}),
        pa.field("s", pa.string(), metadata={"default": '"x"'}),
    ]
    config = create_table(LocalStorage(str(tmp_path)), TableSpec("t", pa.schema(fields), "id"))
    record = parse_avro_record(config.create_schema)
    defaults = column_defaults(record)
    rows = conform(pa.table({"id": ["a"]}), arrow_schema(record), defaults=defaults)
    assert rows.to_pylist() == [{"id": "a", "n": 7, "s": "x"}]
    bare = parse_avro_record(config.create_schema.replace(',"default":7', ""))
    assert keep_defaults(bare, record) == record
    wrong = pa.schema([fields[0], fields[1].with_metadata({"default": '"seven"'})])
    with pytest.raises(InvalidInput, match='default "seven" of column n'):
        create_table(LocalStorage(str(tmp_path / "u")), TableSpec("u", wrong, "id"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"record_key": None},
        {"record_key": 5},
        {"record_key": ["id", 5]},
        {"record_key": "id", "ordering": 5},
        {"record_key": "id", "partition_by": ["p", None]},
        {"record_key": "id", "table_type": None},
    ],
    ids=str,
)
def test_columns_that_are_not_told_by_name(tmp_path, wrong):
    with pytest.raises(InvalidInput):
        create_table(LocalStorage(tmp_path), TableSpec(name="t", schema=SCHEMA, **wrong))
    assert not snapshot(tmp_path)
