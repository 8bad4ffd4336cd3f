"""Policies of resizing: what is split and merged, and what a ring is after any of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import InvalidInput
from lakedex.index.kinds.bucket.hashes import HASH_MASK
from lakedex.index.kinds.bucket.resize import (
    BucketChange,
    BucketSize,
    MiddlePolicy,
    PlannedChange,
    PrefixPolicy,
    RecordsPolicy,
    ResizeLimits,
    merge_of,
    split_points,
    within_bounds,
)
from lakedex.index.kinds.bucket.ring import (
    HashNode,
    HashRing,
    NodeTag,
    even_ring,
    local_depths,
    prefix_ring,
)

ROW = 10
"""The bytes of a record in these tests."""
LIMITS = ResizeLimits.of(100 * ROW, split=2.0, merge=0.2)


def sizes_of(ring: HashRing, hashes: np.ndarray) -> list[BucketSize]:
    counts = np.bincount(ring.positions(hashes), minlength=len(ring.nodes))
    return [BucketSize(number, int(count) * ROW) for number, count in enumerate(counts)]


def step(policy, ring, hashes, limits=LIMITS, instant="1"):
    """The changes of one schedule, and the ring after it."""
    at = ring.positions(hashes)
    found = policy.changes(ring, sizes_of(ring, hashes), limits, lambda n: hashes[at == n])
    children = [node for change in found for node in change.children]
    return found, ring.resized(children, instant) if children else ring


def some_hashes(seed: int, count: int, skew: float = 1.0) -> np.ndarray:
    """Hashes of keys; the larger the skew, the more of them are small."""
    random = np.random.default_rng(seed).random(count) ** skew
    return (random * HASH_MASK).astype(np.uint32)


def owned(ring: HashRing) -> int:
    """How many hash values all buckets own together."""
    return sum((end - begin) % (HASH_MASK + 1) + 1 for begin, end in ring.ranges())


POLICIES = {
    "records": (RecordsPolicy(), even_ring),
    "middle": (MiddlePolicy(), even_ring),
    "prefix": (PrefixPolicy(), prefix_ring),
}


@pytest.mark.parametrize("name", POLICIES)
@given(
    seeds=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 4000)), min_size=1, max_size=8),
    count=st.sampled_from([1, 2, 4, 8]),
    skew=st.sampled_from([1.0, 3.0, 12.0]),
)
def test_any_sequence_of_resizes_moves_only_what_it_names(name, seeds, count, skew):
    policy, first = POLICIES[name]
    ring = first("p", count)
    for seed, rows in seeds:
        hashes = some_hashes(seed, rows, skew)
        changes, after = step(policy, ring, hashes)
        named = [number for change in changes for number in change.numbers]
        assert len(set(named)) == len(named)
        assert len(after.nodes) == 1 or owned(after) == HASH_MASK + 1
        if name == "prefix":
            assert local_depths(after)
        before_ids = np.array([node.file_id for node in ring.nodes])[ring.positions(hashes)]
        after_ids = np.array([node.file_id for node in after.nodes])[after.positions(hashes)]
        moved = np.isin(ring.positions(hashes), named)
        assert (before_ids[~moved] == after_ids[~moved]).all()
        for change in changes:
            own = np.isin(ring.positions(hashes), change.numbers)
            assert set(after_ids[own]) <= {node.file_id for node in change.outputs}
        fresh = {node.file_id for change in changes for node in change.outputs}
        assert fresh.isdisjoint(node.file_id for node in ring.nodes)
        ring = after


@pytest.mark.parametrize("skew", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("name", ["records", "prefix"])
def test_buckets_stay_near_the_target_while_a_table_grows(name, skew):
    policy, first = POLICIES[name]
    ring, hashes = first("p", 4), some_hashes(7, 40_000, skew)
    moved, rounds = 0, list(range(400, 40_001, 400))
    for number, rows in enumerate(rounds):
        changes, after = step(policy, ring, hashes[:rows], instant=str(number))
        at = ring.positions(hashes[:rows])
        moved += sum(int(np.isin(at, each.numbers).sum()) for each in changes)
        ring = after
    sizes = [each.size_bytes for each in sizes_of(ring, hashes)]
    assert max(sizes) <= LIMITS.split_above
    assert moved <= 2 * len(hashes)
    if name == "records":
        assert min(sizes) >= LIMITS.target_bytes // 2


def test_a_bucket_far_too_large_is_split_many_ways_at_once():
    ring, hashes = even_ring("p", 1), some_hashes(3, 10_000, 3.0)
    changes, after = step(RecordsPolicy(), ring, hashes)
    assert len(changes) == 1
    sizes = [each.size_bytes for each in sizes_of(after, hashes)]
    assert len(sizes) > 100
    assert max(sizes) <= 2 * min(sizes) <= 2 * LIMITS.target_bytes


def test_records_are_halved_wherever_their_hashes_are():
    begin, value = 2_000_000_000, 100
    hashes = np.array([2_147_000_000, 2_147_483_647, 3, 50], dtype=np.uint32)
    assert split_points(hashes, begin, value, 2) == [2_147_483_647]
    assert split_points(hashes, begin, value, 4) == [2_147_000_000, 2_147_483_647, 3]
    ring = HashRing("p", (HashNode(value, "a"), HashNode(begin - 1, "b")))
    assert ring.ranges()[0] == (begin, value)


@given(
    st.lists(st.integers(0, 40), min_size=0, max_size=60),
    st.integers(0, HASH_MASK),
    st.integers(2, 9),
)
def test_split_points_are_inside_of_the_bucket_and_in_order(values, begin, ways):
    turned = (np.array(values, dtype=np.int64) + begin) % (HASH_MASK + 1)
    value = (begin + 40) % (HASH_MASK + 1)
    points = split_points(turned.astype(np.uint32), begin, value, ways)
    places = [(point - begin) % (HASH_MASK + 1) for point in points]
    assert places == sorted(set(places))
    assert len(points) < ways
    assert all(0 <= place < 40 for place in places)
    # No child is without records.
    parts = np.searchsorted(np.array(places), np.array(values, dtype=np.int64))
    if points:
        assert set(parts.tolist()) == set(range(len(points) + 1))


def test_one_hash_value_cannot_be_split():
    hashes = np.full(1000, 17, dtype=np.uint32)
    changes, after = step(RecordsPolicy(), even_ring("p", 1), hashes)
    assert changes == []
    assert len(after.nodes) == 1


def test_hudi_splits_at_the_middle_and_merges_across_the_end():
    # case B50: merge group must be adjacent; case B70: the highest node is below the top
    ring = even_ring("p", 4)
    sizes = [BucketSize(0, 10), BucketSize(1, 5000), BucketSize(2, 10), BucketSize(3, 10)]
    changes = MiddlePolicy().changes(ring, sizes, LIMITS, lambda _: np.zeros(0, np.uint32))
    split, merge = changes
    assert [node.value for node in split.children] == [805306368, 1073741824]
    assert merge.numbers == (2, 3, 0)
    assert [(node.value, node.tag) for node in merge.children] == [
        (1610612736, NodeTag.DELETE),
        (2147483647, NodeTag.DELETE),
        (536870912, NodeTag.REPLACE),
    ]
    after = ring.resized([*split.children, *merge.children], "1")
    assert [node.value for node in after.nodes] == [536870912, 805306368, 1073741824]


def test_only_adjacent_buckets_are_merged():  # case B50
    with pytest.raises(InvalidInput, match="adjacent"):
        merge_of(even_ring("p", 4), [0, 2])
    sizes = [BucketSize(n, 10 if n % 2 else 1900) for n in range(4)]
    changes = RecordsPolicy().changes(
        even_ring("p", 4), sizes, LIMITS, lambda _: np.zeros(0, np.uint32)
    )
    assert changes == []


def test_what_a_service_has_is_left_alone():
    ring, nothing = even_ring("p", 4), np.arange(10, dtype=np.uint32)
    for policy in (RecordsPolicy(), MiddlePolicy()):
        held = [BucketSize(n, 9000 if n < 2 else 1, is_free=n == 0) for n in range(4)]
        changes = policy.changes(ring, held, LIMITS, lambda _: nothing)
        assert [change.numbers for change in changes] == [(0,)]


@pytest.mark.parametrize("name", POLICIES)
def test_the_number_of_buckets_stays_within_its_bounds(name):
    policy, first = POLICIES[name]
    limits = ResizeLimits.of(1000, split=2.0, merge=0.2, least=3, most=6)
    _, grown = step(policy, first("p", 4), some_hashes(1, 20_000), limits)
    assert len(grown.nodes) == 6
    _, shrunk = step(policy, first("p", 8), some_hashes(1, 8), limits)
    assert len(shrunk.nodes) >= 3


def test_bytes_bound_a_schedule_before_partitions():
    split, merge = BucketChange((0,), ()), BucketChange((0, 1), ())
    changes = [
        PlannedChange("a", merge, 1),
        PlannedChange("b", split, 50),
        PlannedChange("c", split, 40),
        PlannedChange("d", split, 10),
    ]
    chosen = within_bounds(changes, 60, 2)
    assert [(each.partition, each.size_bytes) for each in chosen] == [("b", 50), ("d", 10)]
    chosen = within_bounds(changes, 1, 9)
    assert [each.partition for each in chosen] == ["b"]
    chosen = within_bounds(changes, 1000, 2)
    assert [each.partition for each in chosen] == ["b", "c"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": 1.0, "merge": 1.0}, "split above"),
        ({"split": 2.0, "merge": 0.2, "least": 9, "most": 4}, "9 to 4 buckets"),
    ],
)
def test_limits_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        ResizeLimits.of(1000, **options)
