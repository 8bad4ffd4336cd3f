"""The bucket tables of a simulation: real rows, and what must hold of them and of their buckets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

from lakedex.config import TableType, keys
from lakedex.engine import LocalEngine
from lakedex.filegroup import FileSlice, read_slice
from lakedex.index.kinds.bucket.hashes import hash_keys, ring_hashes
from lakedex.index.kinds.bucket.hashing_metadata import FOLDER, SUFFIX
from lakedex.index.registry import stored_bucket_settings
from lakedex.services import verifying
from lakedex.storage.object_store import memory_storage
from lakedex.table import Snapshot
from lakedex.table.creation import create_table
from lakedex.table.own_properties import read_own_properties
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.simulation.patches import living_in
from tests.simulation.store import Blob, Faults, SimStorage
from tests.simulation.tables import SimAddress
from tests.simulation.world import Actor, World
from tests.support.buckets import simple_bucket

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.string()), ("n", pa.int64())])
PARTITIONS = ("p=a", "p=b")
KEYS = tuple(f"k{number:02d}" for number in range(24))
TOKEN = "_token"
_FIRST_BUCKETS = 2
_HASHES = 1 << 31
_UUID_LETTERS = 36

Place = tuple[str, str]
"""Partition path and record key."""
Content = dict[Place, str]
"""What wrote each record last."""


@dataclass(frozen=True)
class TableShape:
    """What a table is like."""

    engine: str
    kind: str
    has_ordering: bool
    has_keys: bool
    """Whether it has a record index, which must name the bucket of every key."""

    @property
    def has_ring(self) -> bool:
        """Whether buckets are split and merged."""
        return self.engine != "SIMPLE"

    @classmethod
    def drawn(cls, world: World) -> TableShape:
        """One of all of them, those that are resized beside writes more often."""
        dice = world.dice
        engine = dice.choice(("SIMPLE", *("CONSISTENT_HASHING", "EXTENDIBLE_HASHING") * 2))
        kind = dice.choice(("cow", "mor", "mor"))
        return cls(engine, kind, dice.random() < 0.5, dice.random() < 0.25)


@dataclass(frozen=True)
class BucketEffect:
    """What a write does to rows."""

    verb: str
    rows: frozenset[Place]
    token: str


@dataclass
class BucketModel:
    """What every write would do, and what its writer was told."""

    effects: dict[str, BucketEffect] = field(default_factory=dict)
    """By token."""
    told_done: dict[str, str] = field(default_factory=dict)
    """The instant of each token whose write was told to be complete."""
    told_conflict: set[str] = field(default_factory=set)
    to_roll_back: set[str] = field(default_factory=set)
    """Instants that somebody was told to take back."""
    resizes: int = 0
    """How many resizes were completed, as far as their actors were told."""

    def rows(self, tokens: list[str]) -> Content:
        """The table after these writes, in the order of their completion."""
        state: Content = {}
        for token in tokens:
            effect = self.effects[token]
            if effect.verb == "insert_overwrite":
                gone = {partition for partition, _ in effect.rows}
                state = {place: by for place, by in state.items() if place[0] not in gone}
            for place in effect.rows:
                if effect.verb == "delete":
                    state.pop(place, None)
                else:
                    state[place] = token
        return state


def source_of(effect: BucketEffect) -> ArrowRowSource:
    """The rows of a write. All have one ordering value: the later write counts."""
    rows = [
        {"id": key, "p": partition.removeprefix("p="), "v": effect.token, "n": 1}
        for partition, key in sorted(effect.rows)
    ]
    return ArrowRowSource(pa.Table.from_pylist(rows, SCHEMA))


def tokens_of(snapshot: Snapshot) -> list[str]:
    """The tokens of completed writes in the order of their completion, archived ones too."""
    timeline = snapshot.timeline
    found = [timeline.commit_metadata(each).extra.get(TOKEN) for each in timeline.between(None)]
    return [token for token in found if token is not None]


def content_of(snapshot: Snapshot) -> Content:
    """Every record, read from all file slices; none stands twice."""
    assert snapshot.metadata is not None, snapshot.metadata_problem
    found: Content = {}
    for part, place, token in _records(snapshot):
        assert place not in found, f"{place} is in two file groups, one of them {part.file_id}"
        found[place] = token
    return found


def _records(snapshot: Snapshot) -> Iterator[tuple[FileSlice, Place, str]]:
    for part in snapshot.slices:
        for rows in read_slice(snapshot.read_context, part, ["id", "p", "v"]):
            for row in rows.to_pylist():
                place = (f"p={row['p']}", row["id"])
                assert place[0] == part.partition, f"{place} is in partition {part.partition}"
                yield part, place, row["v"]


def check_buckets(snapshot: Snapshot, blobs: Mapping[str, Blob], shape: TableShape) -> None:
    """Every record is in the file group of its bucket, and each partition has one whole ring."""
    rings = {each: _newest_ring(snapshot, blobs, each) for each in PARTITIONS}
    storage, counts = snapshot.storage, {}
    if not shape.has_ring:
        kept = read_own_properties(storage)
        counts = stored_bucket_settings(storage, snapshot.timeline, kept)
    count = int(counts.get("hoodie.bucket.index.num.buckets", _FIRST_BUCKETS))
    groups = Counter(
        (part.partition, part.file_id if shape.has_ring else part.file_id[:8])
        for part in snapshot.slices
    )
    twice = [group for group, times in groups.items() if times > 1]
    assert not twice, f"buckets with several file groups: {twice}"
    for part, (partition, key), _ in _records(snapshot):
        if not shape.has_ring:
            own: object = simple_bucket(key, ("id",), count)
            found: object = int(part.file_id[:8])
        else:
            own = _owner(rings[partition], key)
            found = part.file_id[:_UUID_LETTERS]
        assert own == found, f"{key} of {partition} is in {part.file_id}, not in bucket {own}"
    for partition, nodes in rings.items():
        present = {part.file_id for part in snapshot.slices if part.partition == partition}
        known = {f"{prefix}-0" for _, prefix in nodes}
        assert not shape.has_ring or present <= known, f"no buckets: {present - known}"


def _owner(nodes: list[tuple[int, str]], key: str) -> str:
    hashed = int(ring_hashes(hash_keys(pa.array([key]), ["id"]))[0])
    return next((prefix for value, prefix in nodes if value >= hashed), nodes[0][1])


def _newest_ring(
    snapshot: Snapshot, blobs: Mapping[str, Blob], partition: str
) -> list[tuple[int, str]]:
    """The nodes of the ring that Hudi would load, which cover the hash values once."""
    folder = f"{FOLDER}/{partition}/"
    instants = [
        path.removeprefix(folder).removesuffix(SUFFIX)
        for path in blobs
        if path.startswith(folder) and path.endswith(SUFFIX)
    ]
    first = "0" * 14
    done = [
        each
        for each in instants
        if each == first
        or f"{folder}{each}.commit" in blobs
        or snapshot.timeline.has_completed(each)
    ]
    if not done:
        return []
    record = json.loads(blobs[f"{folder}{max(done, key=lambda e: e.ljust(17, '0'))}{SUFFIX}"].data)
    nodes = sorted((node["value"], node["fileIdPrefix"]) for node in record["nodes"])
    values = [value for value, _ in nodes]
    spans = [(end - begin) % _HASHES or _HASHES for begin, end in _pairs(values)]
    assert len(set(values)) == len(values), f"the ring of {partition} has {values}"
    assert sum(spans) == _HASHES, f"the ring of {partition} covers {sum(spans)} of {_HASHES}"
    assert len({prefix for _, prefix in nodes}) == len(nodes), f"two buckets are one: {nodes}"
    assert {node["tag"] for node in record["nodes"]} == {"NORMAL"}, record
    return nodes


def _pairs(values: list[int]) -> list[tuple[int, int]]:
    return list(zip([values[-1], *values], values, strict=False))


def check_indexes(blobs: Mapping[str, Blob]) -> None:
    """All indexes describe the data: every entry is held against the rows."""
    storage: Any = memory_storage()
    for path, blob in blobs.items():
        storage.create(path, blob.data)
    report = verifying.verify(Snapshot.open(storage), threads=1)
    assert report.ok, report


@cache
def first_bucket_table(shape: TableShape) -> tuple[dict[str, Blob], BucketEffect]:
    """The files of a table of a shape with one write, of most of the keys."""
    world, blobs = World(0), dict[str, Blob]()
    storage = SimStorage(world, blobs, Faults())
    places = frozenset((partition, key) for partition in PARTITIONS for key in KEYS[::2])
    effect = BucketEffect("upsert", places, "first")

    def make() -> None:
        properties = {
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": shape.engine,
            "hoodie.bucket.index.num.buckets": str(_FIRST_BUCKETS),
            "hoodie.metadata.index.column.stats.enable": "false",
            keys.HIVE_STYLE_PARTITIONING: "true",
        }
        if shape.has_keys:
            properties["hoodie.metadata.record.level.index.enable"] = "true"
        ordering = "n" if shape.has_ordering else ()
        create_table(storage, TableSpec("sim", SCHEMA, "id", ordering, "p", shape.kind, properties))
        address: Any = SimAddress(storage)
        TableWriter(address, LocalEngine(1), {TOKEN: effect.token}).upsert(source_of(effect))

    with living_in(world):
        world.add(Actor("creator", 1, "host-9"), make)
        world.run()
    return blobs, effect


def is_merge_on_read(snapshot: Snapshot) -> bool:
    """Whether a table has log files to compact."""
    return snapshot.config.table_type is TableType.MERGE_ON_READ
