"""Entries of files and partitions damaged on purpose: a repair writes these and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hudi import HudiTable

import lakedex
from lakedex.config import TableType
from lakedex.errors import LakedexError
from lakedex.format.bloom import BloomFilter
from lakedex.index.metadata_table import ALL_PARTITIONS_KEY, FILES_PAYLOAD
from lakedex.index.metadata_table.hashing import name_id
from lakedex.index.metadata_table.keys import (
    bloom_key,
    column_stats_key,
    column_stats_prefix,
    partition_id,
)
from lakedex.index.metadata_table.partitions import PARTITION_STAT_MARK
from lakedex.index.verification.findings import ProblemKind
from lakedex.services.index_creating import create_index
from lakedex.services.repairing import repair_table
from tests.support.damage import Damage
from tests.support.secondary import Trips

ROWS = [(f"k{n}", 1, f"r{n % 3}", "oslo" if n % 2 else "rio") for n in range(20)]
ALL = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
EXPRESSIONS = {
    "expr_index_up": ("upper(rider)", "column_stats"),
    "expr_index_low": ("lower(rider)", "bloom_filters"),
    "expr_index_own-both": ("concat(city, rider)", "column_stats"),
}
STATS, BLOOM = "ColumnStatsMetadata", "BloomFilterMetadata"


@pytest.fixture(scope="module", params=["cow", "mor"])
def template(request, tmp_path_factory) -> Trips:
    """A table with every index, whose metadata table has base files and log files."""
    made = Trips(tmp_path_factory.mktemp("made") / "t", request.param)
    writer = made.writer.with_options(ALL)
    writer.insert(made.rows(*ROWS))
    for name, (expression, kind) in EXPRESSIONS.items():
        given = name.removeprefix("expr_index_").removeprefix("own-")
        create_index(writer, given, expression, using=kind)
    compacting = writer.with_options({"hoodie.metadata.compact.max.delta.commits": "1"})
    compacting.upsert(made.rows(("k1", 2, "r8", "oslo")))
    writer.upsert(made.rows(("k2", 3, "r9", "rio")))
    return made


@pytest.fixture
def trips(template, tmp_path) -> Trips:
    return template.copied(tmp_path / "t")


def spoilt(record: dict[str, Any]) -> dict[str, Any]:
    """A record that says that there is nothing in its file."""
    if record.get(BLOOM):
        empty = BloomFilter.create_simple(10, 0.1)
        return record | {BLOOM: record[BLOOM] | {"bloomFilter": empty.encode().encode()}}
    return record | {STATS: record[STATS] | {"nullCount": record[STATS]["valueCount"]}}


def keys_of_entries(trips: Trips, index: str) -> tuple[str, str, str | None]:
    """Keys of an entry of one partition, of another one, and of what was never there."""
    bases = {each.partition: each.base.name for each in trips.table().snapshot.slices}
    oslo, rio = ("city=oslo", bases["city=oslo"]), ("city=rio", bases["city=rio"])
    nobody = ("city=oslo", f"0000{rio[1]}")
    if index == "partition_stats":
        oslo, rio, nobody = ("city=oslo",), ("city=rio",), ("city=nowhere",)
        return tuple(column_stats_prefix("uuid", *each) for each in (oslo, rio, nobody))
    if index in ("bloom_filters", "expr_index_low"):
        found = tuple(bloom_key(*each) for each in (oslo, rio, nobody))
    else:
        column = {"expr_index_own-both": "city", "expr_index_up": "rider"}.get(index, "uuid")
        found = tuple(column_stats_key(column, *each) for each in (oslo, rio, nobody))
    # Of a file that is gone an expression index may have entries: they are never asked.
    return (*found[:2], None if index in EXPRESSIONS else found[2])


def written_by_newest(path: str) -> dict[str, int]:
    """How many entries and marks of deletion the newest commit of the metadata table wrote."""
    timeline = lakedex.open(path).snapshot.metadata.timeline
    stats = timeline.commit_metadata(timeline.write_instants()[-1]).partition_to_stats
    return {
        name: sum((each.num_writes or 0) + (each.num_deletes or 0) for each in found)
        for name, found in stats.items()
    }


@pytest.mark.parametrize(
    "index", ["column_stats", "partition_stats", "bloom_filters", *EXPRESSIONS]
)
def test_bad_entries_are_named_and_only_those_are_repaired(trips, index):
    damage = Damage(Path(trips.path))
    before = {key: damage.record(index, key) for key in damage.keys(index)}
    wrong, missing, stale = keys_of_entries(trips, index)
    put = {wrong: spoilt(before[wrong])} | ({stale: before[wrong]} if stale else {})
    damage.write(index, put, [wrong, missing])
    # Whatever other engines write has no entry in an index that they do not know.
    bad = {wrong, stale, None if index == "expr_index_own-both" else missing} - {None}
    told = [each.entries for each in lakedex.open(trips.path).verify([index]).problems]
    assert sorted(told) == sorted((key,) for key in bad)
    other = {name: damage.keys(name) for name in trips.table().snapshot.config.metadata_partitions}
    done = repair_table(trips.writer)
    assert done.ok, str(done)
    assert (done.repaired, done.rebuilt) == ({index: len(bad)}, ())
    assert written_by_newest(trips.path) == {"files": 1, index: len(bad)}
    after = {key: damage.record(index, key) for key in damage.keys(index)}
    kept = before.keys() - bad - {missing}
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    assert after.keys() == before.keys() - ({missing} - bad)
    assert {n: damage.keys(n) for n in other if n != index} == {
        n: keys for n, keys in other.items() if n != index
    }
    assert told_by(after[wrong]) == told_by(before[wrong])
    assert sum(batch.num_rows for batch in HudiTable(trips.path).read()) == len(ROWS)


def told_by(record: dict[str, Any]) -> Any:
    """What a record says of its file; a partition counts the rows of logs too, or not."""
    if record.get(BLOOM):
        return record[BLOOM]["bloomFilter"]
    stats = record[STATS]
    return stats["minValue"], stats["maxValue"], stats["fileName"], stats["columnName"]


def test_a_range_of_a_partition_in_an_expression_index(trips):
    index = "expr_index_up"
    key = name_id("rider") + name_id(PARTITION_STAT_MARK) + partition_id("city=rio")
    damage = Damage(Path(trips.path))
    before = damage.record(index, key)
    damage.put(index, {key: spoilt(before)})
    done = repair_table(trips.writer)
    assert done.ok
    assert (done.repaired, done.rebuilt) == ({index: 1}, ())
    assert written_by_newest(trips.path) == {"files": 1, index: 1}
    assert told_by(damage.record(index, key)) == told_by(before)


def test_entries_of_several_indexes_in_one_commit(trips):
    damage = Damage(Path(trips.path))
    names = ("column_stats", "bloom_filters", "expr_index_up")
    for name in names:
        damage.remove(name, [keys_of_entries(trips, name)[0]])
        trips.writer.insert(trips.rows((f"x{name}", 1, "r1", "lima")))  # another time
    damage.remove("record_index", ["k7"])
    done = repair_table(trips.writer)
    assert done.ok
    assert done.repaired == dict.fromkeys((*names, "record_index"), 1)
    assert written_by_newest(trips.path) == {
        "files": 1,
        "record_index": 1,
        **dict.fromkeys(names, 1),
    }
    trips.writer.upsert(trips.rows(("k1", 9, "new", "oslo")))
    assert trips.found("upper(rider) = 'NEW'") == ["k1"]
    trips.assert_whole()


def test_lost_data_files_stay_listed_until_they_are_given_up(trips):
    """Without their entries queries would silently show fewer rows, or an older file's."""
    lost = [each for each in trips.table().snapshot.slices if each.partition == "city=oslo"]
    names = [name for each in lost for name in each.file_names]
    for name in names:
        Path(trips.path, "city=oslo", name).unlink()
    report = trips.table().verify()
    (problem,) = [each for each in report.problems if each.index == "files"]
    assert (problem.kind, problem.key) == (ProblemKind.LOST, "city=oslo")
    assert min(names) in problem.detail or max(names) in problem.detail
    for index in (None, ["files"]):
        done = repair_table(trips.writer, index)
        assert "not repaired in files: 'city=oslo'" in str(done)
        assert not done.ok
        with pytest.raises(LakedexError, match=names[0].partition("_")[0]):
            trips.table().to_arrow()
    done = repair_table(trips.writer, accepts_data_loss=True)
    assert done.ok
    assert done.given_up == tuple(sorted(f"city=oslo/{name}" for name in names))
    assert "given up with its rows" in str(done)
    left = trips.table().to_arrow("city = 'oslo'").to_pylist()
    is_cow = trips.table().snapshot.config.table_type is TableType.COPY_ON_WRITE
    # The file of before, if there is one, shows its versions of the rows.
    assert [row["rider"] for row in left if row["uuid"] == "k1"] == (["r1"] if is_cow else [])
    assert trips.table().verify().ok


def test_a_listing_is_not_built_again_while_data_files_are_lost(trips):
    """Only the listing knows of them."""
    (base,) = [e.base.name for e in trips.table().snapshot.slices if e.partition == "city=rio"]
    Path(trips.path, "city=rio", base).unlink()
    damage = Damage(Path(trips.path))
    record = damage.record("files", ALL_PARTITIONS_KEY)
    listed = [entry for entry in dict(record[FILES_PAYLOAD]).items() if entry[0] != "city=oslo"]
    damage.put("files", {ALL_PARTITIONS_KEY: record | {FILES_PAYLOAD: listed}})
    with pytest.raises(LakedexError, match=f"cannot be built again: .*{base}"):
        repair_table(trips.writer)
