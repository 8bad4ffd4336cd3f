"""Dynamic pruning: whether the keys of one side of a join are worth computing for the other side.

Keys that a join broadcasts anyhow cost nothing but the lookup in the indexes, which has its own
cost model. Keys that need a query of their own may turn out to remove no file, so that query may
take at most a tenth of the time of the scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakedex.prune import SPARK
from lakedex.spark.jvm_contract import KEYS_ANY, KEYS_BROADCAST, KEYS_UNUSED
from lakedex.spark.pins import Pin

MOST_OVERHEAD = 0.1
"""Of the time of a scan, what the query for the keys may take."""
_SMALLER = 10
"""How many times smaller a side without any condition must be."""
_OF_ALL_COLUMNS = ("column_stats",)


@dataclass(frozen=True, slots=True)
class OtherSide:
    """Spark's estimates of the side that has the keys."""

    size_bytes: int
    """What Spark expects it to give."""
    read_bytes: int
    """What has to be read for it."""
    is_selective: bool
    """Whether a condition leaves rows out."""
    is_cheap: bool
    """Whether it may be read a second time: a scan, which returns the same rows again."""


def source_of_keys(pin: Pin, columns: Sequence[str], side: OtherSide) -> str:
    """How the keys may be computed: not at all, from a broadcast only, or in any way.

    Args:
        pin: The table that is scanned.
        columns: Its columns that are compared with the keys.
        side: Where the keys come from.
    """
    slices = pin.snapshot.slices
    if len(slices) < 2 or pin.changes is not None or not _can_prune(pin, columns):
        return KEYS_UNUSED
    if not side.is_selective and side.size_bytes * _SMALLER > sum(pin.sizes):
        return KEYS_UNUSED
    query_s = SPARK.query_s + side.read_bytes * SPARK.byte_s
    is_affordable = query_s <= MOST_OVERHEAD * SPARK.seconds(slices)
    return KEYS_ANY if side.is_cheap and is_affordable else KEYS_BROADCAST


def _can_prune(pin: Pin, columns: Sequence[str]) -> bool:
    """Whether an index, a key or a partition path locates values of these columns."""
    config = pin.snapshot.config
    if any(kind in config.metadata_partitions for kind in _OF_ALL_COLUMNS):
        return True
    known = {*config.partition_fields, *config.record_key_fields}
    for definition in (pin.snapshot.readable_definitions or {}).values():
        known.update(definition.source_fields)
    return not {name.partition(".")[0] for name in known}.isdisjoint(columns)
