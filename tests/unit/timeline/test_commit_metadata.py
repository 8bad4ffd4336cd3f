"""Commit metadata: both encodings, unsafe paths, and bytes that were not meant well."""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile, InvalidInput, LakedexError, UnsafePath
from lakedex.timeline import (
    Action,
    CommitMetadata,
    WriteStat,
    decode_commit_metadata,
    encode_commit_metadata,
)
from lakedex.timeline.container import (
    MAGIC,
    decode_datum,
    guarded_schema,
    known_schema,
    open_container,
)

STAT = WriteStat(
    file_id="f-0",
    path="city=a/b=c/.f-0_20261115190008255.log.1_0-1-2",
    partition_path="city=a/b=c",
    prev_commit="null",
    num_writes=3,
    num_inserts=2,
    num_updates=1,
    num_deletes=0,
    total_write_bytes=10,
    total_write_errors=0,
    file_size_bytes=10,
    log_version=1,
    log_offset=0,
    base_file="",
    log_files=(".f-0_20261115190008255.log.1_0-1-2",),
    cdc_stats={"city=a/.f-0.cdc": 7},
    other={"totalLogRecords": 4, "runtimeStats": {"totalScanTime": 1}},
)
METADATA = CommitMetadata(
    partition_to_stats={"city=a/b=c": (STAT,), "": ()},
    extra={"schema": '{"type":"record"}'},
    operation_type="UPSERT",
    compacted=True,
    replaced_file_ids={"city=a": ("g-0", "g-1")},
)


def decode(data):
    return decode_commit_metadata(data, path="t/x.commit")


def as_json(**changes):
    stat = {"fileId": "f-0", "path": "a/f.parquet", "partitionPath": "a"} | changes
    return json.dumps({"partitionToWriteStats": {"a": [stat]}}).encode()


def test_a_replace_commit_survives_a_round_trip():
    again = decode(encode_commit_metadata(METADATA, action=Action.CLUSTERING))
    stat = again.partition_to_stats["city=a/b=c"][0]
    assert stat.cdc_stats == STAT.cdc_stats
    assert stat.other["runtimeStats"]["totalScanTime"] == 1
    assert again.replaced_file_ids == METADATA.replaced_file_ids
    assert again.compacted
    assert again.schema_text == '{"type":"record"}'
    assert decode(encode_commit_metadata(again, action=Action.REPLACECOMMIT)) == again


def test_a_plain_commit_has_no_replaced_groups():
    data = encode_commit_metadata(METADATA)
    assert decode(data).replaced_file_ids == {}
    assert open_container(data, path="x").type_name == "HoodieCommitMetadata"


def test_the_header_names_the_namespace_and_no_codec():
    reader = fastavro.reader(io.BytesIO(encode_commit_metadata(METADATA)))
    assert set(reader.metadata) == {"avro.schema"}
    schema = json.loads(reader.metadata["avro.schema"])
    assert schema["namespace"] == "org.apache.hudi.avro.model"


def test_the_same_metadata_gives_the_same_bytes():
    assert encode_commit_metadata(METADATA) == encode_commit_metadata(METADATA)


def test_json_with_fields_that_we_do_not_know_is_read():
    data = as_json(recordsStats={"val": {}}, numWrites=5)
    (stat,) = decode(data).stats()
    assert (stat.path, stat.num_writes, stat.log_files) == ("a/f.parquet", 5, None)


def test_json_with_null_extra_values_is_read():
    data = json.dumps({"extraMetadata": {"schema": None, "a": "b"}}).encode()
    assert decode(data).extra == {"a": "b"}
    assert decode(data).schema_text is None


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_containers_of_other_writers_are_read(codec):
    stream = io.BytesIO()
    record = {"operationType": "INSERT", "partitionToWriteStats": {"": [{"fileId": "f"}]}}
    fastavro.writer(stream, known_schema("HoodieCommitMetadata"), [record], codec=codec)
    assert [stat.file_id for stat in decode(stream.getvalue()).stats()] == ["f"]


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "../other/f.parquet"},
        {"path": "/etc/passwd"},
        {"path": "a/../../f"},
        {"path": "s3://bucket/key"},
        {"partitionPath": "../a"},
        {"baseFile": "../f"},
        {"prevBaseFile": "/f"},
        {"logFiles": ["ok", "../no"]},
        {"cdcStats": {"../x": 1}},
    ],
)
def test_paths_that_leave_the_table_are_refused(changes):
    with pytest.raises(UnsafePath):
        decode(as_json(**changes))


def test_partition_keys_that_leave_the_table_are_refused():
    for field in ("partitionToWriteStats", "partitionToReplaceFileIds"):
        with pytest.raises(UnsafePath):
            decode(json.dumps({field: {"../a": []}}).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"5",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 10_000,
        b'{"partitionToWriteStats": 5}',
        b'{"partitionToWriteStats": {"a": [5]}}',
        b'{"partitionToWriteStats": {"a": [{"numWrites": "5"}]}}',
        b'{"partitionToWriteStats": {"a": [{"numWrites": 1e400}]}}',
        b'{"partitionToWriteStats": {"a": [{"numWrites": 99999999999999999999}]}}',
        b'{"partitionToWriteStats": {"a": [{"path": {}}]}}',
        b'{"extraMetadata": {"a": 5}}',
        b'{"operationType": ["x"]}',
    ],
)
def test_bytes_that_are_no_metadata_are_corrupt(data):
    with pytest.raises(CorruptFile):
        decode(data)


def test_values_of_a_wrong_type_are_not_written():
    stat = WriteStat(file_id="f", num_writes="many")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="HoodieCommitMetadata"):
        encode_commit_metadata(CommitMetadata({"": (stat,)}))


def container(schema: object, datum: bytes, *, codec: bytes = b"null", count: int = 1) -> bytes:
    def long(value):
        value <<= 1
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    def text(value):
        return long(len(value)) + value

    header = text(b"avro.schema") + text(json.dumps(schema).encode())
    header += text(b"avro.codec") + text(codec)
    sync = bytes(16)
    return MAGIC + long(2) + header + b"\0" + sync + long(count) + text(datum) + sync


NAME = {"type": "record", "name": "HoodieCommitMetadata", "namespace": "org.apache.hudi.avro.model"}


def nested(depth):
    schema = "long"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def bomb():
    """Records of records: 2^40 fields that take no bytes."""
    inner = "null"
    for at in range(40):
        kind = inner if isinstance(inner, str) else inner["name"]
        inner = {
            "type": "record",
            "name": f"r{at}",
            "fields": [{"name": "a", "type": inner}, {"name": "b", "type": kind}],
        }
    return inner


HOSTILE_TYPES = [
    {"type": "array", "items": "null"},
    {"type": "array", "items": {"type": "record", "name": "e", "fields": []}},
    {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}},
    {"type": "fixed", "name": "f", "size": 1 << 60},
    {"type": "fixed", "name": "f", "size": -1},
    {"type": "record", "name": "r", "fields": [{"name": "x", "type": "r"}]},
    {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "r"]}]},
    nested(200),
    bomb(),
    "unknown",
    [],
    [["null"]],
    {"type": "enum", "name": "e"},
    {"type": "record", "name": "r"},
    {"type": "record", "name": "r", "fields": [{"type": "int"}]},
    {"type": "record", "fields": []},
    5,
    None,
    {},
]


@pytest.mark.parametrize("kind", HOSTILE_TYPES)
def test_schemas_that_could_run_away_are_refused(kind):
    schema = NAME | {"fields": [{"name": "partitionToWriteStats", "type": kind}]}
    huge_count = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    with pytest.raises(CorruptFile):
        decode(container(schema, huge_count + b"\2" * 5000))


def test_narrow_records_that_would_grow_a_thousandfold_are_refused():
    stat = {
        "type": "record",
        "name": "HoodieWriteStat",
        "fields": [{"name": "fileId", "type": ["null", "string"]}],
    }
    stats = ["null", {"type": "map", "values": {"type": "array", "items": stat}}]
    schema = NAME | {"fields": [{"name": "partitionToWriteStats", "type": stats}]}
    with pytest.raises(CorruptFile, match="about 31 fields in HoodieWriteStat"):
        decode(container(schema, b"\2\2\0\2\0\0\0"))


def test_a_schema_of_megabytes_or_broken_json_is_refused():
    for text in ("[" * 50_000, "{", '"' + "x" * (5 << 20) + '"'):
        with pytest.raises(CorruptFile):
            guarded_schema(text)


def test_logical_types_and_java_hints_do_not_reach_the_decoder():
    kind = {"type": "bytes", "logicalType": "decimal", "precision": -4}
    schema = {"type": "record", "name": "r", "fields": [{"name": "d", "type": kind}]}
    text = json.dumps(schema)
    assert decode_datum(b"\x02\x05", text, None, path="x") == {"d": b"\x05"}


def test_an_inflation_bomb_is_refused():
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(bytes(200 << 20)) + packer.flush()
    schema = NAME | {"fields": []}
    with pytest.raises(CorruptFile, match="inflated"):
        decode(container(schema, packed, codec=b"deflate"))


def test_other_codecs_and_record_counts_are_refused():
    schema = NAME | {"fields": []}
    assert decode(container(schema, b"")) is not None
    with pytest.raises(CorruptFile, match="codec"):
        decode(container(schema, b"", codec=b"snappy"))
    for count in (0, 2, 1 << 40):
        with pytest.raises(CorruptFile):
            decode(container(schema, b"", count=count))


def test_bytes_after_the_record_are_refused():
    schema = NAME | {"fields": []}
    with pytest.raises(CorruptFile):
        decode(container(schema, b"\0\0"))
    with pytest.raises(CorruptFile):
        decode(container(schema, b"") + b"x")


@given(st.binary(max_size=300))
def test_any_bytes_after_the_magic_give_our_error(data):
    with pytest.raises(LakedexError):
        decode(MAGIC + data)


@given(st.data())
def test_damaged_metadata_gives_a_result_or_our_error(data):
    original = bytearray(encode_commit_metadata(METADATA, action=Action.REPLACECOMMIT))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(original) - 1))
        original[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(original)))
    for damaged in (bytes(original), bytes(original[:cut])):
        try:
            decode(damaged)
        except LakedexError:
            continue


def test_every_damaged_byte_of_a_real_commit_gives_a_result_or_our_error(golden):
    folder = Path(golden("clustered").path) / ".hoodie/timeline"
    (path,) = folder.glob("*.replacecommit")
    original = path.read_bytes()
    for at in range(0, len(original), 7):
        for value in (0, 0x7F, 0xFF, original[at] ^ 1):
            damaged = bytearray(original)
            damaged[at] = value
            try:
                decode(bytes(damaged))
            except LakedexError:
                continue
