"""Tables, incoming rows and a plain Python model, to judge tagging by."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.config.write_index import WriteIndex
from lakedex.engine import LocalEngine
from lakedex.filegroup import META_COLUMNS
from lakedex.format.avro import METADATA_RECORD_SCHEMA
from lakedex.format.hfile import write_hfile
from lakedex.format.spill import Segment, SpillWriter, read_segments
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.keys import escape_path_value
from lakedex.storage.open import StorageAddress
from lakedex.table.snapshot import Snapshot
from lakedex.timeline.timeline import CommittedInstants
from lakedex.write.context import WriteContext
from lakedex.write.rows import DELETE, FILE_ID, KEY, LEADING, LIVE, PARTITION
from lakedex.write.tag.plan import plan_tagging
from lakedex.write.tag.tag_rows import TagPlan, tag_bucket
from lakedex.write.tag_stage import deduplicate
from tests.support.metadata_records import record_index_change
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ver", pa.int64()),
        ("text", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
        ("p", pa.string()),
    ]
)
INCOMING = pa.schema([*LEADING, *SCHEMA])
BUCKETS = 3
Tag = tuple[str, str, bool, str | None, bool, str | None, int | None]
"""Key, partition path, delete mark, file id, live, partition column, ordering value."""


@dataclass(frozen=True)
class Copy:
    """One place of a key."""

    key: str
    partition: str
    file_id: str
    live: bool
    ver: int = 0
    p: str = ""


def table_rows(keys: Sequence[str], ver: int = 10) -> pa.Table:
    """Rows for a builder, without the partition column."""
    count = len(keys)
    return pa.table(
        {
            "id": pa.array(list(keys), pa.string()),
            "ver": pa.array([ver] * count, pa.int64()),
            "text": pa.array([f"{key} old" for key in keys], pa.string()),
            "_hoodie_is_deleted": pa.array([False] * count),
        }
    )


def incoming(
    rows: Sequence[tuple[str, str, int | None]], *, delete: str = "", hive: bool = True
) -> pa.Table:
    """Rows in flight from (key, partition value, ordering); `delete`: '', 'always' or 'marked'."""
    return pa.table(
        [
            [key for key, _, _ in rows],
            [f"p={p}" if hive else p for _, p, _ in rows],
            [delete == "always"] * len(rows),
            [key for key, _, _ in rows],
            [ver for _, _, ver in rows],
            ["new"] * len(rows),
            [delete == "marked"] * len(rows),
            [p for _, p, _ in rows],
        ],
        schema=INCOMING,
    )


def facts_of(path: str | Path) -> tuple[Snapshot, WriteContext]:
    """A table's snapshot and the facts of a write on it."""
    address = StorageAddress.of(str(path))
    snapshot = Snapshot.open(address.open())
    facts = WriteContext(
        address=address,
        config=snapshot.config,
        schema=pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *SCHEMA]),
        schema_text="",
        instant="20300101000000000",
        committed=CommittedInstants.of(snapshot.timeline),
        scratch=".hoodie/.temp/20300101000000000.scratch",
    )
    return snapshot, facts


def spilled(facts: WriteContext, rows: pa.Table, shards: int, buckets: int) -> list[list[Segment]]:
    """The rows in buckets, each in two segments."""
    writer = SpillWriter(facts.address.open(), f"{facts.scratch}/in-{uuid.uuid4().hex}")
    owners = shards_of(rows[KEY].combine_chunks(), shards) % buckets
    found: list[list[Segment]] = []
    for number in range(buckets):
        own = rows.filter(pa.array(owners == number))
        half = own.num_rows // 2
        pieces = [own.slice(0, half), own.slice(half)]
        found.append([writer.add(piece) for piece in pieces if piece.num_rows])
    writer.finish()
    return found


def run_tagging(
    path: str | Path,
    rows: pa.Table,
    index: WriteIndex,
    *,
    update_partition_path: bool = True,
    buckets: int = BUCKETS,
) -> pa.Table:
    """All tagged rows, by the whole way from spilled buckets on."""
    snapshot, facts = facts_of(path)
    shards = buckets
    if index is WriteIndex.GLOBAL_RECORD_LEVEL_INDEX and snapshot.metadata is not None:
        shards = len(snapshot.metadata.groups("record_index")) or buckets
    segments = spilled(facts, rows, shards, buckets)
    plan = plan_tagging(
        LocalEngine(2),
        facts,
        snapshot,
        index,
        update_partition_path=update_partition_path,
        buckets=segments,
        partitions=rows[PARTITION].unique().to_pylist(),
    )
    facts, plan = pickle.loads(pickle.dumps((facts, plan)))
    tagged = [_tagged(facts, plan, number, own) for number, own in enumerate(segments) if own]
    return pa.concat_tables(tagged)


def tags(tagged: pa.Table) -> list[Tag]:
    """Tagged rows as sorted plain values."""
    names = (KEY, PARTITION, DELETE, FILE_ID, LIVE, "p", "ver")
    found = zip(*(tagged[name].to_pylist() for name in names), strict=True)
    return sorted(found, key=repr)


def copies_of(builder: TableBuilder) -> list[Copy]:
    """Every place of every key: live rows, and rows of base files that logs deleted."""
    found = []
    for group in builder._groups:
        live = {row["id"]: row for row in group.rows.to_pylist()}
        found += [
            Copy(key, group.partition, group.file_id, True, row["ver"], row["p"])
            for key, row in live.items()
        ]
        base = pq.read_table(builder.path / group.partition / group.base_name, columns=["id"])
        found += [
            Copy(key, group.partition, group.file_id, False)
            for key in base["id"].to_pylist()
            if key not in live
        ]
    return found


def expected_tags(
    copies: list[Copy], rows: pa.Table, index: WriteIndex, *, update_partition_path: bool
) -> list[Tag]:
    """What tagging must answer, row by row."""
    found: list[Tag] = []
    for row in _winners(rows.to_pylist(), index):
        own = _visible_copies(copies, row, index)
        found += _tags_of(row, own, update_partition_path)
    return sorted(found, key=repr)


def make_partitioned_record_index(builder: TableBuilder, shards: int = 2) -> None:
    """Replace the record index of a finished table by one with groups for each partition."""
    folder = builder.path / ".hoodie" / "metadata" / "record_index"
    time = min(file.name.split("_")[1][:17] for file in folder.glob(".record-index-*.log.*"))
    for file in [*folder.glob(".record-index-*"), *folder.glob("record-index-*")]:
        file.unlink()
    by_partition: dict[str, dict[str, str]] = {}
    for copy in copies_of(builder):
        if copy.live:
            by_partition.setdefault(copy.partition, {})[copy.key] = copy.file_id
    for partition, places in by_partition.items():
        keys = pa.array(sorted(places, key=str.encode), pa.string())
        ids = pa.chunked_array([[places[key] for key in keys.to_pylist()]])
        where = pa.table({"partition": pa.repeat(partition, len(keys)), "file_id": ids})
        change = record_index_change(keys, where, 1)
        owners = shards_of(keys, shards)
        for shard in range(shards):
            own = pa.array(np.flatnonzero(owners == shard))
            info = {"schema": METADATA_RECORD_SCHEMA.encode()}
            data = write_hfile(change.keys.take(own), change.values.take(own), file_info=info)
            name = escape_path_value(partition, for_file_name=True)
            file = f"record-index-{name}-{shard:04d}-0_0-0-0_{time}.hfile"
            (folder / file).write_bytes(data)
    path = builder.path / ".hoodie" / ".index_defs" / "index.json"
    document = json.loads(path.read_text())
    document["indexDefinitions"]["record_index"]["indexOptions"] = {"isPartitioned": "true"}
    path.write_text(json.dumps(document))


def _tagged(facts: WriteContext, plan: TagPlan, bucket: int, segments: list[Segment]) -> pa.Table:
    rows = read_segments(facts.address.open(), segments)
    assert rows is not None
    ordering = facts.read_context().ordering_fields
    rows = deduplicate(rows, ordering, per_partition=not plan.index.is_global)
    return tag_bucket(facts, plan, bucket, rows)


def _winners(rows: list[dict], index: WriteIndex) -> list[dict]:
    best: dict[tuple[str, str], dict] = {}
    for row in rows:
        key = (row[KEY], "" if index.is_global else row[PARTITION])
        rank = (row[DELETE], row["ver"] or 0)
        if key not in best or rank >= (best[key][DELETE], best[key]["ver"] or 0):
            best[key] = row
    return list(best.values())


def _visible_copies(copies: list[Copy], row: dict, index: WriteIndex) -> list[Copy]:
    own = [copy for copy in copies if copy.key == row[KEY]]
    if not index.is_global:
        own = [copy for copy in own if copy.partition == row[PARTITION]]
    if index.uses_record_index:
        own = [copy for copy in own if copy.live][-1:]
    return own


def _tags_of(row: dict, copies: list[Copy], update_partition_path: bool) -> list[Tag]:
    live = [copy for copy in copies if copy.live]
    ver, partition = row["ver"], row[PARTITION]

    def tag(place: Copy | None, *, delete: bool = row[DELETE], p: str = row["p"]) -> Tag:
        if place is None:
            return (row[KEY], partition, delete, None, False, p, ver)
        return (row[KEY], place.partition, delete, place.file_id, place.live, p, ver)

    if row[DELETE] or row["_hoodie_is_deleted"]:
        return [tag(place) for place in live]
    if not live:
        dead = [copy for copy in copies if copy.partition == partition]
        return [tag(dead[0] if dead else None)]
    here = [copy for copy in live if copy.partition == partition]
    there = [copy for copy in live if copy.partition != partition]
    if not update_partition_path:
        return [tag(place) for place in here] + [tag(place, p=place.p) for place in there]
    if any((ver or 0) < place.ver for place in there):
        return []
    moved = [tag(place, delete=True) for place in there]
    return moved + [tag(place) for place in here or [None]]
