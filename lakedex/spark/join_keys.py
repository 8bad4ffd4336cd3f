"""Whether the keys of one side of a join are worth knowing before a scan of the other side.

Keys that a join broadcasts anyhow cost nothing but the question to the indexes, which is weighed as
every question is. Keys that a query of their own has to find may turn out to remove no file: that
query may take a tenth of what the scan takes, as all that is asked in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakedex.prune import SPARK
from lakedex.spark.pins import Pin

NO, BROADCAST, ANY = "no", "broadcast", "any"
IN_VAIN = 0.1
_SMALLER = 10
"""How many times smaller a side without any condition must be."""
_OF_ALL_COLUMNS = ("column_stats",)


@dataclass(frozen=True, slots=True)
class OtherSide:
    """What Spark tells of the side that has the keys."""

    size_bytes: int
    """What Spark expects it to give."""
    read_bytes: int
    """What has to be read for it."""
    is_selective: bool
    """Whether a condition leaves rows out."""
    is_cheap: bool
    """Whether it may be asked a second time: a scan, which gives the same rows again."""

    @classmethod
    def read(cls, lines: Sequence[str]) -> tuple[OtherSide, tuple[str, ...]]:
        """The side that `JoinSides.java` describes, and the columns that are compared with it."""
        size, read, selective, cheap, *columns = lines
        return cls(int(size), int(read), selective == "true", cheap == "true"), tuple(columns)


def way_of_keys(pin: Pin, columns: Sequence[str], side: OtherSide) -> str:
    """How the keys may be found: not at all, from a broadcast only, or in any way.

    Args:
        pin: The table that is scanned.
        columns: Its columns that are compared with the keys.
        side: Where the keys come from.
    """
    slices = pin.snapshot.slices
    if len(slices) < 2 or pin.changes is not None or not _can_prune(pin, columns):
        return NO
    if not side.is_selective and side.size_bytes * _SMALLER > sum(pin.sizes):
        return NO
    asking = SPARK.query_s + side.read_bytes * SPARK.byte_s
    return ANY if side.is_cheap and asking <= IN_VAIN * SPARK.seconds(slices) else BROADCAST


def _can_prune(pin: Pin, columns: Sequence[str]) -> bool:
    """Whether anything of the table says where values of these columns are."""
    config = pin.snapshot.config
    if any(kind in config.metadata_partitions for kind in _OF_ALL_COLUMNS):
        return True
    known = {*config.partition_fields, *config.record_key_fields}
    for definition in (pin.snapshot.readable_definitions or {}).values():
        known.update(definition.source_fields)
    return not {name.partition(".")[0] for name in known}.isdisjoint(columns)
