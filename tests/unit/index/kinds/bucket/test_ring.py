"""Hash rings: every hash value has one owner, whatever was split or merged before."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakedex.errors import CorruptFile, InvalidInput
from lakedex.index.kinds.bucket.hashes import HASH_MASK
from lakedex.index.kinds.bucket.ring import (
    Directory,
    HashNode,
    HashRing,
    NodeTag,
    even_ring,
    local_depths,
    name_uuid,
    node_prefix,
    nodes_of_plan,
    prefix_ring,
)
from tests.support.golden import GOLDEN_FOLDER

HUDI = json.loads((GOLDEN_FOLDER / "bucket_hashes.json").read_text())["rings"]
HASHES = st.lists(st.integers(0, HASH_MASK), min_size=1, max_size=20)


@pytest.mark.parametrize("case", HUDI, ids=lambda case: f"{case['partition']}-{case['count']}")
def test_the_first_ring_is_that_of_hudi(case):
    ring = even_ring(case["partition"], case["count"])
    assert len(ring.nodes) == case["count"]
    nodes = [[node.value, node.prefix] for node in ring.nodes]
    assert nodes[: len(case["nodes"])] == case["nodes"]


def owners(ring, value):
    """The nodes whose ranges hold a hash value."""
    found = []
    for number, (begin, end) in enumerate(ring.ranges()):
        inside = begin <= value <= end if begin <= end else value >= begin or value <= end
        found += [number] if inside else []
    return found


def covers_once(ring):
    """The sizes of all ranges add up to the hash space."""
    sizes = [(end - begin) % (HASH_MASK + 1) + 1 for begin, end in ring.ranges()]
    return sum(sizes) == HASH_MASK + 1 or len(ring.nodes) == 1


RESIZES = st.lists(
    st.tuples(st.sampled_from(["split", "merge"]), st.integers(0, 10**6)), max_size=12
)


@given(st.integers(1, 40), RESIZES, HASHES)
def test_ranges_cover_the_space_once_through_every_resize(count, resizes, hashes):  # case B70
    ring = even_ring("p", count)
    for sequence, (kind, chosen) in enumerate(resizes):
        number, instant = chosen % len(ring.nodes), f"2026010100000{sequence:04d}"
        node = ring.nodes[number]
        before = np.array(hashes, dtype=np.uint32)
        old = ring.positions(before)
        if kind == "split":
            middle = ring.split_at(number)
            if middle in {each.value for each in ring.nodes}:
                continue  # as narrow as it gets
            values = (middle, node.value)
            children = [
                HashNode(value, node_prefix("p", 0, value, instant), NodeTag.REPLACE)
                for value in values
            ]
            moved = {number}
        else:
            if len(ring.nodes) == 1:
                continue
            other = (number + 1) % len(ring.nodes)
            children = [
                HashNode(node.value, "", NodeTag.DELETE),
                HashNode(ring.nodes[other].value, node_prefix("p", 0, 0, instant), NodeTag.REPLACE),
            ]
            moved = {number, other}
        after = ring.resized(children, instant)
        new = after.positions(before)
        for at in range(len(hashes)):
            was, now = ring.nodes[old[at]], after.nodes[new[at]]
            # Only the buckets that the resize names move.
            assert (was.prefix == now.prefix) is (int(old[at]) not in moved)
        ring = after
        assert covers_once(ring)
        assert ring.sequence >= 1
    for value in [*hashes, 0, HASH_MASK]:
        position = ring.positions(np.array([value], dtype=np.uint32)).tolist()
        assert owners(ring, value) == position
    assert HashRing.from_json(ring.to_json(), path="x") == ring


@given(st.integers(0, 6), st.lists(st.integers(0, 10**6), max_size=14), HASHES)
def test_a_directory_finds_what_its_ring_says(depth, splits, hashes):
    ring = prefix_ring("p", 1 << depth)
    for sequence, chosen in enumerate(splits):
        number = chosen % len(ring.nodes)
        values = (ring.split_at(number), ring.nodes[number].value)
        if len(ring.nodes) == 1:
            values = (HASH_MASK >> 1, HASH_MASK)
        children = [HashNode(value, name_uuid(f"{sequence},{value}".encode())) for value in values]
        ring = ring.resized(children, f"{sequence}")
    depths = local_depths(ring)
    assert sum(2.0**-each for each in depths) == 1
    directory = Directory.of(ring)
    assert directory is not None
    assert directory.depth == max(depths)
    wanted = np.array([*hashes, 0, HASH_MASK], dtype=np.uint32)
    assert directory.positions(wanted).tolist() == ring.positions(wanted).tolist()


def test_extendible_hashing_needs_prefixes():
    with pytest.raises(InvalidInput, match="no prefix"):
        Directory.of(even_ring("p", 3))
    whole = prefix_ring("p", 4)
    with pytest.raises(InvalidInput, match="ends at"):
        Directory.of(replace(whole, nodes=whole.nodes[:2]))


@pytest.mark.parametrize(
    "name", ["bucket_consistent", "bucket_consistent_split", "bucket_consistent_merge"]
)
def test_hudis_own_rings_are_read_and_written_alike(name):
    with zipfile.ZipFile(GOLDEN_FOLDER / f"{name}.zip") as packed:
        metas = [each for each in packed.namelist() if each.endswith(".hashing_meta")]
        assert metas
        for meta in metas:
            data = packed.read(meta)
            ring = HashRing.from_json(data, path=meta)
            record = json.loads(ring.to_json())
            assert record.pop("crc32")
            assert record == json.loads(data)
            assert covers_once(ring)
            if ring.sequence == 0:
                assert ring == even_ring(ring.partition, 4)


def test_a_merged_ring_wraps():  # case B70
    with zipfile.ZipFile(GOLDEN_FOLDER / "bucket_consistent_merge.zip") as packed:
        metas = sorted(each for each in packed.namelist() if each.endswith(".hashing_meta"))
        ring = HashRing.from_json(packed.read(metas[1]), path=metas[1])
    assert [node.value for node in ring.nodes] == [536870912, 1073741824]
    assert ring.positions(np.array([2_000_000_000], dtype=np.uint32)).tolist() == [0]


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.pop("nodes"),
        lambda record: record.update(nodes=[]),
        lambda record: record.update(version=1),
        lambda record: record.update(nodes=[*record["nodes"], record["nodes"][0]]),
        lambda record: record["nodes"][0].update(value=1 << 31),
        lambda record: record["nodes"][0].update(value="7"),
        lambda record: record["nodes"][0].update(fileIdPrefix=None),
        lambda record: record["nodes"][0].update(fileIdPrefix=record["nodes"][1]["fileIdPrefix"]),
        lambda record: record["nodes"][0].update(tag="ODD"),
    ],
)
def test_damaged_metadata_is_refused(change):
    record = json.loads(even_ring("p", 4).to_json())
    change(record)
    with pytest.raises(CorruptFile, match="some/place"):
        HashRing.from_json(json.dumps(record).encode(), path="some/place")
    for data in (b"", b"{", b"[]", b"null"):
        with pytest.raises(CorruptFile):
            HashRing.from_json(data, path="some/place")


def test_the_nodes_of_a_plan():
    text = '[{"value": 7, "fileIdPrefix": null, "tag": "DELETE"}]'
    assert nodes_of_plan(text, path="p") == [HashNode(7, "")]
    assert nodes_of_plan(text, path="p")[0].tag is NodeTag.DELETE
    with pytest.raises(CorruptFile):
        nodes_of_plan("[7]", path="p")
