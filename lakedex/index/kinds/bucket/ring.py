"""A hash ring: which range of the hash space is whose, and the JSON in which Hudi stores it.

A node owns the hash values above the value of the node before it, up to its own value; what is
above the last node belongs to the first one. So any nodes with different values share the whole
space out, and each hash value has one owner.

    {"version": 0, "partitionPath": "c=c1", "instant": "00000000000000", "numBuckets": 4,
     "seqNo": 0, "nodes": [{"value": 536870912, "fileIdPrefix": "0fc23cdb-...", "tag": "NORMAL"}]}

`numBuckets` is the number of the first ring, whatever became of it since. The file group of a node
is its prefix with `-0`. lakedex adds `crc32`, a checksum of all this, which Hudi passes over: of a
node with another value nothing else tells that the rows of its bucket are those of another range.

The ring of the engine EXTENDIBLE_HASHING is one whose ranges are prefixes of the hash in binary: a
bucket of the local depth d is all hash values that begin with the same d bits. Its directory has an
entry for each prefix of the largest depth, so that it doubles when the deepest bucket is split
(Fagin, Nievergelt, Pippenger and Strong 1979).

It imports only what executors need.
"""

from __future__ import annotations

import hashlib
import json
import uuid
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lakedex.errors import CorruptFile, InvalidInput
from lakedex.index.kinds.bucket.hashes import HASH_MASK, Hashes

FIRST_INSTANT: Final = "00000000000000"
"""The instant of the first ring of a partition."""
GROUP_SUFFIX: Final = "-0"
"""What the file id of a bucket has after its prefix."""
_BITS: Final = 31
_MOST_DEPTH: Final = 20
"""A directory of so many bits is a table of its prefixes; below that the ring is searched."""
_HALF: Final = 1 << _BITS
_VERSION: Final = 0
PARTITION_KEY: Final = "clustering.group.partition"
SEQUENCE_KEY: Final = "clustering.group.sequence.no"
NODES_KEY: Final = "clustering.group.child.node"
"""What the groups of a clustering plan say that splits or merges buckets."""


class NodeTag(Enum):
    """What a plan does to the range of a node."""

    NORMAL = "NORMAL"
    REPLACE = "REPLACE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True, order=True)
class HashNode:
    """A node: the last hash value that it owns, and its file group."""

    value: int
    prefix: str
    """The file id without `-0`; empty for a node that goes away."""
    tag: NodeTag = field(default=NodeTag.NORMAL, compare=False)

    @property
    def file_id(self) -> str:
        """The file group of the bucket."""
        return f"{self.prefix}{GROUP_SUFFIX}"


@dataclass(frozen=True)
class HashRing:
    """The buckets of a partition.

    Example:
        >>> ring = even_ring("c=c1", 4)
        >>> [node.value for node in ring.nodes]
        [536870912, 1073741824, 1610612736, 2147483647]
        >>> ring.positions(np.array([0, 536870912, 536870913], dtype=np.uint32)).tolist()
        [0, 0, 1]
    """

    partition: str
    nodes: tuple[HashNode, ...]
    instant: str = FIRST_INSTANT
    first_count: int = 0
    """How many buckets the first ring had."""
    sequence: int = 0
    """How often the ring was changed."""

    def __post_init__(self) -> None:
        """Check that every hash value has one owner, and every owner its own file group.

        Raises:
            InvalidInput: two nodes have one value or file group, or one has none.
        """
        values = [node.value for node in self.nodes]
        prefixes = {node.prefix for node in self.nodes}
        if not values or values != sorted(set(values)):
            raise InvalidInput(f"the nodes of a ring have different values in order, not {values}")
        if values[0] < 0 or values[-1] > HASH_MASK:
            raise InvalidInput(f"hash values are 0 to {HASH_MASK}, not {values[0]}, {values[-1]}")
        if len(prefixes) < len(values) or "" in prefixes:
            raise InvalidInput("each node of a ring needs a file group of its own")

    def positions(self, hashes: Hashes) -> npt.NDArray[np.int64]:
        """The numbers of the nodes that own hash values."""
        return ring_positions(self.values, hashes)

    @cached_property
    def values(self) -> Hashes:
        """The last hash value of each node."""
        return np.array([node.value for node in self.nodes], dtype=np.uint32)

    def ranges(self) -> list[tuple[int, int]]:
        """The first and last hash value of each node; the first node may begin above its end."""
        values = [node.value for node in self.nodes]
        begins = [(value + 1) % _HALF for value in (values[-1], *values)]
        return list(zip(begins, values, strict=False))

    def ranges_by_group(self) -> dict[str, tuple[int, int]]:
        """The first and last hash value of each file group."""
        return {node.file_id: own for node, own in zip(self.nodes, self.ranges(), strict=True)}

    def resized(self, children: Iterable[HashNode], instant: str) -> HashRing:
        """The ring once a plan that splits or merges buckets is done.

        Args:
            children: The nodes of the plan: new ones, and those that go away.
            instant: The time of the plan.

        Raises:
            InvalidInput: they do not go with this ring.
        """
        nodes = {node.value: node for node in self.nodes}
        for child in children:
            if child.tag is not NodeTag.DELETE:
                nodes[child.value] = replace(child, tag=NodeTag.NORMAL)
            elif nodes.pop(child.value, None) is None:
                raise InvalidInput(f"the ring has no node {child.value} that could go away")
        return replace(
            self, nodes=tuple(sorted(nodes.values())), instant=instant, sequence=self.sequence + 1
        )

    def split_at(self, number: int) -> int:
        """The last hash value of the lower half of a bucket, as Hudi splits it."""
        begin, value = self.nodes[number - 1].value, self.nodes[number].value
        wrapped = begin + value + (0 if begin < value else _HALF)
        return (wrapped >> 1) & HASH_MASK

    def with_new_groups(self, instant: str, gone: Collection[str] | None = None) -> HashRing:
        """The same ranges with other file groups, for a write that replaces the present ones.

        Args:
            instant: The time of the write.
            gone: The file groups that it replaces; all by default.
        """
        nodes = tuple(
            HashNode(node.value, node_prefix(self.partition, begin, node.value, instant))
            if gone is None or node.file_id in gone
            else node
            for node, (begin, _) in zip(self.nodes, self.ranges(), strict=True)
        )
        return replace(self, nodes=nodes, instant=instant, sequence=self.sequence + 1)

    def to_json(self) -> bytes:
        """The file that Hudi reads."""
        nodes = [
            {"value": node.value, "fileIdPrefix": node.prefix, "tag": node.tag.value}
            for node in self.nodes
        ]
        head = {"version": _VERSION, "partitionPath": self.partition, "instant": self.instant}
        counts = {"numBuckets": self.first_count or len(nodes), "seqNo": self.sequence}
        record = {**head, **counts, "nodes": nodes, "crc32": self._checksum()}
        return json.dumps(record, indent=2).encode()

    def _checksum(self) -> int:
        nodes = [f"{node.value} {node.prefix} {node.tag.value}" for node in self.nodes]
        head = [self.partition, self.instant, str(self.sequence)]
        return zlib.crc32("\n".join([*head, *nodes]).encode())

    @classmethod
    def from_json(cls, data: bytes, *, path: str) -> HashRing:
        """The ring of a file.

        Raises:
            CorruptFile: the file does not hold one.
        """
        try:
            record: Any = json.loads(data)
            if record["version"] != _VERSION:
                raise CorruptFile(path, 0, expected="version 0", actual=record["version"])
            ring = cls(
                partition=str(record["partitionPath"]),
                nodes=tuple(sorted(_node(each) for each in record["nodes"])),
                instant=str(record["instant"]),
                first_count=int(record["numBuckets"]),
                sequence=int(record["seqNo"]),
            )
            stored = record.get("crc32")
            if stored is not None and stored != ring._checksum():
                raise CorruptFile(path, 0, expected=f"nodes of checksum {stored}", actual="others")
        except (ValueError, KeyError, TypeError, AttributeError, InvalidInput) as error:
            raise CorruptFile(path, 0, expected="hashing metadata", actual=error) from error
        return ring


def ring_positions(values: Hashes, hashes: Hashes) -> npt.NDArray[np.int64]:
    """The numbers of the nodes that own hash values, by the last value of each node."""
    at = np.searchsorted(values, hashes).astype(np.int64, copy=False)
    at[at == len(values)] = 0
    return at


@dataclass(frozen=True)
class Directory:
    """The buckets of a ring of prefixes, by the prefix of a hash value."""

    depth: int
    """How many bits a prefix has."""
    numbers: npt.NDArray[np.int64]
    """The number of the node of each prefix."""

    @classmethod
    def of(cls, ring: HashRing) -> Directory | None:
        """The directory of a ring; None where its buckets are deeper than a table should be.

        Raises:
            InvalidInput: a bucket is not all of the values with one prefix.
        """
        depths = local_depths(ring)
        depth = max(depths)
        if depth > _MOST_DEPTH:
            return None
        entries = np.array([1 << (depth - each) for each in depths], dtype=np.int64)
        return cls(depth, np.repeat(np.arange(len(depths)), entries))

    def positions(self, hashes: Hashes) -> npt.NDArray[np.int64]:
        """The numbers of the nodes that own hash values."""
        return self.numbers[hashes >> np.uint32(_BITS - self.depth)]


def local_depths(ring: HashRing) -> list[int]:
    """How many leading bits the hash values of each bucket have in common.

    Raises:
        InvalidInput: a bucket is not all of the values with one prefix.
    """
    depths, begin = [], 0
    for node in ring.nodes:
        size = node.value + 1 - begin
        if size & (size - 1) or begin % size:
            raise InvalidInput(
                f"the bucket of the hash values {begin} to {node.value} in partition "
                f"{ring.partition!r} is no prefix, as extendible hashing needs it"
            )
        depths.append(_BITS + 1 - size.bit_length())
        begin = node.value + 1
    if begin != _HALF:
        raise InvalidInput(
            f"the last bucket of partition {ring.partition!r} ends at {begin - 1}, and not at "
            f"{HASH_MASK} as extendible hashing needs it"
        )
    return depths


def even_ring(partition: str, count: int) -> HashRing:
    """The first ring of a partition, as Hudi makes it: even ranges, file ids by range.

    Example:
        >>> even_ring("c=c1", 4).nodes[0].file_id
        '0fc23cdb-2778-367b-b4cb-a5fe650a3679-0'
    """
    step = (HASH_MASK + count - 1) // count
    values = [min(step * (number + 1), HASH_MASK) for number in range(count)]
    return _first_ring(partition, values)


def prefix_ring(partition: str, count: int) -> HashRing:
    """The first ring of a partition for extendible hashing: all prefixes of one length.

    Args:
        partition: The partition path.
        count: How many buckets; a power of two.

    Example:
        >>> [node.value for node in prefix_ring("", 4).nodes]
        [536870911, 1073741823, 1610612735, 2147483647]
    """
    step = _HALF // count
    return _first_ring(partition, [step * (number + 1) - 1 for number in range(count)])


def node_prefix(partition: str, begin: int, value: int, instant: str = "") -> str:
    """The prefix of the file ids of a node, the same whoever computes it.

    Args:
        partition: The partition path.
        begin: For a first ring the value of the node before, 0 for the first node; later on the
            first hash value of the node.
        value: The value of the node.
        instant: What made the node; empty for the first ring, whose prefixes are Hudi's.
    """
    name = begin.to_bytes(8, "big") + value.to_bytes(8, "big") + partition.encode()
    return name_uuid(name + (f"@{instant}".encode() if instant else b""))


def name_uuid(name: bytes) -> str:
    """Java's `UUID.nameUUIDFromBytes`."""
    return str(uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))


def _first_ring(partition: str, values: Sequence[int]) -> HashRing:
    begins = (0, *values)
    nodes = tuple(
        HashNode(value, node_prefix(partition, begin, value))
        for begin, value in zip(begins, values, strict=False)
    )
    return HashRing(partition, nodes, first_count=len(nodes))


def _node(record: dict[str, Any]) -> HashNode:
    value, prefix = record["value"], record["fileIdPrefix"]
    if type(value) is not int or not isinstance(prefix, str):
        raise ValueError(f"node {record}")
    return HashNode(value, prefix, NodeTag(record["tag"]))


def nodes_of_plan(text: str, *, path: str) -> list[HashNode]:
    """The nodes that a clustering plan of Hudi's names for the children of a group.

    Raises:
        CorruptFile: the text does not hold nodes.
    """
    try:
        return [
            _node({**each, "fileIdPrefix": each["fileIdPrefix"] or ""}) for each in json.loads(text)
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(path, 0, expected="the child nodes of a plan", actual=error) from error
