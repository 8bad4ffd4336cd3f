"""The contract of every index kind: from a predicate to the file slices that may match.

An index returns the candidates among the slices that it covers; slices that it does not cover are
kept. A set of slices is never complemented: a slice can hold rows for a predicate and for its
negation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from lakedex.config import TableConfig
from lakedex.expr.tree import Expr
from lakedex.filegroup import FileSlice, FileSliceId, ReadContext, Slices
from lakedex.index.cost import Estimate
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table import MetadataTable
from lakedex.storage.protocol import Storage
from lakedex.timeline import Timeline

Mask = npt.NDArray[np.bool_]

NOT_LIVE = "it is not live: still being built, or dropped"
NEWEST_ONLY = "it describes the newest snapshot only"
FIELDS_CHANGED = "it is on a field of a column, and columns of this table were renamed or dropped"
_LOCATED = "located_columns"
ALREADY_LOCATED = "not needed: an index of single rows has told where such values are"


@dataclass(frozen=True, slots=True)
class StoredTable:
    """What a table is without its metadata table; the parts are read when they are asked for."""

    storage: Storage
    config: TableConfig
    timeline: Timeline
    read: Callable[[], ReadContext]
    slices: Callable[[], Slices]
    """The file slices of the snapshot."""
    own: Callable[[], Mapping[str, str]]
    """What the table keeps for its writers."""


@dataclass(frozen=True, slots=True)
class IndexedTable:
    """What index kinds may know of the table of a query."""

    read: ReadContext
    timeline: Timeline
    metadata: MetadataTable
    definitions: Mapping[str, IndexDefinition]
    slices: Slices
    """All slices of the snapshot, pruned ones too."""
    is_latest: bool
    """Whether the snapshot is the newest one, which key and partition indexes describe."""
    time_zone: str = "UTC"
    expression_time_zone: str | None = None
    """The session zone in which other engines built expression indexes, if the caller says."""
    zones: Callable[[], Mapping[str, str]] = dict
    """The zones that the table says its expression indexes are computed in, by index."""
    own: Callable[[], Mapping[str, str]] = dict
    """Reads what the table keeps for its writers."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What an index found out about the whole table and need not find out again."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The same of what is found out about every table, whether it has such an index or not."""
    without: frozenset[str] = frozenset()
    """Names and kinds of indexes that are not asked."""

    def is_live(self, partition: str) -> bool:
        """Whether queries may use that partition of the metadata table."""
        return partition in self.read.config.metadata_partitions

    def is_usable(self, partition: str) -> bool:
        """Whether a query may ask that index: it is live, and the caller did not switch it off."""
        return self.is_live(partition) and partition not in self.without

    def named_indexes(self, prefix: str) -> list[str]:
        """The indexes whose names start so, live or only defined."""
        known = {*self.read.config.metadata_partitions, *self.definitions}
        return sorted(name for name in known if name.startswith(prefix))

    @property
    def slice_ids(self) -> Set[FileSliceId]:
        """The file groups of the snapshot."""
        return self.slices.places.keys()


@dataclass(frozen=True, slots=True)
class Question:
    """A predicate, bound and in normal form, over the slices that are still candidates."""

    predicate: Expr
    slices: Slices
    table: IndexedTable
    found: dict[str, Any] = field(default_factory=dict)
    """What an index read off the predicate and need not read again."""
    worth: float = math.inf
    """Seconds: an index that takes longer for sure need not look at the predicate."""
    left_to: set[str] = field(default_factory=set)
    """The indexes that work was left to; where one gives no answer, the question is repeated."""

    def mask_of(self, groups: Collection[FileSliceId]) -> Mask:
        """Which of the slices are of these file groups."""
        return self.slices.mask_of(groups)

    def locate(self, columns: Iterable[str]) -> None:
        """Note that the slices left are those of rows with the queried values of these columns."""
        self.found[_LOCATED] = self.located.union(columns)

    def leave_to(self, other: str) -> bool:
        """Leave work to another index, if that may be used; the planner sees that it is done."""
        if not self.table.is_usable(other):
            return False
        self.left_to.add(other)
        return True

    def repeated(self, without: Collection[str], slices: Slices) -> Question:
        """The same question about other slices, with more indexes switched off."""
        table = replace(self.table, without=self.table.without.union(without))
        found = {_LOCATED: self.located}
        return replace(self, slices=slices, table=table, found=found, left_to=set())

    @property
    def located(self) -> frozenset[str]:
        """The columns whose queried values an index of single rows has located already."""
        found: frozenset[str] = self.found.get(_LOCATED, frozenset())
        return found

    @property
    def partitions(self) -> Sequence[str]:
        """The partition paths of the slices, each once."""
        return self.slices.partitions


@dataclass(frozen=True, slots=True)
class Answer:
    """Which of the question's slices may match; those not covered are kept."""

    candidates: Mask
    covered: Mask
    reason: str

    @property
    def keep(self) -> Mask:
        """The slices that must be read."""
        return self.candidates | ~self.covered


def covered_up_to(slices: Slices, covered: Mask) -> str:
    """What a reason says of an index that no writer maintains; nothing where it covers all.

    The slices are those of the table, `covered` says which of them were read into the index.
    """
    newer = int(np.count_nonzero(~covered))
    if not newer:
        return ""
    instants = [newest_instant(slices[at]) for at in np.flatnonzero(covered).tolist()]
    if not instants:
        return f"; covers none of the {newer} file slices, which are all read: REFRESH INDEX"
    return f"; covers the table up to instant {max(instants)}, {newer} newer file slices are read"


def newest_instant(file_slice: FileSlice) -> str:
    """The instant of the newest file of a slice."""
    files = [each for each in (file_slice.base, *file_slice.logs) if each is not None]
    return max((each.instant_time for each in files), default=file_slice.base_instant)


class Stage(IntEnum):
    """When the planner consults a kind: cheap and coarse lookups first, the most expensive last."""

    PARTITIONS = 1
    """Ranges of whole partitions."""
    KEYS = 2
    """The file groups of single rows, by the values of a key."""
    EXPRESSIONS = 3
    """Values or ranges of a column or expression, by file."""
    COLUMNS = 4
    """Ranges of stored columns, by file."""
    FILTERS = 5
    """Filters that have to be read file by file."""


@runtime_checkable
class IndexKind(Protocol):
    """One kind of index, as the planner uses it."""

    @property
    def kind(self) -> str:
        """The name of the kind, for reports."""

    @property
    def stage(self) -> Stage:
        """When the planner consults it."""

    @property
    def describes_files(self) -> bool:
        """Whether it describes each file by itself, or else rows as base and log files make them.

        A query of base files alone reads rows that log files have changed since.
        """

    def names(self, table: IndexedTable) -> list[str]:
        """The indexes of this kind that the table has, live or not."""

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """What a lookup would cost, or in words why there is none; reads no records."""

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The answer, or in words why the index has none (and every slice is kept)."""
