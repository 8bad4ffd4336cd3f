"""What queries asked of the columns of a table, as the usage counters tell it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from lakedex.filegroup import RECORD_KEY
from lakedex.index.sampling import files_with_any
from lakedex.prune.usage import TableUsage
from lakedex.table import Snapshot

POINTS: Final = frozenset({"equal", "in", "null"})
"""Comparisons that ask for single values."""
RANGES: Final = frozenset({"equal", "in", "range", "like"})
"""Comparisons that ranges of files answer."""


@dataclass(frozen=True, slots=True)
class AdvisedTable:
    """A table that is looked at, and its name in statements."""

    snapshot: Snapshot
    usage: TableUsage
    name: str

    @property
    def mean_bytes(self) -> float:
        """The mean size of a file slice."""
        slices = self.snapshot.slices
        return sum(each.size_bytes for each in slices) / max(1, len(slices))

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that a record is known by."""
        return tuple(self.snapshot.config.record_key_fields)

    def has(self, partition: str) -> bool:
        """Whether a partition of the metadata table is live."""
        return partition in self.snapshot.config.metadata_partitions


@dataclass(slots=True)
class Demand:
    """How often values of a column were asked for, and what was read then."""

    column: str
    scans: int = 0
    files_read: int = 0
    values: int = 0
    unanswered: int = 0
    operators: set[str] = field(default_factory=set)

    @property
    def files_a_scan(self) -> float:
        """Files that a query read, in the mean."""
        return self.files_read / max(1, self.scans)

    @property
    def values_a_scan(self) -> float:
        """Values that a query asked for, in the mean."""
        return max(1.0, self.values / max(1, self.scans))

    def left(self, values: float, files_a_value: float, files: int) -> float:
        """Files that a query would read with an index, in the mean; no more than it reads today.

        Args:
            values: How many values it asks for.
            files_a_value: In how many files a value is.
            files: How many files the table has.
        """
        found = files_with_any(values, files_a_value, files)
        return min(max(1.0, found), self.files_a_scan)

    def saved(self, left: float) -> float:
        """Files that would not have been read if an index left so many to a query."""
        return self.scans * max(0.0, self.files_a_scan - left)

    def __str__(self) -> str:
        shown = {"equal": "=", "in": "IN", "null": "IS NULL", "range": "< >", "like": "LIKE"}
        asked = ", ".join(shown[each] for each in sorted(self.operators))
        return (
            f"{self.scans:,} queries compared {self.column} ({asked}) and read "
            f"{self.files_a_scan:,.1f} files each; in {self.unanswered:,} of them no index "
            "left out any"
        )


def demands(table: AdvisedTable, operators: Collection[str]) -> list[Demand]:
    """What was asked of bare columns by some comparisons; most files read first."""
    found: dict[str, Demand] = {}
    for (column, operator, expression), seen in table.usage.predicates.items():
        if expression or operator not in operators or not seen.scans:
            continue
        if column not in table.snapshot.schema.names:
            continue
        demand = found.setdefault(column, Demand(column))
        demand.scans += seen.scans
        demand.files_read += seen.files_read
        demand.values += seen.values
        demand.unanswered += seen.unanswered
        demand.operators.add(operator)
    return sorted(found.values(), key=lambda each: (-each.files_read, each.column))


def key_demand(table: AdvisedTable) -> Demand | None:
    """What was asked of the record key; of several key columns the one that was asked least."""
    by_column = {each.column: each for each in demands(table, {"equal", "in"})}
    if RECORD_KEY in by_column:
        return by_column[RECORD_KEY]
    keys = [by_column.get(name) for name in table.key_columns]
    known = [each for each in keys if each is not None]
    if not known or len(known) < len(keys):
        return None
    return min(known, key=lambda each: each.scans)
