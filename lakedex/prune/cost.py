"""Whether an index is worth its lookup, compared with reading the files that it could remove.

An index that certainly removes enough is consulted. One that may remove nothing is consulted as
long as all that was spent in vain stays within a tenth of the whole query without indexes: that is
the promise which makes it safe to have indexes on small tables, and on tables that nothing can
prune.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from lakedex.errors import InvalidInput
from lakedex.filegroup import Slices
from lakedex.index.cost import FIRST_S, ROUND_TRIP_S, Estimate

SWITCH = "LAKEDEX_INDEX_COST"
"""The environment variable that, set to `ignore`, lets Arrow reads consult every index."""
_IN_VAIN = 0.1
"""The part of a query without indexes that may be spent on lookups that remove nothing."""
_REQUESTS_PER_FILE = 2
_AT_ONCE = 4
"""Requests to an object store that are under way at a time, of a careful reader."""
_MISSED = "saving_missed"


@dataclass(frozen=True, slots=True)
class Reader:
    """What reading costs the one who reads; measured as the constants of `index.cost` were."""

    name: str
    query_s: float
    """A query that reads no file at all."""
    file_s: float
    """One more file, when as many are read at a time as there are cores."""
    byte_s: float
    """One more byte of a file, of which a query usually reads a few columns."""
    merge_s: float
    """One more slice with log files, which have to be merged into its base file."""
    asks_again: int = 1
    """How many questions about one snapshot share what an index has to do once."""
    is_remote: bool = False
    """Whether the files are on an object store."""

    def seconds(self, slices: Slices) -> float:
        """Reading these slices, the query itself left out."""
        found = slices.amount
        request = _REQUESTS_PER_FILE * ROUND_TRIP_S / _AT_ONCE if self.is_remote else 0.0
        return (
            found.files * (self.file_s + request)
            + found.merged * self.merge_s
            + found.stored * self.byte_s
        )


ARROW = Reader("lakedex", query_s=5e-3, file_s=0.5e-3, byte_s=1 / 800e6, merge_s=2e-3)
"""`to_arrow`: opens a table again and reads a file on each core."""
SPARK = Reader("Spark", query_s=100e-3, file_s=3e-3, byte_s=1 / 400e6, merge_s=30e-3, asks_again=3)
"""A query that Spark has compiled before, on two cores; slices are merged in Python tasks. Its
queries share a snapshot until the next commit."""
ANY_ENGINE = Reader("another engine", query_s=5.0, file_s=10e-3, byte_s=1 / 100e6, merge_s=10e-3)
"""A reader that gets a list of files: its speed is unknown, so indexes may take half a
second for nothing."""


def is_read_at_once(reader: Reader, slices: Slices) -> bool:
    """Whether reading all the slices takes less than a lookup in any index."""
    return Scales(reader, slices).worth(slices) < FIRST_S


def weighs_cost() -> bool:
    """Whether the cost decides which indexes are consulted, as the environment says.

    Raises:
        InvalidInput: The environment says neither.
    """
    said = os.environ.get(SWITCH, "").strip().lower()
    if said not in ("", "ignore"):
        raise InvalidInput(
            f"the environment variable {SWITCH} is `ignore` or not set, not {said!r}"
        )
    return not said


class Scales:
    """Weighs the steps of one plan against each other and against the scan."""

    def __init__(self, reader: Reader, slices: Slices, kept: dict[str, Any] | None = None) -> None:
        """Weigh for a reader.

        Args:
            reader: Who reads.
            slices: Those that a query without indexes would read.
            kept: What is remembered from question to question about the same snapshot.
        """
        self._reader = reader
        self._kept = {} if kept is None else kept
        self._budget = _IN_VAIN * (reader.query_s + reader.seconds(slices))

    def worth(self, slices: Slices) -> float:
        """The most seconds that any index can be worth."""
        return max(self._reader.seconds(slices), self._budget)

    def why_not(self, estimate: Estimate, slices: Slices) -> str | None:
        """None when the step is worth its cost, else the reason in words."""
        reading = self._reader.seconds(slices)
        sure = self._sure_saving(estimate, slices, reading)
        shared = estimate.seconds - estimate.once * (1 - 1 / self._reader.asks_again)
        if shared <= max(sure, self._budget):
            return None
        if estimate.seconds - estimate.once < sure and self._has_paid_off(estimate, sure):
            return None
        spare = max(self._budget, 0.0)
        return (
            f"not worth it: the lookup takes about {_ms(estimate.seconds)}, reading the "
            f"{len(slices):,} file slices about {_ms(reading)}, of which it is sure to save "
            f"{_ms(sure)}; {_ms(spare)} may be spent in vain"
        )

    def _has_paid_off(self, estimate: Estimate, sure: float) -> bool:
        """Whether what is done once is a tenth of what questions like this one have missed."""
        missed = self._kept.get(_MISSED, 0.0) + sure
        self._kept[_MISSED] = missed
        return _IN_VAIN * missed >= estimate.once

    def spent(self, seconds: float, before: Slices, left: Slices) -> None:
        """A step took so long and left these slices."""
        saved = self._reader.seconds(before) - self._reader.seconds(left)
        self._budget -= max(0.0, seconds - saved)

    @staticmethod
    def _sure_saving(estimate: Estimate, slices: Slices, reading: float) -> float:
        if estimate.most_left is None or not slices:
            return 0.0
        return reading * max(0.0, 1.0 - estimate.most_left / len(slices))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"
