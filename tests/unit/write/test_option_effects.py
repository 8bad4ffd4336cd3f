"""What write options do to a table: those whose effect no other test shows."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pyarrow.parquet as pq
import pytest

import lakedex
from lakedex.config import TableConfig
from lakedex.config.restated_options import RESTATED
from lakedex.config.write_option_names import OBEYED
from lakedex.config.write_options import WriteOptions
from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature
from lakedex.format.parquet.footer import read_footer
from lakedex.read import Scan, to_table
from lakedex.services.inline import writer_with_services
from lakedex.spark.pins import Pins
from lakedex.spark.read_spec import ReadSpec
from lakedex.txn.lock import open_lock
from lakedex.txn.transaction import TransactionOptions
from tests.support.write_lab import SCHEMA, Lab, row, source

META = "hoodie.metadata."
ROWS = [row(f"k{number:02}", "ab"[number % 2], 1, number / 2) for number in range(40)]


def written(tmp_path, options: Mapping[str, str], kind: str = "cow") -> Lab:
    lab = Lab(tmp_path, kind)
    writer_with_services(lab.address, options=options).insert(source(ROWS))
    lab.holds(ROWS, "id = 'k07'", "x > 15", "p = 'b'")
    return lab


GROUPS = [
    ({META + "index.partition.stats.file.group.count": "3"}, "partition_stats", 3),
    (
        {
            META + "index.bloom.filter.enable": "true",
            META + "index.bloom.filter.file.group.count": "5",
        },
        "bloom_filters",
        5,
    ),
    ({META + "index.column.stats.file.group.count": "4"}, "column_stats", 4),
    *(
        (
            {META + f"{name}.enable": "true", META + f"{name}.{bound}.filegroup.count": value},
            part,
            n,
        )
        for name, part in (
            ("global.record.level.index", "record_index"),
            ("record.index", "record_index"),
        )
        for bound, value, n in (("min", "13", 13), ("max", "3", 3))
    ),
    *(
        (
            {
                META + f"{name}.enable": "true",
                META + f"{name}.min.filegroup.count": "1",
                META + f"{name}.max.filegroup.count": most,
                META + "record.index.growth.factor": growth,
                META + "record.index.max.filegroup.size": "1024",
            },
            "record_index",
            wanted,
        )
        # Of 1024 bytes a group has 21 entries of 48 bytes.
        for name in ("global.record.level.index", "record.index")
        for most, growth, wanted in (("100", "1", 2), ("100", "10", 20), ("7", "10", 7))
    ),
    *(
        ({META + f"{name}.enable": "true", META + f"{name}.min.filegroup.count": "3"}, part, 6)
        for name, part in (
            ("record.level.index", "record_index"),
            ("partitioned.record.index", "record_index"),
        )
    ),
]


@pytest.mark.parametrize(("options", "partition", "count"), GROUPS, ids=str)
def test_an_index_gets_the_file_groups_that_options_say(tmp_path, options, partition, count):
    lab = written(tmp_path, options)
    metadata = lakedex.open(lab.path).snapshot.metadata
    assert len(metadata.groups(partition)) == count


def _filter_bits(lab: Lab) -> set[int]:
    snapshot = lakedex.open(lab.path).snapshot
    paths = [each.path_of(each.base.name) for each in snapshot.slices]
    return {read_footer(snapshot.storage.source(path)).bloom.bit_count for path in paths}


def test_bloom_filters_are_as_large_as_options_say(tmp_path):
    sizes = []
    for number, options in enumerate(
        (
            {},
            {"hoodie.index.bloom.num_entries": "50000"},
            {"hoodie.index.bloom.num_entries": "50000", "hoodie.index.bloom.fpp": "0.1"},
        )
    ):
        lab = written(tmp_path / str(number), options)
        (bits,) = _filter_bits(lab)
        sizes.append(bits)
    usual, many, loose = sizes
    assert usual < loose < many
    # n keys with an error rate of p take -n * ln(p) / ln(2)^2 bits.
    assert 230_000 < loose < 250_000


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "lz4_raw", "uncompressed"])
def test_base_files_are_compressed_as_the_option_says(tmp_path, codec):
    lab = written(tmp_path, {"hoodie.parquet.compression.codec": codec})
    (slice_, *_) = lakedex.open(lab.path).files()
    metadata = pq.read_metadata(f"{lab.path}/{slice_.path_of(slice_.base.name)}")
    found = metadata.row_group(0).column(SCHEMA.get_field_index("x") + 5).compression.lower()
    assert found == {"lz4_raw": "lz4"}.get(codec, codec)


def test_a_writer_waits_for_the_lock_as_long_as_it_may(tmp_path):
    lab = written(tmp_path, {})
    with open_lock(lab.address.open()):
        begun = time.monotonic()
        with pytest.raises(LakedexError, match="lock"):
            lab.writer.with_options({"hoodie.write.lock.wait_time_ms": "50"}).insert(source(ROWS))
        assert time.monotonic() - begun < 20
    lab.holds(ROWS)


def test_leases_and_heartbeats_are_as_long_as_options_say():
    given = {
        "hoodie.write.lock.storage.validity.timeout.secs": "40",
        "hoodie.write.lock.storage.renew.interval.secs": "7",
        "hoodie.client.heartbeat.interval_in_ms": "1500",
        "hoodie.client.heartbeat.tolerable.misses": "9",
    }
    chosen = TransactionOptions.of(WriteOptions.resolve(CONFIG, {}, given).lock)
    assert (chosen.lock.lease_seconds, chosen.lock.renew_seconds) == (40, 7)
    assert (chosen.heartbeat.interval_seconds, chosen.heartbeat.tolerable_misses) == (1.5, 9)


CONFIG = TableConfig.from_properties(
    {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "p",
        "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    },
    "hoodie.properties",
)


@pytest.mark.parametrize("name", sorted(RESTATED))
def test_an_option_that_contradicts_the_table_is_refused_by_name(name):
    with pytest.raises((InvalidInput, UnsupportedFeature), match=name.replace(".", r"\.")):
        WriteOptions.resolve(CONFIG, {}, {name: "something.else"})


@pytest.mark.parametrize(
    "start", ["hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased."]
)
def test_options_of_partitions_by_time_are_compared_with_the_table(start):
    WriteOptions.resolve(CONFIG, {}, {f"{start}timestamp.type": "UNIX_TIMESTAMP"})
    for name in ("timestamp.type", "output.dateformat", "timezone", "input.timezone"):
        with pytest.raises(InvalidInput, match=f"{start}{name}='else' contradicts table t"):
            WriteOptions.resolve(CONFIG, {}, {f"{start}{name}": "else"})


OTHER_VALUES = {"true": "false", "false": "true", "KEEP_LATEST_COMMITS": "KEEP_LATEST_BY_HOURS"}
RENAMED = [(option, older) for option in OBEYED for older in option.older_names]


@pytest.mark.parametrize(("option", "older"), RENAMED, ids=[older for _, older in RENAMED])
def test_an_older_name_is_the_same_option(option, older):
    value = OTHER_VALUES.get(option.default, "7" if option.default.isdigit() else option.default)
    others = {"hoodie.index.type": "BUCKET"} if older.startswith("BUCKET") else {}
    by_name = WriteOptions.resolve(CONFIG, {}, {option.name: value, **others})
    by_older = WriteOptions.resolve(CONFIG, {}, {older: value, **others})
    assert by_name == by_older
    if value != option.default and "ttl" not in older:
        assert by_name != WriteOptions.resolve(CONFIG, {}, others)


def read(lab: Lab, **options: str) -> list[str]:
    """The keys of a query with these options."""
    given = {f"hoodie.datasource.{name.replace('_', '.')}": v for name, v in options.items()}
    pin = Pins().newest(ReadSpec.of(lab.path, given), lab.address)
    scan = Scan(pin.view.read_context, [pin.readable(each) for each in pin.slices], ("id", "ver"))
    changed = pin.changes
    found = (
        to_table(scan)
        if changed is None
        else lakedex.open(lab.path).changes(
            pin.spec.begin or "", pin.spec.end, columns=["id", "ver"]
        )
    )
    return sorted(f"{each['id']}{each['ver']}" for each in found.to_pylist())


def test_readers_see_the_rows_that_their_options_say(tmp_path):
    lab = Lab(tmp_path, "mor", "GLOBAL_RECORD_LEVEL_INDEX")
    times = []
    for version, keys in enumerate(["ab", "b", "c"], start=1):
        rows = [row(key, "p", version) for key in keys]
        times.append(lab.writer.upsert(source(rows)).instant)
    ends = [lakedex.open(lab.path).timeline.find(each).completion_time for each in times]
    assert read(lab) == ["a1", "b2", "c3"]
    for kind in ("query_type", "view_type"):
        assert read(lab, **{kind: "snapshot"}) == ["a1", "b2", "c3"]
        assert read(lab, **{kind: "read_optimized"}) == ["a1", "b1"]
    asked = {"query_type": "incremental"}
    for begin in ("read_begin_instanttime", "read_start_timestamp"):
        assert read(lab, **asked, **{begin: ends[0]}) == ["b2", "c3"]
        for end in ("read_end_instanttime", "read_end_timestamp"):
            assert read(lab, **asked, **{begin: ends[0], end: ends[1]}) == ["b2"]
    pin = Pins().newest(ReadSpec.of(lab.path, {"as.of.instant": times[0]}), lab.address)
    assert [each.logs for each in pin.slices] == [()]


def test_rows_of_known_keys_are_dropped_by_the_older_option_too(tmp_path):
    lab = Lab(tmp_path)
    lab.writer.insert(source([row("a", "p", 1)]))
    dropping = {"hoodie.datasource.write.insert.drop.duplicates": "true"}
    lab.writer.with_options(dropping).insert(source([row("a", "p", 2), row("b", "p", 2)]))
    lab.holds([row("a", "p", 1), row("b", "p", 2)], "id = 'a'")


def test_partition_stats_are_left_out_where_the_option_says_so(tmp_path):
    for given, there in (("true", True), ("false", False)):
        lab = written(tmp_path / given, {META + "index.partition.stats.enable": given})
        assert (
            "partition_stats" in lakedex.open(lab.path).snapshot.config.metadata_partitions
        ) is there


def test_services_beside_writes_are_left_to_others(tmp_path):
    busy = {
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "2",
    }
    seen = {}
    for services in ("true", "false"):
        lab = Lab(tmp_path / services)
        options = busy | {"hoodie.table.services.enabled": services}
        for version in range(5):
            writer = writer_with_services(lab.address, options=options)
            writer.upsert(source([row("a", "p", version)]))
        lab.holds([row("a", "p", 4)])
        timeline = lakedex.open(lab.path).timeline
        seen[services] = {each.action.value for each in timeline.completed()}, len(timeline)
    assert seen["false"] == ({"commit"}, 5)
    assert {"commit", "clean", "replacecommit"} <= seen["true"][0]


def test_a_clean_looks_at_all_partitions_where_the_option_says_so(tmp_path):
    for name, incremental in (
        ("clean.incremental.enabled", True),
        ("cleaner.incremental.mode", False),
    ):
        lab = Lab(tmp_path / name)
        options = {
            "hoodie.clean.commits.retained": "1",
            f"hoodie.{name}": "true" if incremental else "false",
        }
        for version in range(4):
            rows = [row("a", "p", version), *([] if version else [row("b", "q", 0)])]
            lab.writer.with_options(options).upsert(source(rows))
        lab.holds([row("a", "p", 3), row("b", "q", 0)])
        cleans = [
            each
            for each in lakedex.open(lab.path).timeline.completed()
            if each.action.value == "clean"
        ]
        assert cleans
        target = lab.writer.with_options(options).target()
        assert target.options.cleaning.incremental is incremental
