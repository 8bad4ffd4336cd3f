"""A real Spark cluster of two executors, on two hosts as far as Spark can see.

It is what `local-cluster` starts: a master and two workers in the JVM of the driver, and executors
that are processes of their own. But there all executors have one host, and Spark never runs two
attempts of a task on one host: speculation would be on, and nothing would happen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

HOSTS = ("127.0.0.1", "127.0.0.2")
MEMORY_MB = 512
DRIVER_MB = 256
PATIENCE_S = 60
SETTINGS = {
    "spark.app.name": "lakedex-two-hosts",
    "spark.driver.memory": f"{DRIVER_MB}m",
    # Else Spark refuses so small a heap.
    "spark.testing.reservedMemory": str(32 << 20),
    "spark.driver.host": HOSTS[0],
    "spark.driver.bindAddress": HOSTS[0],
    "spark.executor.memory": f"{MEMORY_MB}m",
    "spark.executor.cores": "1",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.master.rest.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# A task is tried a second time as soon as it is a little slower than others.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.efficiency.enabled": "false",
}


def two_hosts(folder: Path, executor_python: str, settings: Mapping[str, str]) -> SparkSession:
    """A session on two executors that are there already; one for each process.

    Args:
        folder: Where workers and the event log keep their files.
        executor_python: The Python of the executors.
        settings: More settings of the session.
    """
    os.environ["PYSPARK_PYTHON"] = executor_python
    events = folder / "events"
    events.mkdir(parents=True)
    chosen = {
        **SETTINGS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **settings,
    }
    conf = SparkConf().setAll(list(chosen.items()))
    SparkContext._ensure_initialized(conf=conf)
    master = _start_cluster(str(folder / "work"), chosen)
    spark = SparkSession.builder.master(master).config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    wait_for_executors(spark)
    return spark


def wait_for_executors(spark: SparkSession) -> None:
    """Wait until both executors are there."""
    ends = time.monotonic() + PATIENCE_S
    # The driver is counted too.
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() <= len(HOSTS):
        if time.monotonic() > ends:
            raise AssertionError("an executor did not come")
        time.sleep(0.05)


def _start_cluster(folder: str, settings: Mapping[str, str]) -> str:
    jvm = SparkContext._jvm
    conf = jvm.org.apache.spark.SparkConf(False)
    for name, value in settings.items():
        conf.set(name, value)
    deploy = jvm.org.apache.spark.deploy
    started = deploy.master.Master.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, conf)
    master = f"spark://{HOSTS[0]}:{started._1().address().port()}"
    masters = SparkContext._gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = master
    option = jvm.scala.Option
    for number, host in enumerate(HOSTS):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 1, MEMORY_MB, masters, folder, option.apply(number), conf, option.empty()
        )
    return master
