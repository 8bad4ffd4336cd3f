"""Indexes that do not exist: what they would change for queries, of the past or of one at hand.

The comparisons of columns in past queries say which indexes would have helped (advice). For one
query, the data of file slices is read where the index would have been consulted (what-if).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.errors import InvalidInput, LakedexError
from lakedex.expr.tree import Expr
from lakedex.filegroup import FileSlice, ReadContext
from lakedex.index.contract import Mask
from lakedex.index.definitions import IndexDefinition
from lakedex.index.size_estimate import SizeEstimate, files_with_any

POINTS: Final = frozenset({"equal", "in", "null"})
"""Comparisons with single values."""
RANGES: Final = frozenset({"equal", "in", "range", "like"})
"""Comparisons that ranges of files answer."""
POINTS_OF_RANGES: Final = frozenset({"equal", "in"})
"""Comparisons of which every constant is a value of its own."""
MOST_COLUMNS: Final = 8
"""So many columns are looked at, those first of which queries read most files."""
_LEAST_FILES = 1.0
_LEAST_SHARE = 0.2
"""An index must save a query so many of the files that it reads."""


@dataclass(slots=True)
class Demand:
    """How often queries compared a column, and what they read."""

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
        """Values that a query compared it with, in the mean."""
        return max(1.0, self.values / max(1, self.scans))

    def left(self, values: float, files_a_value: float, files: int) -> float:
        """Files that a query would read with an index, in the mean; no more than it reads today.

        Args:
            values: How many values it compares the column with.
            files_a_value: In how many files a value is.
            files: How many files the table has.
        """
        holding = files_with_any(values, files_a_value, files)
        return min(max(1.0, holding), self.files_a_scan)

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

    def pays(self, left: float) -> bool:
        """Whether an index that leaves so many files to a query is worth its cost."""
        saved = self.files_a_scan - left
        return saved >= _LEAST_FILES and saved >= _LEAST_SHARE * self.files_a_scan


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An index to create."""

    index: str
    kind: str
    columns: tuple[str, ...]
    queries: int
    """The counted queries that it concerns."""
    files_saved: float
    """Files that those queries read and would not have read, about."""
    size_bytes: int
    bytes_per_change: float
    build_seconds: float
    reason: str
    options: str = ""
    """What follows the columns in the statement that creates it."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A table, and how queries compared its columns."""

    name: str
    """What statements call the table."""
    config: TableConfig
    schema: pa.Schema
    definitions: Mapping[str, IndexDefinition]
    files: int
    demands: Callable[[Collection[str]], list[Demand]]
    """How bare columns were compared by some operators; most files read first."""
    key_demand: Callable[[], Demand | None]
    """How the record key was compared."""
    estimate: Callable[[str, tuple[str, ...]], SizeEstimate | None]
    """What an index of a kind on some columns would take."""
    is_taken: Callable[[str], bool]
    """Whether the table has an index of a name."""
    answered: set[str] = field(default_factory=set)
    """Columns whose values an index of single rows looks up, be it there or suggested."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the record key."""
        return tuple(self.config.record_key_fields)

    def is_live(self, name: str) -> bool:
        """Whether the table has an index, by its full name."""
        return name in self.config.metadata_partitions

    def size_of(self, kind: str, columns: tuple[str, ...] = ()) -> SizeEstimate:
        """What an index of a kind on some columns would take.

        Raises:
            InvalidInput: the table has no rows.
        """
        estimate = self.estimate(kind, columns)
        if estimate is None:
            raise InvalidInput(f"table {self.name} has no rows")
        return estimate

    def guarded(
        self, suggest: Callable[[Workload, Demand], Suggestion | str], demand: Demand
    ) -> Iterator[Suggestion | str]:
        """One suggestion; a part of the table that cannot be read affects no other."""
        try:
            yield suggest(self, demand)
        except LakedexError as error:
            yield f"{self.name}.{demand.column}: {error}"

    def too_little(self, demand: Demand, left: float, what: str) -> str:
        """Why an index is not suggested that leaves so many files to a query."""
        return (
            f"{self.name}.{demand.column}: {what} would leave about {left:,.1f} of the "
            f"{demand.files_a_scan:,.1f} files that a query reads"
        )


@dataclass(frozen=True, slots=True)
class WhatIfQuery:
    """A predicate, bound and in normal form, and the table that it is about."""

    read: ReadContext
    predicate: Expr
    is_latest: bool
    """Whether it is about the newest snapshot, which key indexes describe."""
    read_definitions: Callable[[], Mapping[str, IndexDefinition]]
    ranges: Callable[[Sequence[str], Sequence[FileSlice]], Mapping[str, pa.Table]]
    """Reads the ranges of some columns in the files of some slices."""
    time_zone: str = "UTC"

    @property
    def definitions(self) -> Mapping[str, IndexDefinition]:
        """The index definitions of the table."""
        return self.read_definitions()

    def is_live(self, name: str) -> bool:
        """Whether the table has an index, by its full name."""
        return name in self.read.config.metadata_partitions


@dataclass(frozen=True, slots=True)
class Sampled:
    """What was found in some slices."""

    keep: Mask
    """Those that the index would leave."""
    typical: float | None
    """How many of all slices such a query leaves, as far as the sample tells."""
    reason: str


class HypotheticalIndex(Protocol):
    """An index that does not exist."""

    @property
    def name(self) -> str:
        """What it is called in a report."""

    @property
    def kind(self) -> str:
        """The kind of index."""

    @property
    def lookups(self) -> int:
        """How many indexes a query looks up to use it."""

    def why_not(self, query: WhatIfQuery) -> str | None:
        """Why it would not be used, if so."""

    def sample(self, query: WhatIfQuery, slices: Sequence[FileSlice], share: float) -> Sampled:
        """Read some slices, which are such a share of those that are left."""
