"""What commits did to rows: told again from the beginning, they make the table."""

from __future__ import annotations

from collections import Counter

import pytest

import lakedex
from lakedex.errors import InvalidInput
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from tests.support.aging import clean
from tests.support.write_lab import Lab, row, source


def told(lab: Lab, begin="earliest", end=None):
    return lakedex.open(lab.path).changes(begin, end, cdc=True).to_pylist()


def replayed(changes):
    """The rows that are there after all changes; none goes that was not there."""
    rows: Counter[str] = Counter()
    for each in changes:
        assert (each["before"] is None) == (each["op"] == "i"), each
        assert (each["after"] is None) == (each["op"] == "d"), each
        if each["before"] is not None:
            assert rows[repr(each["before"])] > 0, each
            rows[repr(each["before"])] -= 1
        if each["after"] is not None:
            rows[repr(each["after"])] += 1
    return sorted(rows.elements())


def ops(changes):
    return Counter((each["ts_ms"], each["op"]) for each in changes)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
def test_changes_told_again_make_the_table(tmp_path, kind, index):
    lab = Lab(tmp_path, kind, index)
    write = lab.writer
    write.insert(source([row(f"k{n}", "ab"[n % 2], 1, n) for n in range(6)]))
    write.upsert(source([row("k0", "a", 2, 9.0), row("k9", "a", 1)]))
    first = lakedex.open(lab.path).timeline.write_instants()[0].requested_time
    changes = told(lab, lakedex.open(lab.path).timeline.write_instants()[0].completion_time)
    ids = sorted((each["op"], each["after"]["id"]) for each in changes)
    assert ids == [("i", "k9"), ("u", "k0")]
    update = next(each for each in changes if each["op"] == "u")
    assert (update["before"], update["after"]) == (row("k0", "a", 1, 0.0), row("k0", "a", 2, 9.0))
    # A version with a lower ordering value loses, and plain inserts may repeat a key.
    write.upsert(source([row("k0", "a", 0, 5.0)]))
    write.insert(source([row("k1", "b", 3), row("k1", "b", 3)]))
    write.delete(source([row("k2", "a", 1)]))
    write.upsert(source([row("k3", "a", 5)]))
    if kind == "mor":
        compact_table(write)
    cluster_table(write, "ver")
    write.upsert(source([row("k0", "a", 7, 1.5)]))
    write.insert_overwrite(source([row("k5", "b", 9)]))
    write.delete_partitions(["p=a"])
    changes = told(lab)
    assert replayed(changes) == sorted(map(repr, lab.rows()))
    assert ops(changes)[first, "i"] == 6
    late = lakedex.open(lab.path).timeline.write_instants()[-1]
    assert {op for time, op in ops(changes) if time == late.requested_time} == {"d"}
    assert len(told(lab, late.requested_time)) == 0


def test_what_was_cleaned_is_named(tmp_path):
    lab = Lab(tmp_path)
    for number in range(4):
        lab.writer.upsert(source([row("k", "a", number)]))
    clean(lab.path)
    with pytest.raises(InvalidInput, match="older file versions were cleaned"):
        told(lab)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_newest_versions_count_by_completion_and_row_changes_by_begin(tmp_path, kind):
    """As in Hudi 1.2, which the scripts of tests/interop ask the same."""
    lab = Lab(tmp_path, kind)
    lab.writer.upsert(source([row("k0", "a", 1)]))
    lab.writer.upsert(source([row("k1", "a", 1)]))
    table = lakedex.open(lab.path)
    first, second = table.timeline.write_instants()

    def newest(begin, end=None):
        return sorted(table.changes(begin, end)["id"].to_pylist())

    def changed(begin, end=None):
        return sorted(each["after"]["id"] for each in told(lab, begin, end))

    assert newest(first.completion_time) == changed(first.completion_time) == ["k1"]
    assert newest(first.requested_time) == ["k0", "k1"]
    assert changed(first.requested_time) == ["k1"]
    assert newest("earliest", second.requested_time) == ["k0"]
    assert changed("earliest", second.requested_time) == ["k0", "k1"]
    assert newest("earliest", second.completion_time) == ["k0", "k1"]
