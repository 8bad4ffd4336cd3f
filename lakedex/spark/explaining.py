"""What a query would read of each of its tables, and why; the query is not run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lakedex.filegroup import FileSlice
from lakedex.prune import Report, Step, note_dropped
from lakedex.spark.serving import TableServer

Scans: TypeAlias = "Sequence[tuple[str, Report]]"
"""The path of a table and what is read of it, once for every scan."""


@dataclass(frozen=True, slots=True)
class QueryReport:
    """What a query reads; prints as Spark's plan with a table for each of its scans."""

    scans: Scans
    spark_plan: str

    @property
    def total(self) -> int:
        """File slices before pruning."""
        return sum(report.total for _, report in self.scans)

    @property
    def files(self) -> tuple[FileSlice, ...]:
        """The file slices that are left."""
        return tuple(each for _, report in self.scans for each in report.files)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every index that was consulted, or was not."""
        return tuple(step for _, report in self.scans for step in report.steps)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        scans = [{"table": path, **report.as_dict()} for path, report in self.scans]
        return {"scans": scans, "spark_plan": self.spark_plan}

    def __str__(self) -> str:
        return f"{self.spark_plan.rstrip()}\n\n{files_text(self.scans)}"


def explain_query(server: TableServer, jvm: Any, execution: Any) -> QueryReport:  # noqa: ANN401
    """Plan a query up to the lists of files that its scans would read."""
    return QueryReport(list_scans(server, jvm, execution), str(execution.simpleString()))


def list_scans(server: TableServer, jvm: Any, execution: Any) -> Scans:  # noqa: ANN401 - JVM
    """What the scans of a planned query would read; it is not run."""
    with server.watching() as seen:
        jvm.lakedex.jvm.Scans.list(execution.executedPlan())
    # Both readers of a table use the same plan.
    found = {(pin.name, id(report)): (pin, report) for pin, report in seen}
    return tuple(
        (pin.spec.path, note_dropped(report, pin.snapshot)) for pin, report in found.values()
    )


def files_text(scans: Scans) -> str:
    """What is read of each table and why, below the heading that Spark gives its own plans.

    Example:
        >>> files_text([("/lake/trips", Report("a = 1", 0, 0, (), ()))]).splitlines()[1]
        '/lake/trips'
    """
    lines = ["== Files =="]
    for path, report in scans:
        summary, *rest = str(report).splitlines()
        notes = rest[len(report.steps) :]
        lines += [path, summary, *_step_lines(report.steps), *notes]
    return "\n".join(lines)


def _step_lines(steps: Sequence[Step]) -> list[str]:
    """A line for every index: slices before and after, bytes saved, time, reason."""
    cells = [
        (
            step.index,
            f"{step.before:,} -> {step.after:,}" if step.used else "not used",
            f"saves {step.bytes_saved:,} bytes" if step.used else "",
            f"{step.seconds * 1000:,.1f} ms",
            step.reason,
        )
        for step in steps
    ]
    widths = [max((len(row[at]) for row in cells), default=0) for at in range(4)]
    return [
        "  " + "  ".join([*(row[at].ljust(widths[at]) for at in range(4)), row[4]]) for row in cells
    ]
