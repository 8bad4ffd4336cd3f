"""The report of verifying: problems, known oddities, and how many entries were checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakedex.index.verification.findings import Findings, Problem


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

    @classmethod
    def of(cls, findings: Findings) -> VerifyReport:
        """Everything found, by index in the order in which they were checked."""
        names = list(dict.fromkeys([*findings.checked, *findings.problems]))
        problems = [problem for name in names for problem in findings.problems.get(name, ())]
        return cls(
            problems=tuple(problems),
            checked=dict(findings.checked),
            notes=tuple(findings.notes),
            untold={name: count for name, count in findings.untold.items() if count},
        )

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
        entries = counted(sum(self.checked.values()), "entry")
        verdict = "all right" if self.ok else counted(self.problem_count, "problem")
        lines = [f"{verdict}: {entries} of {counted(len(self.checked), 'index')} checked"]
        width = max((len(name) for name in self.checked), default=0)
        counts = Counter(problem.index for problem in self.problems) + Counter(self.untold)
        for name, count in self.checked.items():
            state = counted(counts[name], "problem") if counts[name] else "ok"
            lines.append(f"  {name:<{width}}  {count:>11,}  {state}")
        lines += [
            f"  {problem.kind.name} in {problem.index}: {problem.key!r}: {problem.detail}"
            for problem in self.problems
        ]
        lines += [f"  ... and {count:,} more in {name}" for name, count in self.untold.items()]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def counted(count: int, noun: str) -> str:
    """The count with its noun in the right number.

    Example:
        >>> counted(1, "problem"), counted(7, "entry"), counted(2, "index")
        ('1 problem', '7 entries', '2 indexes')
    """
    plural = (
        f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}{'es' if noun[-1] == 'x' else 's'}"
    )
    return f"{count:,} {noun if count == 1 else plural}"
