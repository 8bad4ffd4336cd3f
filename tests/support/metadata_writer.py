"""Writes a metadata table: its properties, initial groups, and one deltacommit for each commit.

With layout `log` every change is an HFile log block; with layout `base` the first commit's records
are base HFiles of the initial instants, as after an index build.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.format.avro import METADATA_RECORD_SCHEMA, METADATA_RECORD_SCHEMA_WITHOUT_META
from lakedex.format.hfile import HFileOptions, write_hfile
from lakedex.format.logfile import (
    BlockKind,
    HeaderKey,
    empty_init_block,
    encode_block,
    encode_delete_content,
)
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.partitions import metadata_partition
from lakedex.timeline import Action, CommitMetadata, WriteStat
from tests.support.metadata_records import Change
from tests.support.timeline_files import (
    Clock,
    metadata_properties,
    write_completed,
    write_partition_metafile,
    write_pending,
    write_properties,
)

TOKEN = "0-0-0"
_OPTIONS = HFileOptions()


class MetadataWriter:
    """The metadata table of one data table."""

    def __init__(self, root: Path, name: str, groups: Mapping[str, int], *, layout: str) -> None:
        """Write nothing yet; `groups` has the partitions with their numbers of file groups."""
        self._root = root / ".hoodie" / "metadata"
        self._name = name
        self._groups = groups
        self._layout = layout
        self._initialised = False

    def commit(self, time: str, clock: Clock, changes: Mapping[str, Change]) -> None:
        """Put the changes of the data table's instant `time` into the metadata table."""
        if not self._initialised:
            self.ensure(clock, changes if self._layout == "base" else {})
            if self._layout == "base":
                # Its changes are in the base files already.
                changes = {}
        write_pending(self._root, time, Action.DELTACOMMIT)
        stats = {
            name: tuple(self._write_logs(name, time, change)) for name, change in changes.items()
        }
        written = {name: entries for name, entries in stats.items() if entries}
        self._complete(time, clock, written)

    def ensure(self, clock: Clock, changes: Mapping[str, Change] = MappingProxyType({})) -> None:
        """Write the initial groups, with the given records as base files, unless they are there."""
        if self._initialised:
            return
        self._initialised = True
        write_properties(self._root, metadata_properties(self._name))
        for number, (name, count) in enumerate(self._groups.items()):
            time = f"{number:017d}"
            write_pending(self._root, time, Action.DELTACOMMIT)
            write_partition_metafile(self._root / name, time, 1)
            stats = [self._write_init_log(name, shard, time) for shard in range(count)]
            if name in changes:
                stats += self._write_bases(name, time, changes[name])
            self._complete(time, clock, {name: tuple(stats)})

    def _write_init_log(self, name: str, shard: int, time: str) -> WriteStat:
        return self._log_stat(name, shard, time, empty_init_block(time))

    def _write_bases(self, name: str, time: str, change: Change) -> list[WriteStat]:
        stats = []
        for shard, (keys, values) in self._records(name, change).items():
            file_id = self._file_id(name, shard)
            file = f"{file_id}_{TOKEN}_{time}.hfile"
            data = _hfile(keys, values)
            (self._root / name / file).write_bytes(data)
            stats.append(_stat(name, file_id, file, len(data), len(keys), prev_commit="null"))
        return stats

    def _write_logs(self, name: str, time: str, change: Change) -> list[WriteStat]:
        header = {HeaderKey.INSTANT_TIME: time, HeaderKey.SCHEMA: METADATA_RECORD_SCHEMA}
        blocks: dict[int, bytes] = defaultdict(bytes)
        for shard, (keys, values) in self._records(name, change).items():
            blocks[shard] += encode_block(BlockKind.HFILE_DATA, header, _hfile(keys, values))
        for shard, keys in self._deletes(name, change).items():
            content = encode_delete_content(keys, pa.repeat(name, len(keys)), None)
            blocks[shard] += encode_block(BlockKind.DELETE, header, content)
        return [self._log_stat(name, shard, time, data) for shard, data in sorted(blocks.items())]

    def _log_stat(self, name: str, shard: int, time: str, data: bytes) -> WriteStat:
        file_id = self._file_id(name, shard)
        file = f".{file_id}_{time}.log.1_{TOKEN}"
        (self._root / name / file).write_bytes(data)
        return _stat(name, file_id, file, len(data), 1, prev_commit=time, is_log=True)

    def _complete(
        self, time: str, clock: Clock, stats: Mapping[str, tuple[WriteStat, ...]]
    ) -> None:
        metadata = CommitMetadata(
            stats,
            {"schema": METADATA_RECORD_SCHEMA_WITHOUT_META},
            operation_type="UPSERT_PREPPED",
            version=1,
        )
        write_completed(self._root, time, clock.next(), Action.DELTACOMMIT, metadata)

    def _file_id(self, name: str, shard: int) -> str:
        return f"{metadata_partition(name).file_id_prefix}{shard:04d}-0"

    def _records(self, name: str, change: Change) -> dict[int, tuple[pa.Array, pa.Array]]:
        """The records of each group in the order of their keys."""
        shards = shards_of(
            change.keys if change.hashed is None else change.hashed, self._groups[name]
        )
        order = pc.sort_indices(change.keys.cast(pa.binary())).to_numpy()
        found = {}
        for shard in np.unique(shards).tolist():
            rows = pa.array(order[shards[order] == shard])
            found[shard] = (change.keys.take(rows), change.values.take(rows))
        return found

    def _deletes(self, name: str, change: Change) -> dict[int, pa.Array]:
        """The deleted keys of each group; a key that was written again is not deleted."""
        placed = change.deletes if change.hashed_deletes is None else change.hashed_deletes
        shards = shards_of(placed, self._groups[name])
        gone = pc.invert(pc.is_in(change.deletes, change.keys)).to_numpy(zero_copy_only=False)
        return {
            shard: change.deletes.filter(pa.array((shards == shard) & gone))
            for shard in np.unique(shards[gone]).tolist()
        }


def _hfile(keys: pa.Array, values: pa.Array) -> bytes:
    info = {"schema": METADATA_RECORD_SCHEMA.encode()}
    return write_hfile(keys, values, file_info=info, options=_OPTIONS)


def _stat(
    partition: str,
    file_id: str,
    file: str,
    size: int,
    writes: int,
    *,
    prev_commit: str,
    is_log: bool = False,
) -> WriteStat:
    log = {"log_version": 1, "log_offset": 0, "base_file": "", "log_files": (file,)}
    return WriteStat(
        file_id=file_id,
        path=f"{partition}/{file}",
        partition_path=partition,
        prev_commit=prev_commit,
        num_writes=writes,
        num_inserts=writes,
        num_updates=0,
        num_deletes=0,
        total_write_bytes=size,
        total_write_errors=0,
        file_size_bytes=size,
        **(log if is_log else {}),
    )
