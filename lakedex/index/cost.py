"""What asking an index costs, told from facts that are known before it is asked.

The facts are the files of the metadata partition (how many groups, log files and bytes), how many
keys are looked up and how many records answer. What each of them takes was measured on one core of
an ordinary server with warm files; `bench/bench_query_cost.py` measures it again. A faster or a
slower machine reads data files faster or slower too, so only the proportions matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakedex.filegroup import FileSlice
from lakedex.index.metadata_table import STATS_PAYLOAD, MetadataTable, metadata_partition
from lakedex.storage import Storage
from lakedex.storage.paths import is_remote

_READ_S = 2.0e-3
"""One read of a partition, however small: choosing, decoding and merging whole columns."""
_STATS_READ_S = 3.0e-3
"""The same for statistics, whose records have some forty columns."""
_GROUP_S = 0.8e-3
"""Opening a file group: its trailer, its block index and the first block."""
_LOG_S = 0.3e-3
"""Opening one log file of a group; log files are read whole."""
_AT_HAND_S = 0.05e-3
"""One file of a group, base or log, that is in memory already."""
_KEY_S = 1.5e-6
"""Sorting one key, finding its block and its cell."""
_RECORD_S = 2.0e-6
"""Decoding one record, and comparing it."""
_BYTE_S = 1 / 200e6
"""Reading and unpacking one stored byte."""
_COUNTED_BYTE_S = 1 / 12e6
"""One stored byte of a log file whose keys are counted: keys pack to a few bytes each."""
_BARE_LOG_BYTES = 10_000
"""A log file with a few records: schema, trailer and indexes, which are not counted."""
_BLOCK_BYTES = 64 << 10
"""A stored block: 256 KiB that gzip packs to about a quarter."""
LEAST_S = _READ_S + _GROUP_S
"""What asking any index takes at least."""
FIRST_S = _STATS_READ_S
"""The same for the first query of a snapshot: no checks and ranges are cached."""
ROUND_TRIP_S = 20e-3
"""One request to an object store."""
_REQUESTS_PER_GROUP = 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an index would cost, and what it is sure to save."""

    seconds: float
    most_left: int | None = None
    """At most so many slices are left, whatever the index answers; None if that is not known."""
    once: float = 0.0
    """The part of the seconds that later questions about the same snapshot need not pay again."""


def lookup_seconds(metadata: MetadataTable, partition: str, keys: int) -> float:
    """Looking up so many keys: each is in one group and one block."""
    groups = metadata.groups(partition)
    if not groups:
        return 0.0
    share = min(1.0, keys / len(groups))
    blocks = keys * _BLOCK_BYTES / len(groups)
    stored = sum(min(_base_bytes(group), blocks) + _log_bytes(group) for group in groups)
    return (
        _read_seconds(partition)
        + share * _opening(metadata, groups)
        + share * stored * _BYTE_S
        + keys * (_KEY_S + _RECORD_S)
    )


def scan_seconds(
    metadata: MetadataTable, partition: str, records: int, *, share: float = 1.0
) -> float:
    """Reading so many records that lie together, a share of the partition, from all its groups."""
    groups = metadata.groups(partition)
    if not groups:
        return 0.0
    stored = sum(
        max(share * _base_bytes(group), min(_base_bytes(group), _BLOCK_BYTES)) + _log_bytes(group)
        for group in groups
    )
    opening = _opening(metadata, groups)
    return _read_seconds(partition) + opening + stored * _BYTE_S + records * _RECORD_S


def count_seconds(metadata: MetadataTable, partition: str) -> float:
    """Counting the entries of a partition: trailers, and all that log files hold."""
    groups = metadata.groups(partition)
    stored = sum(max(0, log.size_bytes - _BARE_LOG_BYTES) for group in groups for log in group.logs)
    return _opening(metadata, groups) + stored * _COUNTED_BYTE_S


def round_trip_seconds(storage: Storage) -> float:
    """What one request takes where the files are not at hand."""
    return ROUND_TRIP_S if is_remote(storage.root) else 0.0


def _read_seconds(partition: str) -> float:
    is_wide = STATS_PAYLOAD in metadata_partition(partition).payloads
    return _STATS_READ_S if is_wide else _READ_S


def _opening(metadata: MetadataTable, groups: list[FileSlice]) -> float:
    """Opening groups: a base or log file that is in memory is opened in next to no time."""
    bases = logs = at_hand = 0
    for group in groups:
        held = sum(metadata.is_at_hand(group, log) for log in group.logs)
        is_held = group.base is not None and metadata.is_at_hand(group, group.base)
        at_hand += held + is_held
        logs += len(group.logs) - held
        # Without a base file its log files have trailers and block indexes of their own.
        bases += not is_held and (group.base is not None or held < len(group.logs))
    requests = _REQUESTS_PER_GROUP * bases + logs
    each = bases * _GROUP_S + logs * _LOG_S + at_hand * _AT_HAND_S
    return each + requests * round_trip_seconds(metadata.storage)


def _base_bytes(group: FileSlice) -> int:
    return group.base.size_bytes if group.base else 0


def _log_bytes(group: FileSlice) -> int:
    return sum(log.size_bytes for log in group.logs)
