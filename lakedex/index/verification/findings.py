"""What verifying finds: problems with the entries of indexes, and notes that are no problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from lakedex.filegroup import FileSliceId

Described: TypeAlias = (
    tuple[str, str]
    | tuple[str, str, FileSliceId]
    | tuple[str, str, FileSliceId | None, tuple[str, ...]]
)
"""Key and detail of a problem, perhaps its place, and perhaps the entries that it is about."""
MAX_PROBLEMS: Final = 1_000
"""So many problems of one index are described; the rest is counted."""


class ProblemKind(Enum):
    """How an index disagrees with the data."""

    WRONG = "wrong"
    """An entry says something about the data that is not so."""
    MISSING = "missing"
    """Something of the data has no entry."""
    STALE = "stale"
    """An entry is about something that is gone."""
    DUPLICATE = "duplicate"
    """Several rows have one record key, so that only one of them has an entry."""
    UNREADABLE = "unreadable"
    """An index, or the data that it is about, cannot be read."""
    LOST = "lost"
    """Data files of the newest snapshot are gone. No index can give their rows back, so the listing
    keeps them: without the entries queries would silently have fewer rows, or older ones."""
    EXTRA = "extra"
    """An entry is about something that never was in the data."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One disagreement of an index with the data."""

    index: str
    kind: ProblemKind
    key: str
    """The record key, file or partition that it is about."""
    detail: str
    place: FileSliceId | None = None
    """Where the row of a key is, or where its stale entry points to; the slice of a file that an
    entry is about, or its partition alone."""
    entries: tuple[str, ...] = ()
    """Of an index of files or partitions, the keys of the records that are wrong or missing; of a
    file index the path of the file."""

    def as_dict(self) -> dict[str, str]:
        """The problem as plain values, for JSON."""
        return {
            "index": self.index,
            "kind": self.kind.value,
            "key": self.key,
            "detail": self.detail,
        }


@dataclass(slots=True)
class Findings:
    """Collects what is found while verifying."""

    problems: dict[str, list[Problem]] = field(default_factory=dict)
    untold: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(
        self,
        index: str,
        kind: ProblemKind,
        key: str,
        detail: str,
        place: FileSliceId | None = None,
        entries: tuple[str, ...] = (),
    ) -> None:
        """Add one problem; of an index with many it is only counted."""
        problems = self.problems.setdefault(index, [])
        if len(problems) < MAX_PROBLEMS:
            problems.append(Problem(index, kind, key, detail, place, entries))
        else:
            self.untold[index] += 1

    def add_all(
        self,
        index: str,
        kind: ProblemKind,
        positions: Iterable[int],
        describe: Callable[[int], Described],
    ) -> None:
        """Add the problems at some positions; only those that fit are described."""
        chosen = [int(position) for position in positions]
        free = MAX_PROBLEMS - len(self.problems.get(index, ()))
        for position in chosen[: max(0, free)]:
            self.add(index, kind, *describe(position))
        rest = len(chosen) - max(0, min(free, len(chosen)))
        if rest:
            self.untold[index] += rest

    def extend(self, other: Findings) -> None:
        """Append the findings of another collector."""
        for problems in other.problems.values():
            for each in problems:
                self.add(each.index, each.kind, each.key, each.detail, each.place, each.entries)
        self.untold.update(other.untold)
        self.checked.update(other.checked)
        self.notes += other.notes

    def note(self, index: str, text: str) -> None:
        """Add an oddity that makes no answer wrong."""
        self.notes.append(f"{index}: {text}")
