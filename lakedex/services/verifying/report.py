"""What verifying found: problems, known oddities, and how much was looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from lakedex.filegroup import FileSliceId

Told: TypeAlias = (
    tuple[str, str]
    | tuple[str, str, FileSliceId]
    | tuple[str, str, FileSliceId | None, tuple[str, ...]]
)
"""Key and detail of a problem, perhaps its place, and perhaps the entries that it is about."""
MAX_PROBLEMS = 1_000
"""So many problems of one index are told in full; the rest is counted."""


class ProblemKind(Enum):
    """How an index disagrees with the data."""

    WRONG = "wrong"
    """An entry says something about the data that is not so."""
    MISSING = "missing"
    """Something of the data has no entry."""
    STALE = "stale"
    """An entry is about something that is gone."""
    DUPLICATE = "duplicate"
    """A record key stands twice in the data, so one of the rows has no entry of its own."""
    UNREADABLE = "unreadable"
    """An index, or the data that it is about, cannot be read."""
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
    bitmap index the path of the file."""

    def as_dict(self) -> dict[str, str]:
        """The problem as plain values, for JSON."""
        return {
            "index": self.index,
            "kind": self.kind.value,
            "key": self.key,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of verifying; prints as text. Without problems every index is right."""

    problems: tuple[Problem, ...]
    checked: Mapping[str, int]
    """How many entries of each index were checked."""
    notes: tuple[str, ...] = ()
    """Oddities that make no answer wrong, and what could not be checked."""
    untold: Mapping[str, int] = field(default_factory=dict)
    """How many more problems an index has than are in `problems`."""

    @property
    def ok(self) -> bool:
        """Whether every index agrees with the data."""
        return not self.problems

    @property
    def problem_count(self) -> int:
        """How many problems there are, those included that were only counted."""
        return len(self.problems) + sum(self.untold.values())

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {
            "ok": self.ok,
            "problem_count": self.problem_count,
            "checked": dict(self.checked),
            "problems": [problem.as_dict() for problem in self.problems],
            "untold": dict(self.untold),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        entries = sum(self.checked.values())
        verdict = "all right" if self.ok else f"{self.problem_count:,} problems"
        lines = [f"{verdict}: {entries:,} entries of {len(self.checked)} indexes checked"]
        width = max((len(name) for name in self.checked), default=0)
        found = Counter(problem.index for problem in self.problems) + Counter(self.untold)
        for name, count in self.checked.items():
            state = f"{found[name]:,} problems" if found[name] else "ok"
            lines.append(f"  {name:<{width}}  {count:>11,}  {state}")
        lines += [
            f"  {problem.kind.name} in {problem.index}: {problem.key!r}: {problem.detail}"
            for problem in self.problems
        ]
        lines += [f"  ... and {count:,} more in {name}" for name, count in self.untold.items()]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


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
        """Tell one problem, or count it when there are many already."""
        told = self.problems.setdefault(index, [])
        if len(told) < MAX_PROBLEMS:
            told.append(Problem(index, kind, key, detail, place, entries))
        else:
            self.untold[index] += 1

    def add_all(
        self,
        index: str,
        kind: ProblemKind,
        positions: Iterable[int],
        describe: Callable[[int], Told],
    ) -> None:
        """Tell the problems at some positions; only those that fit are put into words."""
        found = [int(position) for position in positions]
        room = MAX_PROBLEMS - len(self.problems.get(index, ()))
        for position in found[: max(0, room)]:
            self.add(index, kind, *describe(position))
        rest = len(found) - max(0, min(room, len(found)))
        if rest:
            self.untold[index] += rest

    def take(self, other: Findings) -> None:
        """Tell what was found apart, after all that was told before."""
        for problems in other.problems.values():
            for each in problems:
                self.add(each.index, each.kind, each.key, each.detail, each.place, each.entries)
        self.untold.update(other.untold)
        self.checked.update(other.checked)
        self.notes += other.notes

    def note(self, index: str, text: str) -> None:
        """Tell an oddity that makes no answer wrong."""
        self.notes.append(f"{index}: {text}")

    def report(self) -> VerifyReport:
        """Everything found, by index in the order in which they were checked."""
        names = list(dict.fromkeys([*self.checked, *self.problems]))
        problems = [problem for name in names for problem in self.problems.get(name, ())]
        return VerifyReport(
            problems=tuple(problems),
            checked=dict(self.checked),
            notes=tuple(self.notes),
            untold={name: count for name, count in self.untold.items() if count},
        )
