"""EXPLAIN: Spark's own text, and below it what would be read of our tables and why.

Nothing is run. A statement that changes a table shows the query that would choose its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from lakedex.spark.explaining import files_text
from lakedex.spark.sql.context import Context, Prepared
from lakedex.spark.sql.plans import Node

Understand = Callable[[Node], Prepared | None]


def explain(context: Context, plan: Node, understand: Understand) -> Prepared | None:
    """EXPLAIN of a query or a statement; None where it concerns no table of ours.

    Args:
        context: The session.
        plan: Spark's EXPLAIN.
        understand: Finds out what the statement in it would do.
    """
    inner, mode = context.plans.bound(plan.logicalPlan()), plan.mode()
    own = understand(inner)
    if own is not None:
        return explained(context, own, mode)
    try:
        execution = context.plans.planned(inner)
        scans = context.lake.scans(execution)
    except (PySparkException, Py4JError):
        # Spark tells in its own words what is wrong with a query.
        return None
    if not scans:
        return None
    text = f"{str(execution.explainString(mode)).rstrip()}\n\n{files_text(scans)}\n"
    return Prepared(partial(_told, context, text), is_query=True)


def explained(context: Context, own: Prepared, mode: Node = None) -> Prepared:
    """EXPLAIN of a statement of ours."""
    return Prepared(partial(_own, context, own, mode), is_query=True)


def _own(context: Context, own: Prepared, mode: Node) -> DataFrame:
    text = f"== Statement ==\n{own.title}\n"
    if own.reads is not None and mode is not None:
        execution = own.reads()._jdf.queryExecution()
        scans = context.lake.scans(execution)
        text += f"\n{str(execution.explainString(mode)).rstrip()}\n"
        text += f"\n{files_text(scans)}\n" if scans else ""
    return _told(context, text)


def _told(context: Context, text: str) -> DataFrame:
    return context.spark.createDataFrame([(text,)], "plan string")
