"""Answers to what Spark's plans ask of lakedex; the verbs are those that the Java sources call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from lakedex.config.option_check import Use, canonical_name, check_spelling
from lakedex.errors import InvalidInput, TableNotFound
from lakedex.filegroup import META_COLUMNS
from lakedex.prune import Report
from lakedex.prune.usage import count_scan
from lakedex.read.stream_position import StreamOptions
from lakedex.spark.callback import Callback, Handler, listen
from lakedex.spark.file_systems import FileSystems
from lakedex.spark.join_keys import OtherSide, way_of_keys
from lakedex.spark.jvm_classes import install_classes
from lakedex.spark.pins import Pin, Pins
from lakedex.spark.plan_settings import PlanSettings, SessionSettings
from lakedex.spark.pruned_scan import check_files, merged_counts, merged_rows, native_files, prune
from lakedex.spark.read_spec import STREAM_LIMITS, ReadSpec, hudi_options
from lakedex.spark.row_change_reading import CHANGE_SCHEMA
from lakedex.spark.schemas import spark_schema, with_comments
from lakedex.spark.streams import STREAM_NAME, Streams
from lakedex.spark.zone_agreement import is_same_zone
from lakedex.storage.address import StorageAddress
from lakedex.write.stream_batches import StreamBatch


class Tables(Protocol):
    """What a server needs of a lake."""

    @property
    def spark(self) -> SparkSession:
        """The session."""

    def address(self, path: str) -> StorageAddress:
        """Where a path lies, with the settings of its store."""

    def insert(self, path: str, rows: DataFrame, *, overwrite: bool) -> None:
        """INSERT of plain Spark SQL."""

    def save(
        self,
        mode: str,
        options: Mapping[str, str],
        rows: DataFrame,
        batch: StreamBatch | None = None,
    ) -> None:
        """`df.write.format("hudi")...save()`, or one batch of `df.writeStream`."""

    def take_statement(self, text: str, plan: Any) -> Any:  # noqa: ANN401 - JVM objects
        """A statement of plain Spark SQL."""

    def take_write(self, plan: Any) -> Any:  # noqa: ANN401 - JVM objects
        """A DataFrame that is written into a table by its name, or a statement of a script."""

    def earlier_state(self, node: Any) -> Any:  # noqa: ANN401 - JVM objects
        """TIMESTAMP AS OF and its like."""

    def index_names(self, plan: Any, *of_view: str) -> Any:  # noqa: ANN401 - JVM objects
        """A query with a column that Spark does not find, or that of a view: its name and zone."""

    def run_statement(self, name: str) -> Any:  # noqa: ANN401 - a JVM object or nothing
        """A statement that was taken before."""


class TableServer:
    """Serves the plans of one session."""

    def __init__(self, tables: Tables) -> None:
        """Nothing is pinned yet."""
        self.use(tables)
        self._pins = Pins(lambda url: self._file_systems.url(url) is not None)
        self._streams = Streams()
        self._watchers: list[list[tuple[Pin, Report]]] = []

    def use(self, tables: Tables) -> None:
        """Reach tables by the settings of this lake from now on."""
        self._tables = tables
        self._spark = tables.spark
        self._file_systems = FileSystems(tables.spark)
        self._settings = SessionSettings(tables.spark)

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
        if given:
            # A catalog hands over all that CREATE TABLE was told, which was checked there.
            check_spelling(map(canonical_name, options))
        else:
            hudi_options(options, Use.READ)
        spec = ReadSpec.of(path, options)
        try:
            pin = self._pins.newest(spec, self._tables.address(spec.path))
        except TableNotFound:
            if not given:
                raise
            # CREATE TABLE asks before the table is there.
            return f"{spec}\n{given}\n0"
        schema = CHANGE_SCHEMA if spec.tells_rows else spark_schema(pin.snapshot.schema)
        if given:
            if not spec.tells_rows and not pin.snapshot.config.populate_meta_fields:
                # As in Hudi a catalog shows the meta columns, without values; a path does not.
                schema = StructType([*(_text_column(name) for name in META_COLUMNS), *schema])
            schema = with_comments(schema, given)
        return f"{spec}\n{schema.json()}\n{sum(pin.sizes)}"

    def pin(self, message: str) -> str:
        """A snapshot for all parts of a query."""
        _, text, _ = message.split("\n", 2)
        spec = ReadSpec.parse(text)
        pin = self._pins.newest(spec, self._tables.address(spec.path))
        native, merged = pin.sizes
        root = self._file_systems.url(spec.path) or spec.path
        return f"{pin.name}\n{root}\n{native}\n{merged}\n{pin.halves}"

    def join_keys(self, message: str) -> str:
        """How a scan may be told the keys of the other side of its join."""
        side, columns = OtherSide.read(message.split("\n")[2:])
        return way_of_keys(self._pin_of(message), columns, side)

    def files(self, message: str) -> str:
        """The base files that Spark's reader has to read."""
        settings = self._settings.now()
        pin, report = self._planned(message, settings)
        self._count(pin, report, settings)
        return native_files(pin, report)

    def check(self, message: str) -> None:
        """Refuse to read again what was cleaned since it was listed."""
        pin = self._pin_of(message)
        check_files(pin, self._report(pin, message, self._settings.now()))

    def merge(self, message: Any) -> Any:  # noqa: ANN401 - JVM objects
        """The rows that our reader reads."""
        settings = self._settings.now()
        pin, report = self._planned(str(message[0]), settings)
        if pin.halves == "merged":
            # Of a table in two halves Spark's own reader asks as well, and is counted.
            self._count(pin, report, settings)
        return merged_rows(self._spark, pin, report, str(message[1]))

    def merged_counts(self, message: str) -> str:
        """How much there is for our reader, and how much of it is read."""
        pin = self._pin_of(message)
        return merged_counts(pin, self._report(pin, message, self._settings.now()))

    def insert(self, message: Any) -> None:  # noqa: ANN401 - a list of the JVM
        """Rows that plain SQL inserts."""
        spec = ReadSpec.parse(str(message[1]))
        rows = DataFrame(message[3], self._spark)
        self._tables.insert(spec.path, rows, overwrite=bool(message[2]))

    def save(self, message: Any) -> None:  # noqa: ANN401 - a list of the JVM
        """Rows that a DataFrameWriter saves."""
        options = dict(message[2])
        self._settings.now()  # refuses settings that are misspelled
        self._tables.save(str(message[1]), options, DataFrame(message[3], self._spark))

    def stream_options(self, message: Any) -> None:  # noqa: ANN401 - a list of the JVM
        """Check what a stream is told before it starts."""
        options = dict(message[1])
        self._settings.now()  # refuses settings that are misspelled
        hudi_options(options, Use.READ, also=STREAM_LIMITS)
        StreamOptions.of(options)

    def stream_newest(self, message: Any) -> str:  # noqa: ANN401 - a list of the JVM
        """The last commit of a streamed table."""
        return self._streams.newest(self._tables.address, message)

    def stream_next(self, message: Any) -> str:  # noqa: ANN401 - a list of the JVM
        """How far the next batch of a stream goes."""
        return self._streams.next(self._tables.address, message)

    def stream_batch(self, message: Any) -> str:  # noqa: ANN401 - a list of the JVM
        """What a batch of a stream reads."""
        return self._streams.batch(self._tables.address, message)

    def stream_write(self, message: Any) -> None:  # noqa: ANN401 - a list of the JVM
        """Write a batch that a DataStreamWriter hands over."""
        options = dict(message[4])
        batch = StreamBatch(str(options.get(STREAM_NAME) or message[1] or ""), int(message[2]))
        mode = "Overwrite" if str(message[3]) == "Complete" else "Append"
        self._tables.save(mode, options, DataFrame(message[5], self._spark), batch)

    def statement(self, message: Any) -> Any:  # noqa: ANN401 - JVM objects
        """What we make of a statement that Spark's parser came upon; nothing, if not ours."""
        return self._tables.take_statement(str(message[1]), message[2])

    def write(self, message: Any) -> Any:  # noqa: ANN401 - JVM objects
        """What we make of a plan that Spark's analyzer came upon; nothing, if not ours."""
        return self._tables.take_write(message[1])

    def travel(self, message: Any) -> Any:  # noqa: ANN401 - JVM objects
        """The plan of an earlier state or of the changes of a table, named in a query."""
        return self._tables.earlier_state(message[1])

    def named(self, message: Any) -> Any:  # noqa: ANN401 - JVM objects
        """The plan of a query that names expression indexes; nothing, if it does not."""
        return self._tables.index_names(message[1])

    def view(self, message: Any) -> Any:  # noqa: ANN401 - JVM objects
        """The same of the query of a view, by the name of the view and in its time zone."""
        return self._tables.index_names(message[1], str(message[2]), str(message[3]))

    def run(self, message: str) -> Any:  # noqa: ANN401 - a JVM object or nothing
        """Run a statement that was taken, and give its rows."""
        return self._tables.run_statement(message.partition("\n")[2])

    def _count(self, pin: Pin, report: Report, settings: PlanSettings) -> None:
        """Count a scan, unless it is only explained or the session does not want that."""
        if not self._watchers and settings.counts_scans:
            count_scan(pin.snapshot.storage, report)

    def _pin_of(self, message: str) -> Pin:
        return self._pins.find(message.split("\n", 2)[1], self._tables.address)

    def _report(self, pin: Pin, message: str, settings: PlanSettings) -> Report:
        zone, asks_indexes = settings.zone, settings.asks_indexes
        knows_zone = is_same_zone(self._spark.sparkContext._jvm, zone)
        filters = message.split("\n", 2)[2]
        return prune(pin, filters, zone, asks_indexes=asks_indexes, knows_zone=knows_zone)

    def _planned(self, message: str, settings: PlanSettings) -> tuple[Pin, Report]:
        pin = self._pin_of(message)
        report = self._report(pin, message, settings)
        for seen in list(self._watchers):
            seen.append((pin, report))
        return pin, report


def _text_column(name: str) -> StructField:
    return StructField(name, StringType())


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
    package.LakeStrategy.install(spark._jsparkSession)
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


_VERBS = (
    *("face", "pin", "files", "merge", "insert", "save", "statement", "write", "travel", "run"),
    *("check", "merged_counts", "named", "view", "join_keys"),
    *("stream_options", "stream_newest", "stream_next", "stream_batch", "stream_write"),
)
_callback = Callback({verb: _handler(verb) for verb in _VERBS})
