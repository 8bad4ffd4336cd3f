"""How many file groups a new index of the metadata table gets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from lakedex.config.metadata_options import IndexRoom, MetadataOptions

USUAL_STAT_GROUPS: Final = 2
"""What Hudi gives column_stats, however large the table is."""
_COLUMNS_A_GROUP = 10
_LEAST_STATS_A_GROUP = 100_000
_MOST_STATS_A_GROUP = 1_000_000
_ENTRIES_A_SHARD = 500_000
_GROWTH = 4
_ENTRY_BYTES = 48
"""What an entry of the record index takes, by Hudi's estimate."""
_USUAL_ROOM = IndexRoom()


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """What a new index is to hold."""

    options: MetadataOptions
    rows: int
    """The rows that get an entry."""
    stat_columns: int
    files: int
    is_partitioned: bool = False
    """Whether each data partition has file groups of its own."""


def stat_groups_for(columns: int, files: int) -> int:
    """How many file groups column_stats get for a table of so many columns and files.

    RFC-27's rule is one for every ten columns. A group more is one more file to open for every
    lookup and to write in every commit, so it has to have enough entries; and none has too many.

    Example:
        >>> stat_groups_for(35, 100), stat_groups_for(35, 20_000), stat_groups_for(23, 286_603)
        (2, 4, 7)
    """
    entries = columns * files
    by_columns = min(-(-columns // _COLUMNS_A_GROUP), entries // _LEAST_STATS_A_GROUP)
    return max(USUAL_STAT_GROUPS, by_columns, -(-entries // _MOST_STATS_A_GROUP))


def shards_for(
    rows: int, least: int, most: int, *, partitioned: bool, room: IndexRoom = _USUAL_ROOM
) -> int:
    """How many file groups an index of keys gets: room to grow a few times before they are large.

    Example:
        >>> shards_for(1_000_000, 1, 10_000, partitioned=False)
        8
        >>> shards_for(1_000_000, 1, 10_000, partitioned=False, room=IndexRoom(1.5, 4_800_000))
        15
    """
    entries = _ENTRIES_A_SHARD
    if room.group_bytes is not None:
        entries = max(1, room.group_bytes // _ENTRY_BYTES)
    growth = _GROWTH if room.growth is None else room.growth
    wanted = 1 if partitioned else math.ceil(growth * rows / entries)
    return max(least, min(most, wanted))
