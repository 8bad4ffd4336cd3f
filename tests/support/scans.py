"""What the scans of an executed Spark query did, by the metrics that Spark's UI shows."""

from __future__ import annotations

from typing import Any


def files_read(frame: Any) -> int:
    """How many data files the scans of an executed query read, by their own metrics."""
    total, todo = 0, [frame._jdf.queryExecution().executedPlan()]
    while todo:
        node = todo.pop()
        kind = node.getClass().getSimpleName()
        if kind == "AdaptiveSparkPlanExec":
            todo.append(node.executedPlan())
        elif kind.endswith("QueryStageExec"):
            todo.append(node.plan())
        elif kind == "FileSourceScanExec":
            total += node.metrics().apply("numFiles").value()
        elif kind == "BatchScanExec":
            total += node.metrics().apply("resultDataFiles").value()
        else:
            children = node.children().iterator()
            while children.hasNext():
                todo.append(children.next())
    return total
