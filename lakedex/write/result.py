"""What a write did: counts, bytes, seconds of each step."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The outcome of one write; `instant` is None when nothing had to be changed.

    Example:
        >>> print(WriteResult("UPSERT", "20260102030405678", inserted=2, updated=1, files=1))
        UPSERT 20260102030405678: 2 inserted, 1 updated, 0 deleted; 1 files, 0 bytes in 0.00 s
    """

    operation: str
    instant: str | None
    inserted: int = 0
    """Rows of keys that were not there; of a record that moves, also the one in its new place."""
    updated: int = 0
    """Newer versions of records. In log files also those that lose by their ordering value: only
    a reader finds that out."""
    deleted: int = 0
    """Records that were there and are gone, also from the old place of one that moves; what goes
    with whole file groups is not counted, see `file_groups_replaced`."""
    files: int = 0
    file_groups_replaced: int = 0
    bytes_written: int = 0
    rows_in: int = 0
    """Rows as they came, each copy of a key for itself."""
    index_hits: int = 0
    """How many of the incoming keys were in the table."""
    index_lookups: int = 0
    indexes: tuple[str, ...] = ()
    """The metadata partitions that this commit built, such as a secondary index and the record
    index that it needs."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds by step: intake, begin, tag, assign, layout, write, commit, services."""

    @property
    def index_hit_rate(self) -> float | None:
        """The share of looked-up keys that were found; None where none was looked up."""
        return self.index_hits / self.index_lookups if self.index_lookups else None

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        changed = f"{self.inserted} inserted, {self.updated} updated, {self.deleted} deleted"
        if self.operation == "CLUSTER":
            changed = f"{self.rows_in} rows of {self.file_groups_replaced} file groups"
        elif self.operation == "COMPACT":
            changed = f"{self.rows_in} rows"
        elif self.operation == "INDEX" and self.indexes:
            changed = f"built {', '.join(self.indexes)}"
        return (
            f"{self.operation} {self.instant or '(nothing to do)'}: {changed}; {self.files} files, "
            f"{self.bytes_written} bytes in {total:.2f} s"
        )


class StepClock:
    """Adds up the seconds of named steps."""

    def __init__(self) -> None:
        """Start with no step."""
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count the time of a block to a step."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
