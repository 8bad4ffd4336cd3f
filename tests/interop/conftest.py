"""Real Hudi on Spark 3.5 as the second judge: one local session for all interop tests.

Everything in this folder carries the marker `interop`, and is not even imported where pyspark is
absent, as in the environment of `make test`. `make interop` has both pyspark and the Hudi bundle.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
COORDINATES = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
JAR = FOLDER.parent.parent / ".interop" / "jars" / "hudi-spark3.5-bundle_2.12-1.2.0.jar"

# Hudi loads many classes.
JVM_OPTIONS = (
    "-XX:MetaspaceSize=600m -Duser.timezone=UTC"
    " --add-opens java.base/java.util.concurrent.locks=ALL-UNNAMED"
    " -Dlog4j.configurationFile=" + (FOLDER / "log4j2.properties").as_uri()
)
SETTINGS = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JVM_OPTIONS,
    "spark.driver.extraClassPath": str(FOLDER.parent / "support" / "hadoop"),
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# Some of Hudi's relations (HoodieBaseRelation) set these on the session of whoever asks and leave
# them so. Parquet's filter of single records then tells -0.0 from 0.0, in tables of any writer.
LEFT_BY_HUDI = (
    "spark.sql.parquet.enableVectorizedReader",
    "spark.sql.parquet.recordLevelFilter.enabled",
)

collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Let pyspark be: its `collect` leaves the socket it read from to the garbage collector."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
    # pyspark 3.5 asks so for the version of Arrow where rows have structs.
    config.addinivalue_line("filterwarnings", "ignore:distutils Version:DeprecationWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that none can be forgotten."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local Spark 3.5 session that knows Hudi, for the whole run.

    Its warehouse is a folder of the run, its time zone UTC. The bundle is the jar that
    `scripts/fetch_jars.py` brought, or else what Spark fetches by the same coordinates.
    """
    sql = pytest.importorskip("pyspark.sql")
    bundle = ("spark.jars", str(JAR)) if JAR.exists() else ("spark.jars.packages", COORDINATES)
    builder = sql.SparkSession.builder.master("local[2]").appName("lakedex-interop")
    warehouse = tmp_path_factory.mktemp("warehouse")
    builder = builder.config("spark.sql.warehouse.dir", str(warehouse)).config(*bundle)
    builder = builder.config("spark.pyspark.python", sys.executable)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def own_settings(request: pytest.FixtureRequest) -> None:
    """Every test finds the session as it was made, whatever ran before it."""
    if "spark" in request.fixturenames:
        session = request.getfixturevalue("spark")
        for name in LEFT_BY_HUDI:
            session.conf.unset(name)
