"""The two entry points: `attach` for an existing Spark session, `local` for one in this process."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakedex.errors import InvalidInput
from lakedex.spark.lake import Lake

_LOCAL_SETTINGS = {
    "spark.app.name": "lakedex",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_PYTHON = "PYSPARK_PYTHON"
_FAILED_TASKS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
)


def attach(spark: SparkSession, *, storage_options: Mapping[str, str] | None = None) -> Lake:
    """Tables in an existing Spark session, Spark 3.5 or 4.x.

    The package is sent to the executors, whose Python needs pyarrow and numpy.

    Args:
        spark: The session.
        storage_options: Settings of the store, such as `aws_region`, before those of the
            session's Hadoop configuration.

    Raises:
        InvalidInput: It is no session with a JVM, as one of Spark Connect.
    """
    if not isinstance(spark, SparkSession):
        raise InvalidInput(
            f"attach takes a SparkSession of this process, not {type(spark).__module__}."
            f"{type(spark).__qualname__}"
        )
    if spark.sparkContext._jsc is None:
        raise InvalidInput("the Spark session was stopped; attach one that runs")
    _use_this_python(spark)
    return Lake(spark, storage_options)


def _use_this_python(spark: SparkSession) -> None:
    """Let local tasks run in the Python that has pyarrow: this one, unless another was named."""
    context = spark.sparkContext
    if os.environ.get(_PYTHON):
        return
    named = context.getConf().get("spark.pyspark.python")
    if named is not None:
        # Spark itself heeds the setting only where spark-submit started the driver.
        context.pythonExec = named
    elif re.fullmatch(r"local(\[.*\])?", context.master):
        context.pythonExec = sys.executable


def local(**conf: str) -> Lake:
    """Tables in a Spark session of this process on all its cores, made if there is none.

    Args:
        **conf: Settings of the session, with underscores or dots: `spark_driver_memory="4g"`, or
            `**{"spark.driver.memory": "4g"}`.
    """
    settings = dict(_LOCAL_SETTINGS)
    for name, value in conf.items():
        settings[name if "." in name else name.replace("_", ".")] = str(value)
    # Tasks run in the Python that has pyarrow: this one.
    os.environ.setdefault(_PYTHON, sys.executable)
    builder = SparkSession.builder.master(settings.pop("spark.master", "local[*]"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    is_new = SparkSession.getActiveSession() is None
    spark = builder.getOrCreate()
    if is_new:
        _raise_failures_only(spark)
    return attach(spark)


def _raise_failures_only(spark: SparkSession) -> None:
    """Do not log the Java traces of failed tasks: the statement that ran them raises the error."""
    log4j = spark._jvm.org.apache.logging.log4j
    for name in _FAILED_TASKS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
