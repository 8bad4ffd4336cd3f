"""Filters as Spark's optimiser leaves them, translated, and Spark's own word on every row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakedex.spark.catalyst import TranslatedFilters, translate_filters
from lakedex.spark.jvm_classes import compile_classes, java_source
from lakedex.spark.jvm_contract import CONTRACT

ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"


class FilterLab:
    """Translates the filters of real queries."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        self.jvm = spark.sparkContext._jvm
        self.classes = compile_classes(
            self.jvm,
            {
                "Contract": CONTRACT.java_sources()["Contract"],
                "FilterText": java_source("FilterText"),
            },
        )
        self.filter_text = self.classes.instance("lakedex.jvm.FilterText")

    def describe(self, conditions: list[Any]) -> str:
        """One text for some Catalyst expressions, by one call."""
        return self.filter_text.describe(self.jvm.PythonUtils.toSeq(conditions))

    def translate(self, query: str, schema: pa.Schema, leaf: int = 0) -> TranslatedFilters:
        """The filters right above one leaf of the optimised plan of a query."""
        plan = self.spark.sql(query)._jdf.queryExecution().optimizedPlan()
        text = self.describe(conditions_above(plan, leaf))
        return translate_filters(text, schema, self.spark.conf.get(ZONE))


def conditions_above(plan: Any, leaf: int) -> list[Any]:
    """The conditions of the filters between one leaf and the nearest join or aggregate."""
    found: list[list[Any]] = []
    pending: list[tuple[Any, list[Any]]] = [(plan, [])]
    while pending:
        node, above = pending.pop()
        kind = node.getClass().getSimpleName()
        if kind in ("Filter", "FilterExec"):
            above = [*above, node.condition()]
        elif node.children().size() > 1 or "Aggregate" in kind:
            above = []
        inner = [node.children().apply(at) for at in range(node.children().size())]
        if not inner:
            found.append(above)
        pending.extend((child, above) for child in reversed(inner))
    return found[leaf]
