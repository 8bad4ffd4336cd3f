"""The counters of a table's indexes and predicates, and their form in a file.

All of them only ever grow, so that what two processes counted is their sum. They are bounded: of
more comparisons than are kept, those that were not seen for longest are forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, TypeVar

from lakedex.errors import CorruptFile

_VERSION = 1
_MOST_PREDICATES = 1_000
_MOST_INDEXES = 1_000


@dataclass(slots=True)
class IndexUsage:
    """What one index did for queries."""

    scans: int = 0
    """Queries that asked it and got an answer."""
    offered: int = 0
    """Queries of the table while it had this index, whether they asked it or not."""
    files_asked: int = 0
    """File slices that it was asked about."""
    files_pruned: int = 0
    bytes_saved: int = 0
    seconds: float = 0.0
    """The time that asking took."""
    last_used: str = ""
    """UTC, such as `2026-01-02T03:04:05Z`."""


@dataclass(slots=True)
class PredicateUsage:
    """How often a column was compared in one way, and what was read then."""

    scans: int = 0
    files_total: int = 0
    files_read: int = 0
    values: int = 0
    """Constants that it was compared with, in all scans together; which ones is not kept."""
    unanswered: int = 0
    """Scans in which no index left out a file."""
    files_unanswered: int = 0
    """Files that were read in those."""
    last_used: str = ""


_Key = TypeVar("_Key")
_Counters = TypeVar("_Counters", IndexUsage, PredicateUsage)


@dataclass(slots=True)
class TableUsage:
    """What is counted of one table."""

    indexes: dict[str, IndexUsage] = field(default_factory=dict)
    predicates: dict[tuple[str, str, str], PredicateUsage] = field(default_factory=dict)
    """By column, operator and the expression that is compared, if it is not the bare column."""
    scans: int = 0
    """Queries with a predicate."""
    since: str = ""
    """When the first of them was counted, in UTC."""

    def add(self, other: TableUsage) -> None:
        """Count what another has counted as well."""
        for name, usage in other.indexes.items():
            _add(self.indexes.setdefault(name, IndexUsage()), usage)
        for shape, seen in other.predicates.items():
            _add(self.predicates.setdefault(shape, PredicateUsage()), seen)
        _forget_oldest(self.indexes, _MOST_INDEXES)
        _forget_oldest(self.predicates, _MOST_PREDICATES)
        self.scans += other.scans
        self.since = min(filter(None, (self.since, other.since)), default="")

    def encode(self) -> bytes:
        """The counters as JSON.

        Example:
            >>> usage = TableUsage(indexes={"record_index": IndexUsage(scans=2)})
            >>> TableUsage.decode(usage.encode(), path="usage.json") == usage
            True
        """
        predicates = [
            {"column": column, "operator": operator, "expression": expression, **asdict(seen)}
            for (column, operator, expression), seen in sorted(self.predicates.items())
        ]
        indexes = {name: asdict(usage) for name, usage in sorted(self.indexes.items())}
        told = {"version": _VERSION, "scans": self.scans, "since": self.since}
        told |= {"indexes": indexes, "predicates": predicates}
        return json.dumps(told, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> Self:
        """The counters in a file.

        Raises:
            CorruptFile: It is none of ours.
        """
        try:
            told = json.loads(data)
            if told["version"] != _VERSION:
                raise CorruptFile(path, 0, expected=f"version {_VERSION}", actual=told["version"])
            indexes = {
                str(name): _read(IndexUsage(), each) for name, each in told["indexes"].items()
            }
            predicates = {
                (str(each["column"]), str(each["operator"]), str(each["expression"])): _read(
                    PredicateUsage(), each
                )
                for each in told["predicates"][:_MOST_PREDICATES]
            }
            scans, since = int(told.get("scans", 0)), str(told.get("since", ""))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptFile(path, 0, expected="counters of index usage", actual=error) from error
        return cls(indexes, predicates, scans, since)


def _forget_oldest(counters: dict[_Key, _Counters], most: int) -> None:
    if len(counters) > most:
        oldest = sorted(counters, key=lambda key: counters[key].last_used)
        for key in oldest[: len(counters) - most]:
            del counters[key]


def _read(into: _Counters, told: Mapping[str, Any]) -> _Counters:
    for each in fields(into):
        default = getattr(into, each.name)
        setattr(into, each.name, type(default)(told.get(each.name, default)))
    return into


def _add(into: _Counters, more: _Counters) -> None:
    for each in fields(into):
        ours, theirs = getattr(into, each.name), getattr(more, each.name)
        setattr(into, each.name, max(ours, theirs) if isinstance(ours, str) else ours + theirs)
