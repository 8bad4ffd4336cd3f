"""What a query would read of every table in it, and why; nothing is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from lakedex.filegroup import FileSlice
from lakedex.prune import Report, Step
from lakedex.spark.serving import TableServer


@dataclass(frozen=True, slots=True)
class QueryReport:
    """What a query reads; prints as Spark's plan with a table for each of its scans."""

    scans: tuple[tuple[str, Report], ...]
    """The path of a table and what is read of it, once for every scan."""
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
        """Every index that was asked, or was not."""
        return tuple(step for _, report in self.scans for step in report.steps)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        scans = [{"table": path, **report.as_dict()} for path, report in self.scans]
        return {"scans": scans, "spark_plan": self.spark_plan}

    def __str__(self) -> str:
        parts = [self.spark_plan.rstrip(), "", "== Files =="]
        parts += [f"{path}\n{report}" for path, report in self.scans]
        return "\n".join(parts)


def explain_query(server: TableServer, query: DataFrame) -> QueryReport:
    """Plan a query up to the lists of files that its scans would read."""
    execution = query._jdf.queryExecution()
    with server.watching() as seen:
        plan = execution.executedPlan()
        query.sparkSession.sparkContext._jvm.lakedex.jvm.Scans.list(plan)
    # Both halves of a table ask for the same plan.
    found = {(pin.name, id(report)): (pin.spec.path, report) for pin, report in seen}
    return QueryReport(tuple(found.values()), str(execution.simpleString()))
