"""Checks the expression of an index in Spark: its type there, and the time zone of its values.

The JVM, which runs queries, and Python, which computes indexes, each have a time zone database of
their own release, and some short names (`EST`, `CET`) are other zones in one than in the other. An
index on times is used only where every change of a zone's offset is the same in both. Before 1970
they often differ, as databases may leave out earlier changes; no index covers such times
(`index.expression.target`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.time_zones import offset_changes
from lakedex.index.definitions import OWN_EXPRESSION
from lakedex.index.expressions import WHOLE_NUMBERS
from lakedex.spark.jvm_contract import NUMBER_SEPARATOR
from lakedex.spark.schemas import spark_schema
from lakedex.table import Snapshot

_START, _END = -2 * 86_400, 10_413_792_000
"""1970, from some clocks' days before it on, to 2300: what changes later does so by a rule."""
_found: dict[str, bool] = {}


def is_same_zone(jvm: Any, zone: str) -> bool:  # noqa: ANN401 - a JVM
    """Whether the JVM and lakedex agree on every offset that a zone has since 1970."""
    if zone not in _found:
        _found[zone] = _compared(jvm, zone)
    return _found[zone]


def _compared(jvm: Any, zone: str) -> bool:  # noqa: ANN401 - a JVM
    try:
        own = offset_changes(zone, _START, _END)
        theirs = str(jvm.lakedex.jvm.Zones.changes(zone, _START, _END))
    except (InvalidInput, Py4JError, PySparkException):
        return False
    first, *rest = map(int, theirs.split(NUMBER_SEPARATOR))
    return own == [(_START, first), *zip(rest[::2], rest[1::2], strict=True)]


_IDENTITY = "identity"


@dataclass(frozen=True)
class SparkJudge:
    """Lets Spark analyse functions of columns of a table; no row is read."""

    spark: SparkSession
    snapshot: Callable[[], Snapshot]
    """The table as it is; it is opened only where there is something to judge."""

    def knows(self, zone: str) -> bool:
        """Whether a time zone is the same to the session's JVM as it is here."""
        return is_same_zone(self.spark.sparkContext._jvm, zone)

    def check(self, column: str, function: str, arguments: Mapping[str, str]) -> None:
        """Raise where Spark does not take a function, or an expression, of columns."""
        if function == _IDENTITY:
            return
        if OWN_EXPRESSION in arguments:
            self._check_whole(function, arguments[OWN_EXPRESSION])
            return
        rows = self.spark.createDataFrame([], spark_schema(self.snapshot().schema))
        constants: list[Column] = [
            sf.lit(int(value) if name in WHOLE_NUMBERS else value)
            for name, value in arguments.items()
        ]
        try:
            rows.select(sf.call_function(function, rows[column], *constants)).schema  # noqa: B018
        except (Py4JError, PySparkException) as error:
            raise InvalidInput(f"Spark does not take {function}({column}): {error}") from error

    def _check_whole(self, text: str, own_type: str) -> None:
        """Let Spark analyse an expression, which must have the type there that it has here."""
        rows = self.spark.createDataFrame([], spark_schema(self.snapshot().schema))
        try:
            found = rows.select(sf.expr(text)).schema[0].dataType.simpleString()
        except (Py4JError, PySparkException) as error:
            raise InvalidInput(f"Spark does not take {text}: {error}") from error
        if found.upper() != own_type.upper():
            raise UnsupportedFeature(
                f"an index on {text}, which is {found} to Spark and {own_type.lower()} here,"
            )
