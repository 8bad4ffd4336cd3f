"""What a repair found, did, and had to leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakedex.services.verifying import VerifyReport


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of repairing; prints as text."""

    before: VerifyReport
    """What was wrong."""
    after: VerifyReport
    """What is still wrong: what no index can mend, such as a key that stands twice in the data."""
    repaired: Mapping[str, int] = field(default_factory=dict)
    """How many entries of an index were put right one by one."""
    rebuilt: tuple[str, ...] = ()
    """The indexes that were built anew from the data."""
    dropped: tuple[str, ...] = ()
    """The indexes that went, as nobody knows what they were on: their definition was damaged."""

    @property
    def ok(self) -> bool:
        """Whether every index agrees with the data now."""
        return self.after.ok

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {
            "ok": self.ok,
            "repaired": dict(self.repaired),
            "rebuilt": list(self.rebuilt),
            "dropped": list(self.dropped),
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
        }

    def __str__(self) -> str:
        if self.before.ok:
            return "nothing to repair: every index agrees with the data"
        lines = [f"{self.before.problem_count:,} problems, {self.after.problem_count:,} are left"]
        lines += [f"  {name}: {count:,} entries repaired" for name, count in self.repaired.items()]
        lines += [f"  {name}: built anew" for name in self.rebuilt]
        lines += [
            f"  {name}: dropped, as its definition is lost; create it again"
            for name in self.dropped
        ]
        lines += [
            f"  left in {problem.index}: {problem.key!r}: {problem.detail}"
            for problem in self.after.problems
        ]
        return "\n".join(lines)
