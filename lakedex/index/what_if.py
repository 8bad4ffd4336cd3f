"""Indexes that do not exist: what a kind of index says about one for a query.

The data of file slices is read where the index would have been consulted. So the answer is that of
the real index, at the price of reading its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lakedex.expr.tree import Expr
from lakedex.filegroup import FileSlice, ReadContext
from lakedex.index.contract import Mask
from lakedex.index.definitions import IndexDefinition


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
