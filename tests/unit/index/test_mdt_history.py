"""A metadata table through creation, commits and compactions holds what a dictionary says."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lakedex.config.table_config import TimelineZone
from lakedex.errors import AlreadyExists, IndexUnusable, UnsupportedFeature
from lakedex.index.commit_changes import CommitChanges
from lakedex.index.deltacommit import commit_changes
from lakedex.index.kinds.record_index import records as record_index_records
from lakedex.index.metadata_table import compaction
from lakedex.index.metadata_table.compaction import compact_if_due
from lakedex.index.metadata_table.instants import MetadataStore
from lakedex.timeline import Action, to_epoch_ms
from tests.support.late_attempts import RepeatingEngine
from tests.support.metadata_lab import Lab, file_id, stats_table
from tests.support.timeline_files import write_pending


@pytest.fixture(params=["global", "partitioned"])
def lab(tmp_path, request):
    return Lab(tmp_path / "t", partitioned=request.param == "partitioned")


def compact(lab, at=10, *, has_pending=False):
    return compact_if_due(
        lab.address,
        lab.engine,
        max_delta_commits=at,
        next_time=lab.clock.next,
        has_pending=has_pending,
    )


def check(lab):
    times = {time for _, _, time in lab.places.values()}
    millis = {time: to_epoch_ms(time, TimelineZone.UTC) for time in times}
    expected = {
        key: (partition, name, millis[time]) for key, (partition, name, time) in lab.places.items()
    }
    assert lab.stored_places() == expected
    stored = lab.stored_files()
    partitions = stored.pop("__all_partitions__")
    assert stored == lab.files
    assert set(partitions) == set(lab.files)


def random_commit(lab, number, rnd):
    """Adds, deletes, moves between partitions and within; files come and go."""
    partitions = [f"p={rnd.randrange(3)}" for _ in range(2)]
    entries = [(f"k{number}-{i}é😀", rnd.choice(partitions), file_id(number)) for i in range(25)]
    gone = []
    for place, (partition, name, _) in rnd.sample(list(lab.places.items()), len(lab.places) // 5):
        key = place[1] if lab.partitioned else place
        gone.append((key, partition, name))
        if rnd.random() < 0.5:
            entries.append((key, rnd.choice(partitions), file_id(100 + number)))
    added = {path: {f"f{number}-{path[2:]}_0-0-0_1.parquet": number + 1} for path in partitions}
    removed = {path: list(files)[:1] for path, files in lab.files.items() if path not in added}
    ranges = [(path, next(iter(added[path])), number, number + 5, 10, 1) for path in added]
    lab.commit(
        entries=entries,
        deletes=gone,
        added=added,
        removed=removed,
        notes={"column_stats": {"n": stats_table(ranges, pa.int64())}},
    )
    return ranges, removed


def test_commits_before_between_and_after_two_compactions_agree_with_a_dictionary(lab):
    rnd = random.Random(7)
    lab.create()
    by_file, by_partition, compactions = {}, {}, []
    for number in range(24):
        ranges, removed = random_commit(lab, number, rnd)
        for path, files in removed.items():
            for name in files:
                by_file.pop((path, name), None)
        for path, name, low, high, values, nulls in ranges:
            by_file[path, name] = (low, high, values, nulls)
            old = by_partition.get(path, (low, high, 0, 0))
            widened = min(old[0], low), max(old[1], high)
            by_partition[path] = (*widened, old[2] + values, old[3] + nulls)
        compactions += filter(None, [compact(lab)])
        if number in (0, 8, 9, 10, 20):
            check(lab)
    check(lab)
    assert len(compactions) == 2
    metadata = lab.open()
    assert {group.base_instant for group in metadata.groups("files")} == {compactions[1]}
    assert ranges_in(metadata, "column_stats", lambda stats: stats["fileName"]) == {
        name: bounds for (_, name), bounds in by_file.items()
    }
    assert ranges_in(metadata, "partition_stats", lambda stats: stats["fileName"]) == by_partition
    some = pa.array(sorted({key[1] if lab.partitioned else key for key in lab.places})[::9])
    if not lab.partitioned:
        found = lab.stored_places(metadata.lookup("record_index", some))
        assert set(found) == set(some.to_pylist())


def ranges_in(metadata, name, key):
    found = {}
    for row in metadata.scan(name).to_pylist():
        stats = row["ColumnStatsMetadata"]
        low, high = (stats[end]["member2"]["value"] for end in ("minValue", "maxValue"))
        found[key(stats)] = (low, high, stats["valueCount"], stats["nullCount"])
    return found


def test_the_logs_of_a_commit_that_came_after_the_plan_survive(lab):
    lab.create()
    lab.commit(entries=[("a", "p=1", file_id(1))], added={"p=1": {"f": 1}})
    assert compact(lab, 1) is not None
    lab.commit(entries=[("b", "p=1", file_id(1))], deletes=[("a", "p=1", file_id(1))])
    check_places = lab.stored_places()
    assert {key[1] if lab.partitioned else key for key in check_places} == {"b"}
    assert compact(lab, 1) is not None
    assert lab.stored_places() == check_places


def test_an_attempt_that_was_cut_short_is_removed_and_done_again(lab, monkeypatch):
    lab.create()
    lab.commit(entries=[("a", "p=1", file_id(1))], added={"p=1": {"f": 1}})
    time = lab.clock.next()
    write_pending(lab.root, time, Action.DELTACOMMIT)
    notes = lab.notes([("b", "p=2", file_id(2)), ("c", "p=2", file_id(2))])
    first = CommitChanges(added={"p=2": {"g": 2}}, key_notes=notes, note_buckets=lab.buckets)
    with monkeypatch.context() as patch:
        patch.setattr(MetadataStore, "complete", cut_short)
        with pytest.raises(KeyboardInterrupt):
            commit_changes(lab.address, lab.engine, time, first, next_time=lab.clock.next)
    assert len(lab.stored_places()) == 1
    second = CommitChanges(added={"p=3": {"h": 3}}, note_buckets=lab.buckets)
    commit_changes(lab.address, lab.engine, time, second, next_time=lab.clock.next)
    lab.complete(time)
    assert len(lab.stored_places()) == 1
    assert set(lab.stored_files()["__all_partitions__"]) == {"p=1", "p=3"}
    with pytest.raises(AlreadyExists, match=time):
        commit_changes(lab.address, lab.engine, time, second, next_time=lab.clock.next)


def cut_short(*_args, **_kwargs):
    raise KeyboardInterrupt


def test_a_commit_that_the_data_table_never_completed_stays_out_of_a_compaction(lab):
    lab.create()
    lab.commit(entries=[("a", "p=1", file_id(1))], added={"p=1": {"f": 1}})
    before = lab.stored_places()
    crashed = lab.commit(entries=[("b", "p=1", file_id(1))], complete=False)
    assert lab.stored_places() == before
    # It may still complete, and a compaction now would put its log into a slice that is past.
    assert compact(lab, 1) is None
    lab.complete(crashed)
    assert len(lab.stored_places()) == 2
    assert compact(lab, 1) is not None
    assert len(lab.stored_places()) == 2


# case B44: metadata compaction behind a pending instant
def test_a_compaction_that_was_cut_short_is_finished_by_the_next_call(lab, monkeypatch):
    rnd = random.Random(3)
    lab.create()
    for number in range(3):
        random_commit(lab, number, rnd)
    with monkeypatch.context() as patch:
        patch.setattr(MetadataStore, "complete", cut_short)
        with pytest.raises(KeyboardInterrupt):
            compact(lab, 3)
    check(lab)
    random_commit(lab, 3, rnd)
    check(lab)
    (pending,) = MetadataStore.open(lab.address).timeline.pending_of(Action.COMPACTION)
    assert compact(lab, 100) == pending.requested_time
    random_commit(lab, 4, rnd)
    check(lab)
    assert lab.open().groups("files")[0].base_instant == pending.requested_time


def test_a_plan_whose_files_are_gone_is_dropped(lab, monkeypatch):
    lab.create()
    lab.commit(entries=[("a", "p=1", file_id(1))], added={"p=1": {"f": 1}})
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "compact_groups", cut_short)
        with pytest.raises(KeyboardInterrupt):
            compact(lab, 1)
    (pending,) = MetadataStore.open(lab.address).timeline.pending_of(Action.COMPACTION)
    requested = lab.root / f".hoodie/metadata/.hoodie/timeline/{pending.requested_time}"
    requested.with_suffix(".compaction.requested").write_bytes(b"")
    again = compact(lab, 1)
    assert again not in (None, pending.requested_time)
    assert MetadataStore.open(lab.address).timeline.pending() == ()
    check(lab)


# case B44: metadata compaction behind a pending instant
def test_pending_writes_put_a_compaction_off_but_not_for_ever(lab):
    lab.create()
    lab.commit(added={"p=1": {"f": 1}})
    assert compact(lab, 1, has_pending=True) is None
    for _ in range(2):
        lab.commit()
    assert compact(lab, 1, has_pending=True) is not None
    assert compact(lab, 1) is None


def test_an_index_that_is_not_kept_up_to_date_is_refused_before_anything_is_written(lab):
    lab.create()
    lab.register({"files", "expr_index_idx_s"})
    before = sorted(path for path in lab.root.rglob("*"))
    with pytest.raises(UnsupportedFeature, match="expr_index_idx_s"):
        commit_changes(
            lab.address, lab.engine, "20240101000001000", CommitChanges(), next_time=lab.clock.next
        )
    assert sorted(path for path in lab.root.rglob("*")) == before


def test_without_a_metadata_table_there_is_nothing_to_commit_to(lab):
    with pytest.raises(IndexUnusable, match="no metadata table"):
        commit_changes(
            lab.address, lab.engine, "20240101000001000", CommitChanges(), next_time=lab.clock.next
        )
    assert compact(lab, 1) is None


def test_notes_for_another_number_of_shards_are_refused(tmp_path):
    lab = Lab(tmp_path / "t", shards=4, buckets=4)
    lab.create()
    lab.shards = 5
    entries = [(f"k{i}", "p=1", file_id(1)) for i in range(20)]
    with pytest.raises(Exception, match="number of file groups changed"):
        lab.commit(entries=entries)


def test_a_worker_that_comes_too_late_writes_nothing(lab, monkeypatch):
    lab.create()
    lab.engine = RepeatingEngine(2)
    seen = []

    def keep(job, task):
        seen.append((job, task))
        return []

    with monkeypatch.context() as patch:
        patch.setattr(record_index_records, "write_notes", keep)
        time = lab.commit(entries=[("a", "p=1", file_id(1))], added={"p=1": {"f": 1}})
    store = MetadataStore.open(lab.address)
    store.discard(time, Action.DELTACOMMIT)
    before = store.files_of("record_index")
    job, task = seen[0]
    with pytest.raises(Exception, match="not pending any more"):
        record_index_records.write_notes(job, task)
    assert store.files_of("record_index") == before
