"""Lets Spark judge the expression of an index: whether it is one, and of which type."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.index.definitions import OWN_EXPRESSION
from lakedex.services.expression_creating import WHOLE_NUMBERS, CheckedBySpark
from lakedex.spark.schemas import spark_schema
from lakedex.table import Snapshot

_IDENTITY = "identity"


def checked_by_spark(spark: SparkSession, snapshot: Snapshot) -> CheckedBySpark:
    """A check that lets Spark analyse a function of a column of a table; no row is read."""
    return partial(_check, spark, snapshot)


def _check(
    spark: SparkSession,
    snapshot: Snapshot,
    column: str,
    function: str,
    arguments: Mapping[str, str],
) -> None:
    if function == _IDENTITY:
        return
    if OWN_EXPRESSION in arguments:
        _check_whole(spark, snapshot, function, arguments[OWN_EXPRESSION])
        return
    rows = spark.createDataFrame([], spark_schema(snapshot.schema))
    constants: list[Column] = [
        sf.lit(int(value) if name in WHOLE_NUMBERS else value) for name, value in arguments.items()
    ]
    try:
        rows.select(sf.call_function(function, rows[column], *constants)).schema  # noqa: B018
    except (Py4JError, PySparkException) as error:
        raise InvalidInput(f"Spark does not take {function}({column}): {error}") from error


def _check_whole(spark: SparkSession, snapshot: Snapshot, text: str, own_type: str) -> None:
    """Let Spark analyse an expression, which must have the type there that it has here."""
    rows = spark.createDataFrame([], spark_schema(snapshot.schema))
    try:
        found = rows.select(sf.expr(text)).schema[0].dataType.simpleString()
    except (Py4JError, PySparkException) as error:
        raise InvalidInput(f"Spark does not take {text}: {error}") from error
    if found.upper() != own_type.upper():
        raise UnsupportedFeature(
            f"an index on {text}, which is {found} to Spark and {own_type.lower()} here,"
        )
