"""Answers to what Spark's plans ask of lakedex; the verbs are those that the Java sources call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from lakedex.errors import InvalidInput, TableNotFound
from lakedex.prune import Report
from lakedex.spark.callback import Callback, Handler, listen
from lakedex.spark.jvm_classes import install_classes
from lakedex.spark.pins import Pin, Pins
from lakedex.spark.pruned_scan import merged_rows, native_files, prune
from lakedex.spark.read_spec import ReadSpec
from lakedex.spark.schemas import spark_schema
from lakedex.storage.address import StorageAddress

_ZONE = "spark.sql.session.timeZone"


class Tables(Protocol):
    """What a server needs of a lake."""

    @property
    def spark(self) -> SparkSession:
        """The session."""

    def address(self, path: str) -> StorageAddress:
        """Where a path lies, with the settings of its store."""

    def insert(self, path: str, rows: DataFrame, *, overwrite: bool) -> None:
        """INSERT of plain Spark SQL."""

    def save(self, mode: str, options: Mapping[str, str], rows: DataFrame) -> None:
        """`df.write.format("hudi")...save()`."""

    def take_statement(self, text: str, plan: Any) -> Any:  # noqa: ANN401 - JVM objects
        """A statement of plain Spark SQL."""

    def take_write(self, plan: Any) -> str:  # noqa: ANN401 - JVM objects
        """A DataFrame that is written into a table by its name."""

    def earlier_state(self, node: Any) -> Any:  # noqa: ANN401 - JVM objects
        """TIMESTAMP AS OF and its like."""

    def run_statement(self, name: str) -> str:
        """A statement that was taken before."""


class TableServer:
    """Serves the plans of one session."""

    def __init__(self, tables: Tables) -> None:
        """Nothing is pinned yet."""
        self.use(tables)
        self._pins = Pins()
        self._watchers: list[list[tuple[Pin, Report]]] = []

    def use(self, tables: Tables) -> None:
        """Reach tables by the settings of this lake from now on."""
        self._tables = tables
        self._spark = tables.spark

    @contextmanager
    def watching(self) -> Iterator[list[tuple[Pin, Report]]]:
        """Gathers what is planned meanwhile."""
        seen: list[tuple[Pin, Report]] = []
        self._watchers.append(seen)
        try:
            yield seen
        finally:
            self._watchers.remove(seen)

    def face(self, message: Any) -> str:  # noqa: ANN401 - a list of the JVM
        """Identity, columns and size of a table for a catalog, a view or a DataFrame."""
        options, given = dict(message[1]), str(message[2])
        path = options.pop("path", None)
        if not path and given:
            # CREATE TABLE asks for a table in the warehouse before it says where that is.
            return f"{ReadSpec('')}\n{given}\n0"
        if not path:
            raise InvalidInput('say which table: .load("/path/of/table"), or the option path')
        spec = ReadSpec.of(path, options)
        try:
            pin = self._pins.newest(spec, self._tables.address(path))
        except TableNotFound:
            if not given:
                raise
            # CREATE TABLE asks before the table is there.
            return f"{spec}\n{given}\n0"
        schema = spark_schema(pin.snapshot.schema).json()
        return f"{spec}\n{schema}\n{sum(pin.sizes)}"

    def pin(self, message: str) -> str:
        """A snapshot for all parts of a query."""
        _, text, _ = message.split("\n", 2)
        spec = ReadSpec.parse(text)
        pin = self._pins.newest(spec, self._tables.address(spec.path))
        native, merged = pin.sizes
        return f"{pin.name}\n{spec.path}\n{native}\n{merged}\n{pin.halves}"

    def files(self, message: str) -> str:
        """The base files that Spark's reader has to read."""
        pin, report = self._planned(message)
        return native_files(pin, report)

    def merge(self, message: Any) -> Any:  # noqa: ANN401 - JVM objects
        """The rows that our reader reads."""
        pin, report = self._planned(str(message[0]))
        return merged_rows(self._spark, pin, report, str(message[1]))

    def insert(self, message: Any) -> None:  # noqa: ANN401 - a list of the JVM
        """Rows that plain SQL inserts."""
        spec = ReadSpec.parse(str(message[1]))
        rows = DataFrame(message[3], self._spark)
        self._tables.insert(spec.path, rows, overwrite=bool(message[2]))

    def save(self, message: Any) -> None:  # noqa: ANN401 - a list of the JVM
        """Rows that a DataFrameWriter saves."""
        options = dict(message[2])
        self._tables.save(str(message[1]), options, DataFrame(message[3], self._spark))

    def statement(self, message: Any) -> Any:  # noqa: ANN401 - JVM objects
        """What we make of a statement that Spark's parser came upon; nothing, if not ours."""
        return self._tables.take_statement(str(message[1]), message[2])

    def write(self, message: Any) -> str:  # noqa: ANN401 - a list of the JVM
        """The name of a write that we took from Spark's analyzer; nothing, if not ours."""
        return self._tables.take_write(message[1])

    def travel(self, message: Any) -> Any:  # noqa: ANN401 - JVM objects
        """The plan of an earlier state or of the changes of a table, named in a query."""
        return self._tables.earlier_state(message[1])

    def run(self, message: str) -> str:
        """Run a statement that was taken."""
        return self._tables.run_statement(message.partition("\n")[2])

    def _planned(self, message: str) -> tuple[Pin, Report]:
        _, name, filters = message.split("\n", 2)
        pin = self._pins.find(name, self._tables.address)
        report = prune(pin, filters, str(self._spark.conf.get(_ZONE)))
        for seen in list(self._watchers):
            seen.append((pin, report))
        return pin, report


_servers: dict[str, TableServer] = {}
_lock = threading.Lock()


def serve(tables: Tables) -> tuple[TableServer, Callback]:
    """Let the plans of a session reach its tables: classes, the callback, the rule that pins."""
    spark = tables.spark
    package = install_classes(spark)
    session = spark._jsparkSession.sessionUUID()
    with _lock:
        # A session that is attached again keeps its pins, and its older lakes go on.
        server = _servers.get(session) or TableServer(tables)
        server.use(tables)
        _servers[session] = server
    listen(spark.sparkContext, package, _callback)
    package.PinRule.install(spark._jsparkSession)
    package.WriteAnalyzer.install(spark._jsparkSession)
    return server, _callback


def _handler(verb: str) -> Handler:
    def handle(message: Any) -> Any:  # noqa: ANN401 - JVM objects
        # A list may begin with a text that says more than the session.
        first = message if isinstance(message, str) else str(message[0])
        with _lock:
            server = _servers.get(first.partition("\n")[0])
        if server is None:
            raise InvalidInput("this Spark session is not attached: call lakedex.attach(spark)")
        answer: Callable[[Any], Any] = getattr(server, verb)
        return answer(message)

    return handle


_VERBS = ("face", "pin", "files", "merge", "insert", "save", "statement", "write", "travel", "run")
_callback = Callback({verb: _handler(verb) for verb in _VERBS})
