"""Typed properties: defaults, refusals, merge rules of every version, and the real tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakedex.config import MergeMode, TableConfig, TableType, TimelineZone, keys
from lakedex.config.properties_text import checksum_matches, parse_properties, table_checksum
from lakedex.errors import CorruptFile, UnsafePath, UnsupportedFeature

MODEL = "org.apache.hudi.common.model"
BASE = {"hoodie.table.name": "t", "hoodie.table.version": "9"}
EVENT, COMMIT, CUSTOM = (
    MergeMode.EVENT_TIME_ORDERING,
    MergeMode.COMMIT_TIME_ORDERING,
    MergeMode.CUSTOM,
)
GOLDEN = sorted(path.stem for path in (Path(__file__).parents[2] / "golden").glob("*.zip"))


def config(version: int = 9, **changes: str) -> TableConfig:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    props = BASE | {"hoodie.table.version": str(version)} | named
    return TableConfig.from_properties(props, "hoodie.properties")


@pytest.mark.parametrize(
    ("name", "database", "expected"),
    [("trips", "default", 2200697520), ("trips_metadata", None, 1249152950)],
)
def test_checksum_equals_the_one_that_hudi_wrote(name, database, expected):
    assert table_checksum(name, database) == expected


def test_missing_keys_have_the_defaults_of_hudi():
    made = config()
    assert made.table_type is TableType.COPY_ON_WRITE
    assert made.timeline_layout == 2
    assert (made.timeline_folder, made.history_folder, made.archive_folder) == (
        ".hoodie/timeline",
        ".hoodie/timeline/history",
        ".hoodie/archived",
    )
    assert made.populate_meta_fields
    assert not made.hive_style_partitioning
    assert made.timezone is TimelineZone.LOCAL
    assert made.base_file_format == "PARQUET"
    assert made.merge_mode is COMMIT
    assert made.index_defs_path is None
    assert not made.is_partitioned


@pytest.mark.parametrize("version", ["5", "7", "10", "0"])
def test_other_versions_are_refused_by_number(version):
    with pytest.raises(UnsupportedFeature, match=f"version={version}"):
        config(int(version))


@pytest.mark.parametrize("version", ["", "nine", "-9", "9.0", "9" * 5000, "٩"])
def test_a_version_that_is_no_number_is_corrupt(version):
    with pytest.raises(CorruptFile):
        TableConfig.from_properties(BASE | {"hoodie.table.version": version}, "p")


def test_a_missing_name_is_corrupt():
    with pytest.raises(CorruptFile, match=r"hoodie\.table\.name"):
        TableConfig.from_properties({"hoodie.table.version": "9"}, "p")


def test_a_missing_layout_follows_the_version_and_a_wrong_one_is_refused():
    assert config(6).timeline_layout == 1
    assert config(6).timeline_folder == ".hoodie"
    assert config(8).timeline_layout == 2
    with pytest.raises(UnsupportedFeature, match="layout"):
        config(9, hoodie__timeline__layout__version="1")


@pytest.mark.parametrize(
    "key",
    [
        keys.INDEX_DEFS_PATH,
        keys.TIMELINE_PATH,
        keys.TIMELINE_HISTORY_PATH,
        keys.ARCHIVELOG_FOLDER,
    ],
)
@pytest.mark.parametrize(
    "value", ["../x", "/etc/passwd", "a/../../b", "s3://b/k", "a//b", ".", "a\\b", "file:x"]
)
def test_a_folder_property_cannot_leave_the_table(key, value):
    with pytest.raises(UnsafePath):
        TableConfig.from_properties(BASE | {key: value}, "p")


def test_partition_kinds_are_split_from_the_names():
    made = config(hoodie__table__partition__fields="city:simple,ts:TIMESTAMP,plain")
    assert made.partition_fields == ("city", "ts", "plain")
    assert made.partition_kinds == ("simple", "timestamp", "simple")


def test_both_names_of_the_ordering_fields_are_read():
    assert config(hoodie__table__ordering__fields="a,b").ordering_fields == ("a", "b")
    assert config(6, hoodie__table__precombine__field="ts").ordering_fields == ("ts",)


def test_both_names_of_timestamp_key_generator_options_are_read():
    props = BASE | {
        "hoodie.keygen.timebased.output.dateformat": "yyyy",
        "hoodie.deltastreamer.keygen.timebased.output.dateformat": "old",
        "hoodie.deltastreamer.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    }
    made = TableConfig.from_properties(props, "p")
    assert made.timebased_keygen == {
        "output.dateformat": "yyyy",
        "timestamp.type": "EPOCHMILLISECONDS",
    }


def test_formats_that_cannot_be_read_are_refused_when_needed():
    made = config(hoodie__table__base__file__format="ORC")
    with pytest.raises(UnsupportedFeature, match="ORC"):
        made.require_readable_base_files()
    assert config().require_readable_base_files() == "PARQUET"
    with pytest.raises(UnsupportedFeature, match="bootstrap"):
        config(hoodie__bootstrap__base__path="/x").require_readable_base_files()


@pytest.mark.parametrize(
    ("version", "mode", "strategy", "payload", "ordering", "expected"),
    [
        (9, "EVENT_TIME_ORDERING", "", "", True, EVENT),
        (9, "COMMIT_TIME_ORDERING", "", "", True, COMMIT),
        (9, "EVENT_TIME_ORDERING", "", "", False, COMMIT),
        (9, "", "", "", True, EVENT),
        (9, "", "", "", False, COMMIT),
        (9, "CUSTOM", keys.PAYLOAD_STRATEGY_ID, f"{MODEL}.DefaultHoodieRecordPayload", True, EVENT),
        (9, "CUSTOM", "", "com.example.MyPayload", True, CUSTOM),
        (9, "CUSTOM", "1234", "", True, CUSTOM),
        (9, "CUSTOM", "1234", f"{MODEL}.DefaultHoodieRecordPayload", True, CUSTOM),
        (9, "CUSTOM", "", "", True, CUSTOM),
        (8, "", keys.EVENT_TIME_STRATEGY_ID, "", True, EVENT),
        (8, "", keys.COMMIT_TIME_STRATEGY_ID, "", True, COMMIT),
        (8, "", "1234", "", True, CUSTOM),
        (8, "", keys.PAYLOAD_STRATEGY_ID, f"{MODEL}.AWSDmsAvroPayload", True, CUSTOM),
        (6, "", "", f"{MODEL}.DefaultHoodieRecordPayload", True, EVENT),
        (6, "", "", f"{MODEL}.EventTimeAvroPayload", True, EVENT),
        (6, "", "", f"{MODEL}.OverwriteWithLatestAvroPayload", True, COMMIT),
        (
            6,
            "",
            keys.EVENT_TIME_STRATEGY_ID,
            f"{MODEL}.OverwriteWithLatestAvroPayload",
            True,
            COMMIT,
        ),
        (6, "", "", f"{MODEL}.OverwriteNonDefaultsWithLatestAvroPayload", True, CUSTOM),
        (6, "", keys.EVENT_TIME_STRATEGY_ID, f"{MODEL}.PartialUpdateAvroPayload", True, CUSTOM),
        (6, "", "", f"{MODEL}.debezium.MySqlDebeziumAvroPayload", True, CUSTOM),
        (6, "", keys.EVENT_TIME_STRATEGY_ID, "", True, EVENT),
        (6, "", "", "", True, EVENT),
    ],
)
def test_merge_mode_is_the_one_that_hudi_takes(
    version, mode, strategy, payload, ordering, expected
):
    made = config(
        version,
        hoodie__record__merge__mode=mode,
        hoodie__record__merge__strategy__id=strategy,
        hoodie__compaction__payload__class=payload,
        hoodie__table__ordering__fields="ts" if ordering else "",
    )
    assert made.merge_mode is expected
    assert (made.custom_payload is not None) == (expected is CUSTOM)


def test_the_old_name_of_the_strategy_is_read():
    made = config(
        6,
        hoodie__compaction__record__merger__strategy=keys.COMMIT_TIME_STRATEGY_ID,
        hoodie__table__precombine__field="ts",
    )
    assert made.merge_mode is COMMIT


def test_a_custom_payload_opens_and_is_refused_by_name_when_merging():
    made = config(6, hoodie__compaction__payload__class="com.example.MyPayload")
    with pytest.raises(UnsupportedFeature, match=r"com\.example\.MyPayload"):
        made.require_known_merge()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.partial.update.mode", "KEEP_VALUES"),
        ("hoodie.record.merge.property.hoodie.payload.delete.field", "Op"),
    ],
)
def test_merges_of_single_columns_are_refused_when_merging(key, value):
    props = BASE | {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING", key: value}
    made = TableConfig.from_properties(props, "p")
    with pytest.raises(UnsupportedFeature, match=key):
        made.require_known_merge()


def test_an_unknown_merge_mode_is_refused():
    with pytest.raises(UnsupportedFeature, match="SOMETIMES"):
        config(hoodie__record__merge__mode="sometimes")


@pytest.mark.parametrize("name", GOLDEN)
def test_properties_of_real_tables_are_understood(golden, name):
    table = golden(name)
    text = (Path(table.path) / ".hoodie/hoodie.properties").read_text(encoding="utf-8")
    props = parse_properties(text)
    assert checksum_matches(props)
    made = TableConfig.from_properties(props, "p")
    assert made.version == int(table.expected["table_version"])
    listed = table.expected["table_config"]
    assert made.name == listed["hoodie.table.name"]
    assert set(made.raw) == set(listed)
    assert ",".join(made.metadata_partitions) == listed["hoodie.table.metadata.partitions"]
    assert made.metadata_enabled
    assert made.merge_mode is not CUSTOM
    assert not made.is_metadata_table


@pytest.mark.parametrize("name", ["v6_mor", "v8_mor", "archived"])
def test_properties_of_real_metadata_tables_are_understood(golden, name):
    folder = Path(golden(name).path) / ".hoodie/metadata/.hoodie"
    props = parse_properties((folder / "hoodie.properties").read_text(encoding="utf-8"))
    assert checksum_matches(props)
    made = TableConfig.from_properties(props, "p")
    assert made.is_metadata_table
    assert made.base_file_format == "HFILE"
    assert not made.populate_meta_fields


@pytest.mark.parametrize(
    ("name", "value"), [("hoodie.table.format", "iceberg"), ("hoodie.table.log.file.format", "ORC")]
)
def test_a_table_of_another_format_is_refused_by_name(name, value):
    """Its timeline or its log files lie elsewhere, and it would read as an empty table."""
    props = {"hoodie.table.name": "t", "hoodie.table.version": "9", name: value}
    with pytest.raises(UnsupportedFeature, match=f"{name}={value}"):
        TableConfig.from_properties(props, "hoodie.properties")
