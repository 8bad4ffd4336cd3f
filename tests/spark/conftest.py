"""One local Spark session for all tests of this folder, on whichever Spark is installed.

Everything in this folder carries the marker `spark`, and runs in one process of the suite: a JVM
serves one Spark context.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.executor_python import executor_python_path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
ATTEMPTS = 3
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
    "spark.driver.extraClassPath": str(FOLDER.parent / "support" / "hadoop"),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "3",
    "spark.default.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

collect_ignore_glob = [] if find_spec("pyspark") else ["*.py"]
_IS_OLDER = find_spec("pyspark") is not None and version("pyspark").startswith("3.")
newest_only = pytest.mark.skipif(_IS_OLDER, reason="what it shows does not hang on the release")


def pytest_configure(config: pytest.Config) -> None:
    """Let pyspark be: its `collect` leaves the socket it read from to the garbage collector."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
    # pyspark 3.5 asks so for the version of Arrow where rows have structs.
    config.addinivalue_line("filterwarnings", "ignore:distutils Version:DeprecationWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that none can be forgotten."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session on two cores that tries a task three times; its warehouse is of the run."""
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master(f"local[2,{ATTEMPTS}]").appName("lakedex-tests")
    warehouse = tmp_path_factory.mktemp("warehouse")
    builder = builder.config("spark.sql.warehouse.dir", str(warehouse))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # Tests make tasks fail on purpose, and Spark would tell at length.
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def setting(spark) -> Iterator[Any]:
    """`setting(name, value)` sets a setting of the session for one test."""
    before: dict[str, str | None] = {}

    def change(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.fixture(scope="session")
def executor_python() -> str:
    """The Python of executors, with pyarrow and numpy only."""
    return executor_python_path()


@pytest.fixture(scope="session")
def lake(spark) -> Any:
    """The session as a lake."""
    import lakedex  # noqa: PLC0415 - not where pyspark is absent

    return lakedex.attach(spark)


@pytest.fixture(scope="module")
def make_table(lake, spark, tmp_path_factory) -> Iterator[Any]:
    """Make a table for all tests of a file, with one INSERT for each text of rows."""
    root = tmp_path_factory.mktemp("cases")
    names = []

    def run(name: str, columns: str, rows: Iterable[str] = (), *, by: str = "", **properties: str):
        options = {"primaryKey": "id", "orderingFields": "ts", **properties}
        shown = ", ".join(f"'{key}' = '{value}'" for key, value in options.items() if value)
        spark.sql(
            f"CREATE TABLE {name} ({columns}) USING hudi {f'PARTITIONED BY ({by})' if by else ''} "
            f"TBLPROPERTIES ({shown}) LOCATION '{root}/{name}'"
        )
        names.append(name)
        for each in rows:
            spark.sql(f"INSERT INTO {name} VALUES {each}")
        return f"{root}/{name}"

    yield run
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def rows(spark) -> Any:
    """Rows of a query, sorted."""

    def read(query: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, spark.sql(query).collect()), key=str)

    return read


@pytest.fixture(params=["cow", "mor"])
def table_type(request) -> str:
    """Both kinds of tables."""
    return request.param


@pytest.fixture
def sql(table_type, lake, spark) -> Any:
    """Both doors for a statement, one for each kind of table."""
    return lake.sql if table_type == "cow" else spark.sql


@pytest.fixture(autouse=True)
def _names_of_a_test_end_with_it(request) -> Iterator[None]:
    """Take names out of the catalog whose tables lie in the folder of the test."""
    if not {"lake", "tmp_path"} <= set(request.fixturenames):
        yield
        return
    catalog = request.getfixturevalue("spark")._jsparkSession.sessionState().catalog()
    folder = str(request.getfixturevalue("tmp_path"))
    yield
    each = catalog.listTables("default").iterator()
    while each.hasNext():
        name = each.next()
        if name.database().isDefined():
            entry = catalog.getTableMetadata(name)
            if entry.location().getPath().startswith(folder):
                catalog.refreshTable(name)
                catalog.dropTable(name, True, False)
