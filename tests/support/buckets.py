"""Bucket tables held against what hashes and file ids must be, computed here once more."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

import lakedex
from lakedex.index.kinds.bucket.hashes import hash_keys, ring_hashes

META = ("_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name")
_RINGS = ".hoodie/.bucket_index/consistent_hashing_metadata"


def java_hash(text: str) -> int:
    """`String.hashCode` of Java."""
    found = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[at : at + 2], "big")) & 0xFFFF_FFFF
    return found


def simple_bucket(key: str, fields: Sequence[str], count: int) -> int:
    """The bucket of a record key by the engine SIMPLE."""
    hashed = 1
    for value in hash_keys(pa.array([key]), list(fields)).values.to_pylist():
        hashed = (31 * hashed + (0 if value is None else java_hash(value))) & 0xFFFF_FFFF
    return (hashed & 0x7FFF_FFFF) % count


def places(path: str) -> dict[tuple[str, str], str]:
    """The file id of every record, by partition and record key; each stands once."""
    rows = lakedex.open(path).to_arrow(columns=list(META)).to_pylist()
    counts = Counter((row[META[0]], row[META[1]]) for row in rows)
    assert max(counts.values(), default=1) == 1, counts.most_common(3)
    return {(row[META[0]], row[META[1]]): row[META[2]].partition("_")[0] for row in rows}


def assert_in_buckets(path: str, fields: Sequence[str], count: int = 4) -> None:
    """Every record is in the file group of its bucket, and no bucket has two file groups."""
    groups: dict[str, list[str]] = defaultdict(list)
    for each in lakedex.open(path).files():
        groups[each.partition].append(each.file_id)
    found = places(path)
    if not Path(path, _RINGS).is_dir():
        for partition, file_ids in groups.items():
            numbers = [int(file_id[:8]) for file_id in file_ids]
            assert len(set(numbers)) == len(numbers), (partition, file_ids)
            assert max(numbers) < count
        for (_, key), file_id in found.items():
            assert int(file_id[:8]) == simple_bucket(key, fields, count), key
        return
    for partition, file_ids in groups.items():
        nodes = newest_ring(path, partition)
        assert set(file_ids) <= {file_id for _, file_id in nodes}, partition
    for (partition, key), file_id in found.items():
        hashed = int(ring_hashes(hash_keys(pa.array([key]), list(fields)))[0])
        nodes = newest_ring(path, partition)
        own = next((name for value, name in nodes if value >= hashed), nodes[0][1])
        assert file_id.removesuffix("-0") == own.removesuffix("-0"), key


def newest_ring(path: str, partition: str) -> list[tuple[int, str]]:
    """The values and file ids of the nodes of a partition, of the newest version."""
    folder = Path(path, _RINGS, partition)
    newest = max(folder.glob("*.hashing_meta"), key=lambda each: each.name)
    nodes = json.loads(newest.read_text())["nodes"]
    return sorted((node["value"], f"{node['fileIdPrefix']}-0") for node in nodes)
