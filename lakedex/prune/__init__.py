"""From a predicate to the files that may match, with reasons."""

from lakedex.prune.cost import ANY_ENGINE, ARROW, SPARK, Reader, is_read_at_once, weighs_cost
from lakedex.prune.planner import PlanOptions, plan
from lakedex.prune.report import Report, Step, note_dropped

__all__ = [
    "ANY_ENGINE",
    "ARROW",
    "SPARK",
    "PlanOptions",
    "Reader",
    "Report",
    "Step",
    "is_read_at_once",
    "note_dropped",
    "plan",
    "weighs_cost",
]
