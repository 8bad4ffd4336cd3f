"""What a repair found, did, and had to leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakedex.services.verifying import VerifyReport
from lakedex.services.verifying.report import counted


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
    """The indexes that were built again from the data."""
    dropped: tuple[str, ...] = ()
    """The indexes that were dropped, as their definition is lost."""
    made: tuple[str, ...] = ()
    """The files of indexes outside of the metadata table that were made again."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Why others of them could not be made again, by their paths."""
    given_up: tuple[str, ...] = ()
    """The data files without which the table is read from now on, as they were gone."""
    put_back: tuple[str, ...] = ()
    """The instants that were lost and are on the timeline again."""
    savepoints: tuple[str, ...] = ()
    """The savepoints that had lost a file and are complete again."""
    lost_savepoints: Mapping[str, str] = field(default_factory=dict)
    """Why others could not be completed, by their instants."""

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
            "made": list(self.made),
            "left": dict(self.left),
            "given_up": list(self.given_up),
            "put_back": list(self.put_back),
            "savepoints": list(self.savepoints),
            "lost_savepoints": dict(self.lost_savepoints),
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
        }

    def __str__(self) -> str:
        if self.before.ok:
            done = (
                [] if self.savepoints else ["nothing to repair: every index agrees with the data"]
            )
            return "\n".join([*done, *self._savepoint_lines()])
        left = self.after.problem_count
        solved = "all repaired" if not left else f"{left:,} not repaired"
        lines = [f"{counted(self.before.problem_count, 'problem')} found, {solved}"]
        lines += [
            f"  {name}: {counted(count, 'entry')} repaired" for name, count in self.repaired.items()
        ]
        lines += [f"  {name}: rebuilt" for name in self.rebuilt]
        lines += [
            f"  {name}: dropped, as its definition is lost; create it again"
            for name in self.dropped
        ]
        lines += [f"  {path}: made again" for path in self.made]
        lines += [f"  {path}: not made again, as {reason}" for path, reason in self.left.items()]
        lines += [f"  {path}: given up with its rows" for path in self.given_up]
        if self.put_back:
            lines.append(f"  timeline: {', '.join(self.put_back)} put back")
        lines += self._savepoint_lines()
        lines += [
            f"  not repaired in {problem.index}: {problem.key!r}: {problem.detail}"
            for problem in self.after.problems
        ]
        return "\n".join(lines)

    def _savepoint_lines(self) -> Iterator[str]:
        for time in self.savepoints:
            yield (
                f"  timeline: the savepoint {time} is complete again; to delete it: "
                f"`lakedex savepoint PATH {time} --delete`"
            )
        for time, reason in self.lost_savepoints.items():
            yield f"  not repaired: the savepoint {time}, as {reason}"
        if set(self.put_back).difference(self.savepoints, self.lost_savepoints):
            yield (
                "  timeline: nothing says whether a commit that was put back had a savepoint: "
                "create it again before the next clean (`lakedex savepoint PATH INSTANT`)"
            )
