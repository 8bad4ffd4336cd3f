"""Lets Spark judge the expression of an index: whether it is one, of which type, in which zone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.index.definitions import OWN_EXPRESSION
from lakedex.index.expressions import WHOLE_NUMBERS
from lakedex.spark.schemas import spark_schema
from lakedex.spark.zone_agreement import is_same_zone
from lakedex.table import Snapshot

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
