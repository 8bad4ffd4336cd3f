"""Write options: defaults, what a table keeps, and what is refused with both values named."""

from __future__ import annotations

import pickle

import pytest

from lakedex.config import TableConfig
from lakedex.config.metadata_options import without_drops
from lakedex.config.write_index import WriteIndex
from lakedex.config.write_options import InsertDuplicates, WriteOptions
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.txn.transaction import TransactionOptions

TYPE = "hoodie.index.type"
KEYGEN = "org.apache.hudi.keygen."
RECORD_INDEX = "hoodie.metadata.record.index.enable"
PARTITIONED = "hoodie.metadata.record.level.index.enable"


def table(partitions: str = "", *, fields: str = "p", **more: str) -> TableConfig:
    props = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": fields,
        "hoodie.table.ordering.fields": "ts",
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.metadata.partitions": partitions,
        **more,
    }
    return TableConfig.from_properties(props, "hoodie.properties")


def test_a_new_table_has_the_defaults_of_hudi():
    options = WriteOptions.resolve(table(), {}, {})
    assert options.index_type is WriteIndex.SIMPLE
    assert options.update_partition_path
    assert (options.small_file_limit, options.max_file_size) == (104857600, 125829120)
    assert options.compression == "snappy"
    assert not options.combine_before_insert
    assert options.insert_duplicates is InsertDuplicates.NONE
    assert options.metadata.partitions == ("column_stats", "files", "partition_stats")
    assert options.metadata.compact_after == 10
    assert (options.bloom.entries, options.bloom.error_rate) == (None, None)
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_table_without_partitions_has_no_partition_stats():
    options = WriteOptions.resolve(table(fields=""), {}, {})
    assert options.metadata.partitions == ("column_stats", "files")


@pytest.mark.parametrize(
    ("index", "scope", "moves"),
    [
        ("GLOBAL_SIMPLE", None, True),
        ("GLOBAL_BLOOM", None, True),
        ("RECORD_INDEX", "global", False),
        ("global_record_level_index", "global", False),
        ("RECORD_LEVEL_INDEX", "partitioned", False),
    ],
)
def test_an_index_brings_what_it_needs_and_stays(index, scope, moves):
    first = WriteOptions.resolve(table(), {}, {TYPE: index})
    assert (first.metadata.record_index and first.metadata.record_index.value) == scope
    assert ("record_index" in first.metadata.partitions) is (scope is not None)
    assert first.update_partition_path is moves
    again = WriteOptions.resolve(table(), first.kept(), {})
    assert again == first
    assert WriteOptions.resolve(table(), first.kept(), {TYPE: index}) == first
    with pytest.raises(InvalidInput, match=r"'BLOOM' contradicts table t, which keeps '"):
        WriteOptions.resolve(table(), first.kept(), {TYPE: "BLOOM"})


def test_all_that_was_built_is_kept_and_a_writer_that_differs_is_refused():
    first = WriteOptions.resolve(
        table(),
        {},
        {
            RECORD_INDEX: "true",
            "hoodie.metadata.index.column.stats.column.list": "a, b",
            "hoodie.metadata.record.index.min.filegroup.count": "3",
            "hoodie.metadata.index.bloom.filter.enable": "true",
        },
    )
    assert first.metadata.record_index_groups == (3, 10000)
    assert first.metadata.stat_columns == ("a", "b")
    kept = first.kept()
    later = table("bloom_filters,column_stats,files,partition_stats,record_index")
    assert WriteOptions.resolve(later, kept, {}).metadata == first.metadata
    for name, value, stored in [
        ("hoodie.metadata.index.column.stats.file.group.count", "4", "7"),
        ("hoodie.metadata.record.index.min.filegroup.count", "4", "3"),
        ("hoodie.metadata.global.record.level.index.max.filegroup.count", "4", "10000"),
        ("hoodie.metadata.index.bloom.filter.file.group.count", "9", "4"),
    ]:
        with pytest.raises(InvalidInput, match=f"{value!r} contradicts .* keeps {stored!r}"):
            WriteOptions.resolve(later, kept, {name: value}, column_stats_groups=7)


def test_the_newest_list_of_columns_with_statistics_counts():
    name = "hoodie.metadata.index.column.stats.column.list"
    kept = WriteOptions.resolve(table(), {}, {}).kept()
    later = table("column_stats,files,partition_stats")
    for listed in ("a", "b,c"):
        chosen = WriteOptions.resolve(later, kept, {name: listed})
        assert chosen.metadata.stat_columns == tuple(listed.split(","))
        kept = chosen.kept()
        assert WriteOptions.resolve(later, kept, {}).metadata == chosen.metadata


def test_a_writer_that_names_no_index_drops_none():
    # cases B29, B62: writer without index options
    made_by_hudi = table("column_stats,files,record_index,secondary_index_x")
    options = WriteOptions.resolve(made_by_hudi, {}, {})
    assert options.metadata.partitions == made_by_hudi.metadata_partitions
    assert options.index_type is WriteIndex.GLOBAL_RECORD_LEVEL_INDEX
    # An index that was made since the settings were kept stays, too.
    before = WriteOptions.resolve(table("files"), {}, {}).kept()
    assert before["hoodie.metadata.global.record.level.index.enable"] == "false"
    again = WriteOptions.resolve(made_by_hudi, before, {})
    assert again.metadata.partitions == made_by_hudi.metadata_partitions
    assert again.index_type is WriteIndex.SIMPLE


def test_a_table_of_hudi_gets_no_index_that_nobody_asked_for():
    assert WriteOptions.resolve(table("files"), {}, {}).metadata.partitions == ("files",)
    more = WriteOptions.resolve(
        table("files"), {}, {"hoodie.metadata.index.column.stats.enable": "true"}
    )
    assert more.metadata.partitions == ("column_stats", "files", "partition_stats")


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("hoodie.metadata.enable", "metadata table"),
        ("hoodie.metadata.index.column.stats.enable", "column_stats"),
        ("hoodie.metadata.index.partition.stats.enable", "partition_stats"),
        ("hoodie.metadata.index.bloom.filter.enable", "bloom_filters"),
        (RECORD_INDEX, "record index"),
        ("hoodie.metadata.global.record.level.index.enable", "record index"),
    ],
)
def test_an_option_cannot_drop_an_index(name, partition):
    full = table("bloom_filters,column_stats,files,partition_stats,record_index")
    with pytest.raises(InvalidInput, match=f"would drop .*{partition}"):
        WriteOptions.resolve(full, {}, {name: "false", TYPE: "SIMPLE"})

    session = {name: "false", "hoodie.insert.shuffle.parallelism": "2"}
    assert without_drops(full, session) == {"hoodie.insert.shuffle.parallelism": "2"}
    assert without_drops(full, {name: "true"}) == {name: "true"}
    assert without_drops(table(), session) == session


@pytest.mark.parametrize(("said", "there"), [("false", False), ("true", True)])
def test_what_a_table_keeps_under_an_older_name_is_one_option(said, there):
    given = {"hoodie.metadata.global.record.level.index.enable": said}
    options = WriteOptions.resolve(table("files"), {RECORD_INDEX: "true"}, given)
    assert ("record_index" in options.metadata.partitions) is there


def test_the_kind_of_an_existing_record_index_counts():
    made = table("files,record_index")
    options = WriteOptions.resolve(made, {}, {}, record_index_partitioned=True)
    assert options.index_type is WriteIndex.RECORD_LEVEL_INDEX
    with pytest.raises(InvalidInput, match=r"partitioned record index.* global"):
        WriteOptions.resolve(made, {}, {TYPE: "RECORD_INDEX"}, record_index_partitioned=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"hoodie.datasource.write.recordkey.field": "uuid"}, "'uuid'.* has 'id'"),
        ({"hoodie.datasource.write.partitionpath.field": "q"}, "'q'.* has 'p'"),
        ({"hoodie.datasource.write.precombine.field": "v"}, "'v'.* has 'ts'"),
        ({"hoodie.datasource.write.table.type": "MOR"}, "'MOR'.* has 'COPY_ON_WRITE'"),
        (
            {"hoodie.datasource.write.keygenerator.class": f"{KEYGEN}ComplexKeyGenerator"},
            "ComplexKeyGenerator'.* has 'SIMPLE'",
        ),
        ({"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}, "has 'EVENT_TIME_ORDERING'"),
        (
            {
                "hoodie.datasource.write.payload.class": (
                    "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
                )
            },
            "has 'EVENT_TIME_ORDERING'",
        ),
        ({"hoodie.table.name": "u"}, "'u'.* has 't'"),
        ({"hoodie.write.table.version": "8"}, "'8'.* has '9'"),
        ({"hoodie.datasource.write.hive_style_partitioning": "true"}, "'true'.* has 'false'"),
        ({"hoodie.keygen.timebased.timezone": "UTC"}, "'UTC'.* has None"),
        ({"hoodie.index.typ": "BLOOM"}, "did you mean 'hoodie.index.type'"),
        (
            {"hoodie.metadata.index.colum.stats.enable": "x"},
            "did you mean 'hoodie.metadata.index.column",
        ),
        ({"index.type": "BLOOM"}, "did you mean 'hoodie.index.type'"),
        ({TYPE: "FAST"}, "'FAST'"),
        ({"hoodie.parquet.max.file.size": "1.5"}, "max.file.size='1.5' must be a whole number"),
        ({"hoodie.parquet.max.file.size": "-1"}, "'-1'"),
        ({"hoodie.parquet.max.file.size": "9" * 30}, "9999"),
        ({"hoodie.parquet.max.file.size": "٣٠٠٠"}, "whole number"),
        ({"hoodie.combine.before.insert": "yes"}, "must be true or false"),
        ({"hoodie.parquet.compression.codec": "rar"}, "one of snappy"),
        ({"hoodie.index.bloom.fpp": "2"}, "between 0 and 1"),
        ({"hoodie.datasource.insert.dup.policy": "keep"}, "none, drop, fail"),
        ({RECORD_INDEX: "true", PARTITIONED: "true"}, "one record index"),
        ({RECORD_INDEX: "true", "hoodie.metadata.enable": "false"}, "excludes a record index"),
        (
            {RECORD_INDEX: "true", "hoodie.metadata.global.record.level.index.enable": "false"},
            "one option with two values",
        ),
        (
            {
                "hoodie.metadata.record.index.min.filegroup.count": "5",
                "hoodie.metadata.record.index.max.filegroup.count": "4",
            },
            "=5 is more than .*=4",
        ),
        ({TYPE: "RECORD_INDEX", RECORD_INDEX: "false"}, "=false contradicts hoodie.index.type"),
        ({"hoodie.metadata.index.column.stats.column.list": "a,a"}, "'a' twice"),
        ({"hoodie.write.lock.storage.renew.interval.secs": "400"}, "must be less than"),
    ],
)
def test_options_that_are_wrong_or_contradict_the_table_are_refused(given, words):
    with pytest.raises(InvalidInput, match=words):
        WriteOptions.resolve(table(), {}, given)


@pytest.mark.parametrize(
    "given",
    [
        {TYPE: "INMEMORY"},
        {"hoodie.index.class": "com.evil.Index"},
        {"hoodie.write.lock.provider": "org.apache.hudi.ZookeeperBasedLockProvider"},
        {"hoodie.payload.delete.field": "gone"},
        {"hoodie.datasource.write.keygenerator.class": "com.evil.Keys"},
        {"hoodie.write.lock.filesystem.path": "/locks/t"},
        {"hoodie.clean.failed.writes.policy": "NEVER"},
        {"hoodie.clean.trigger.strategy": "SOMETIMES"},
        {
            "hoodie.clustering.updates.strategy": (
                "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
            )
        },
    ],
)
def test_what_cannot_be_obeyed_is_refused_not_ignored(given):
    with pytest.raises(UnsupportedFeature):
        WriteOptions.resolve(table(), {}, given)


def test_a_script_of_hudi_runs_unchanged():
    options = WriteOptions.resolve(
        table(),
        {},
        {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "p:SIMPLE",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": f"{KEYGEN}SimpleKeyGenerator",
            "hoodie.datasource.write.payload.class": (
                "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
            ),
            "hoodie.upsert.shuffle.parallelism": "2",
            "hoodie.datasource.hive_sync.enable": "false",
            "hoodie.cleaner.commits.retained": "10",
            "hoodie.datasource.write.insert.drop.duplicates": "true",
            "hoodie.write.lock.filesystem.path": "/data/t/.hoodie/",
            "hoodie.cleaner.policy.failed.writes": "LAZY",
        },
    )
    assert options.insert_duplicates is InsertDuplicates.DROP


def test_services_beside_writes_are_left_to_others_where_a_table_is_told_so():
    inline = {
        "hoodie.compact.inline": "true",
        "hoodie.datasource.clustering.inline.enable": "true",
    }
    own = WriteOptions.resolve(table(), {}, inline)
    assert _runs(own) == {True}
    off = {"hoodie.table.services.enabled": "false"}
    left = WriteOptions.resolve(table(), {}, inline | off)
    assert _runs(left) == {False}
    asked = {"hoodie.datasource.compaction.async.enable": "false"}
    assert WriteOptions.resolve(table(), {}, asked).scheduling.compact_inline
    planned = asked | {"hoodie.compact.schedule.inline": "true"}
    assert not WriteOptions.resolve(table(), {}, planned).scheduling.compact_inline
    wish = {"hoodie.log.compaction.enable": "true"}
    assert WriteOptions.resolve(table(), {}, wish).metadata.log_compact_after == 5


def _runs(chosen: WriteOptions) -> set[bool]:
    beside = chosen.scheduling
    upkeep = {chosen.cleaning.automatic, chosen.archiving.automatic}
    return {beside.compact_inline, beside.cluster_inline, *upkeep}


def test_a_writer_looks_at_a_lock_as_often_as_it_is_told():
    chosen = WriteOptions.resolve(
        table(), {}, {"hoodie.write.lock.wait_time_ms_between_retry": "250"}
    )
    assert TransactionOptions.of(chosen.lock).lock.poll_seconds == 0.25
    usual = TransactionOptions.of(WriteOptions.resolve(table(), {}, {}).lock).lock
    assert usual.poll_seconds < 1
