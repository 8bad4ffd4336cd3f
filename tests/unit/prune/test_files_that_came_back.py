"""Data files that stand in a table twice, or came back: indexes of keys change no answer."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lakedex
from lakedex import ReadOptions
from lakedex.errors import LakedexError, TimelineDamaged
from lakedex.services.clustering import cluster_table
from lakedex.services.index_creating import create_index
from lakedex.services.repairing import repair_table
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from tests.support.secondary import RECORD_INDEX, Trips

FILTERS = (
    "uuid = 'k1'",
    "uuid IN ('k0', 'k1', 'k3')",
    "rider = 'r1'",
    "lower(rider) = 'r1'",
    "ts = 1",
    "city = 'oslo'",
)
ALL = ReadOptions(weighs_cost=False, counts_usage=False)
NONE = ReadOptions(without_indexes={"all"}, counts_usage=False)
SHORT = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.clean.trigger.max.commits": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
OTHER_GROUP = "0a0a0a0a-0000-4000-8000-000000000001-0"
Damage = Callable[[Trips], None]


@pytest.fixture(scope="module")
def templates(tmp_path_factory) -> dict[str, Trips]:
    return {kind: make(tmp_path_factory.mktemp("whole") / kind, kind) for kind in ("cow", "mor")}


def make(place: Path, kind: str) -> Trips:
    statistics = {"hoodie.metadata.index.bloom.filter.enable": "true"}
    trips = Trips(place, kind, properties=RECORD_INDEX | statistics)
    for number in range(4):
        rows = [(f"k{each}", number, f"r{number}", "oslo") for each in (number, number + 1)]
        trips.writer.upsert(trips.rows(*rows))
    trips.index("rider")
    create_index(trips.writer, "idx_lower", "lower(rider)")
    create_index(trips.writer, "idx_ts", "ts", options={"lakedex.covering": "true"})
    create_index(trips.writer, "idx_city", "city", using="bitmap")
    trips.writer.upsert(trips.rows(("k1", 9, "r9", "oslo"), ("k8", 9, "r9", "rome")))
    return trips


def base_of(trips: Trips) -> Path:
    """The newest base file with most keys."""
    return max(Path(trips.path, "city=oslo").glob("*.parquet"), key=lambda file: file.name[-25:])


def copy_base(trips: Trips) -> None:
    """The newest base file once more, as another file group."""
    base = base_of(trips)
    shutil.copy(base, base.with_name(f"{OTHER_GROUP}_{base.name.partition('_')[2]}"))


def copy_logs(trips: Trips) -> None:
    for log in [*Path(trips.path, "city=oslo").glob(".*.log.*")]:
        name = re.sub(r"\.log\.(\d+)_", lambda found: f".log.{int(found[1]) + 1}_", log.name)
        shutil.copy(log, log.with_name(name))


def bring_back(trips: Trips) -> None:
    """A base file of a group that was replaced, cleaned and archived, from a backup."""
    base = base_of(trips)
    data = base.read_bytes()
    cluster_table(trips.writer, "rider")
    for number in (20, 21):
        trips.writer.upsert(trips.rows(("k2", number, f"r{number}", "oslo")))
    clean_table(trips.address, SHORT)
    archive_table(trips.address, SHORT)
    assert not base.exists()
    base.write_bytes(data)


def write_twice(trips: Trips) -> None:
    """Keys that are there, by a write that looks none up."""
    trips.writer.bulk_insert(trips.rows(("k1", 30, "r30", "rome"), ("k3", 31, "r1", "rome")))


def lose_metadata(trips: Trips) -> None:
    shutil.rmtree(Path(trips.path, ".hoodie/metadata"))


def lose_instant_of_metadata(trips: Trips) -> None:
    newest = trips.table().timeline.write_instants()[-1].requested_time
    for file in Path(trips.path, ".hoodie/metadata/.hoodie/timeline").glob(f"{newest}*"):
        file.unlink()


def answer(trips: Trips, how: ReadOptions, predicate: str | None = None) -> list[tuple]:
    found = lakedex.open(trips.path, options=how).to_arrow(predicate, trips.schema.names)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def keys_with_equal_answers(trips: Trips) -> list[str]:
    """The keys of a full scan, once every filter gave the same rows with and without indexes."""
    for predicate in (*FILTERS, "rider = 'new'"):
        assert answer(trips, ALL, predicate) == answer(trips, NONE, predicate), predicate
    rows = answer(trips, NONE)
    assert answer(trips, ALL) == rows
    return [row[0] for row in rows]


# case B80: lost timeline
@pytest.mark.parametrize(
    ("kind", "copied", "lost"),
    [
        ("cow", copy_base, None),
        ("cow", copy_base, lose_metadata),
        ("cow", bring_back, lose_metadata),
        ("cow", write_twice, None),
        ("mor", copy_logs, None),
        ("mor", copy_logs, lose_instant_of_metadata),
        ("mor", copy_base, lose_instant_of_metadata),
        ("mor", write_twice, lose_instant_of_metadata),
    ],
)
def test_indexes_of_keys_change_no_answer(templates, kind, copied: Damage, lost, tmp_path):
    trips = templates[kind].copied(tmp_path / "t")
    copied(trips)
    if lost is not None:
        lost(trips)
    keys = keys_with_equal_answers(trips)
    is_twice = copied is write_twice or (copied is copy_base and lost is not None)
    assert (len(keys) > len(set(keys))) == is_twice
    change = trips.rows(("k1", 99, "new", "oslo"))
    if lost is None:
        trips.writer.upsert(change)
    else:
        with pytest.raises(LakedexError, match=r"\.hoodie/metadata.*lakedex repair"):
            trips.writer.upsert(change)
        assert keys_with_equal_answers(trips) == keys
        repair_table(trips.writer)
        assert keys_with_equal_answers(trips) == keys
        trips.writer.upsert(change)
    keys_with_equal_answers(trips)


def test_a_timeline_from_an_old_backup_is_refused_whole(templates, tmp_path):
    """The table goes on after its backup was made: readers and writers would miss commits."""
    trips = templates["cow"].copied(tmp_path / "t")
    folder = Path(trips.path, ".hoodie/timeline")
    times = [each.requested_time for each in trips.table().timeline.write_instants()]
    for time in times[2:]:
        for file in folder.glob(f"{time}[._]*"):
            file.unlink()
    for ask in (
        lambda: answer(trips, ALL, "uuid = 'k1'"),
        lambda: answer(trips, NONE),
        lambda: trips.writer.upsert(trips.rows(("k1", 99, "new", "oslo"))),
        lambda: trips.writer.bulk_insert(trips.rows(("k1", 99, "new", "oslo"))),
        lambda: trips.writer.delete_where("uuid = 'k1'"),
    ):
        with pytest.raises(TimelineDamaged, match=times[2]):
            ask()
