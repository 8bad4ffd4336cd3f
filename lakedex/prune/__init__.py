"""From a predicate to the files that may match, with reasons."""

from lakedex.prune.planner import PlanOptions, plan
from lakedex.prune.report import Report, Step

__all__ = ["PlanOptions", "Report", "Step", "plan"]
