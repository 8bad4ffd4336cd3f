"""The Python side of `lakedex.spark.jvm_contract`: answers to the calls of Spark's plans.

One thread-safe callback serves all sessions. An error becomes a text that the JVM throws; the error
itself is kept for a while, so that a caller in Python gets it instead of the JVM's.

lakedex reads and writes object stores by itself, so a session may lack the Hadoop file system of a
store. lakedex's own reader then reads the tables there.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from lakedex.config.option_check import (
    SESSION_PREFIXES,
    USAGE_SETTING,
    Use,
    canonical_name,
    check_session,
    check_spelling,
)
from lakedex.errors import InvalidInput, LakedexError, TableNotFound
from lakedex.filegroup import META_COLUMNS
from lakedex.prune import Report
from lakedex.prune.usage import count_scan
from lakedex.read.change_stream import StreamOptions, StreamPosition
from lakedex.spark.expression_checking import is_same_zone
from lakedex.spark.jobs import without_traces
from lakedex.spark.jvm_classes import install_classes
from lakedex.spark.jvm_contract import (
    CALLS,
    CONTRACT,
    DESCRIBE_TABLE,
    FIELD_SEPARATOR,
    NOT_ATTACHED,
    PATH_OPTION,
    PIN,
    READERS_MERGED,
    REFUSED,
    SEPARATOR,
    Call,
    check_contract,
)
from lakedex.spark.pins import Pin, Pins
from lakedex.spark.pruned_scan import (
    OtherSide,
    check_files,
    merged_counts,
    merged_rows,
    native_files,
    prune,
    source_of_keys,
)
from lakedex.spark.read_spec import STREAM_LIMITS, SWITCHES, ReadSpec, hudi_options
from lakedex.spark.schemas import spark_schema, with_comments
from lakedex.spark.slice_reading import CHANGE_SCHEMA
from lakedex.spark.streams import STREAM_NAME, Streams, batch_spec
from lakedex.storage.open import StorageAddress
from lakedex.write.stream_batches import StreamBatch

log = logging.getLogger("lakedex")

Handler = Callable[[Any], Any]
"""Takes the message of a call and returns a text, a JVM object or nothing."""

_KEPT_ERRORS = 64
_KEPT_ANSWERS = 64


class Callback:
    """Passes the calls of the JVM to their handlers; implements a Java function."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        """Answer these calls."""
        self._handlers = handlers
        self._errors: OrderedDict[str, Exception] = OrderedDict()
        self._lock = threading.Lock()
        self._answers: deque[Any] = deque(maxlen=_KEPT_ANSWERS)

    def apply(self, name: str, message: Any) -> Any:  # noqa: ANN401 - JVM objects
        """The answer to one call of the JVM."""
        try:
            with without_traces():
                answer = self._handlers[name](message)
        except Exception as raised:
            # One that Python raised may come back through the JVM.
            error = self.error_behind(str(raised)) or raised
            if not isinstance(error, LakedexError | AnalysisException):
                log.exception("lakedex could not %s", name)
            text = str(error) or type(error).__name__
            with self._lock:
                self._errors[text] = error
                while len(self._errors) > _KEPT_ERRORS:
                    self._errors.popitem(last=False)
            return f"{REFUSED}{text}"
        if not isinstance(answer, str):
            # py4j has the JVM let an object go when Python does, maybe before it is taken there.
            self._answers.append(answer)
        return answer

    def error_behind(self, text: str) -> Exception | None:
        """The error of Python whose text a text of the JVM contains."""
        with self._lock:
            matches = [error for known, error in self._errors.items() if known in text]
        return matches[-1] if matches else None

    class Java:
        """The interfaces of this object in Java, for py4j."""

        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]


def listen(context: SparkContext, package: Any, callback: Callback) -> None:  # noqa: ANN401
    """Let the JVM's classes call this object."""
    ensure_callback_server_started(context._gateway)
    package.Python.listen(callback)


_SWITCHES = (USAGE_SETTING, *SWITCHES)
_NAMES = SEPARATOR.join(_SWITCHES)
_STARTS = SEPARATOR.join(SESSION_PREFIXES)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The settings at one moment."""

    zone: str
    asks_indexes: bool
    """Whether indexes may remove anything."""
    counts_scans: bool


class SessionSettings:
    """The settings of a session, whose classes are in place."""

    def __init__(self, spark: SparkSession) -> None:
        """Keep the Java method: each step to it is a call of the JVM."""
        self._session = spark._jsparkSession
        self._checked: list[str] = []
        self._read = spark.sparkContext._jvm.lakedex.jvm.Settings.read

    def now(self) -> PlanSettings:
        """Their values at this moment.

        Raises:
            InvalidInput: A setting is a misspelled option, or neither true nor false.
            UnsupportedFeature: A setting needs something that lakedex does not have.
        """
        lines = str(self._read(self._session, _NAMES, _STARTS)).split(SEPARATOR)
        zone, *values = lines[: 1 + len(_SWITCHES)]
        options = lines[1 + len(_SWITCHES) :]
        if options != self._checked:
            pairs = (line.partition(FIELD_SEPARATOR) for line in options)
            check_session({name: value for name, _, value in pairs}, Use.READ, obeyed=SWITCHES)
            self._checked = options
        counts, *switches = map(_is_on, _SWITCHES, values)
        return PlanSettings(zone, all(switches), counts)


def _is_on(name: str, value: str) -> bool:
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"{name} is true or false, not {value!r}")
    return text == "true"


_TWINS = {"s3": "s3a"}
"""Schemes that Hadoop knows by another name."""


class FileSystems:
    """The file systems of a session; each scheme is looked for once."""

    def __init__(self, spark: SparkSession) -> None:
        """Nothing is known yet."""
        self._spark = spark
        self._found: dict[str, str | None] = {}

    def url(self, url: str) -> str | None:
        """A URL as Spark's own reader can open it; None where it cannot."""
        scheme, mark, _ = url.partition(":/")
        if not mark or "/" in scheme:
            return url  # a path of the session's default file system
        if scheme not in self._found:
            known = (scheme, _TWINS.get(scheme.lower()))
            self._found[scheme] = next(filter(self._has, known), None)
            if self._found[scheme] is None:
                log.warning(
                    "the session has no Hadoop file system for %s://, so that lakedex's own reader "
                    "reads such tables; Spark's, which is faster, needs a library%s",
                    scheme,
                    " (org.apache.hadoop:hadoop-aws)" if scheme.lower().startswith("s3") else "",
                )
        found = self._found[scheme]
        return None if found is None else found + url[len(scheme) :]

    def _has(self, scheme: str | None) -> bool:
        if scheme is None:
            return False
        conf = self._spark._jsparkSession.sessionState().newHadoopConf()
        try:
            self._spark.sparkContext._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
                scheme, conf
            )
        except Py4JError:
            return False
        return True


class Tables(Protocol):
    """What a server needs of a lake."""

    @property
    def spark(self) -> SparkSession:
        """The session."""

    def address(self, path: str) -> StorageAddress:
        """The address of a path, with the settings of its store."""

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
    """Answers the calls of one session; it has a method for each call of the contract."""

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

    def describe_table(self, options: dict[str, str], columns: str) -> str:
        """The read specification, columns and size of a table, for a relation that names it."""
        path = options.pop(PATH_OPTION, None)
        if not path and columns:
            # CREATE TABLE requests a table in the warehouse before it gives its path.
            return DESCRIBE_TABLE.lines(spec=ReadSpec(""), columns=columns, size=0)
        if not path:
            raise InvalidInput('say which table: .load("/path/of/table"), or the option path')
        if columns:
            # A catalog passes all properties of CREATE TABLE, which were checked there.
            check_spelling(map(canonical_name, options))
        else:
            hudi_options(options, Use.READ)
        spec = ReadSpec.of(path, options)
        try:
            pin = self._pins.newest(spec, self._tables.address(spec.path))
        except TableNotFound:
            if not columns:
                raise
            # CREATE TABLE asks for the relation before the table exists.
            return DESCRIBE_TABLE.lines(spec=spec, columns=columns, size=0)
        schema = CHANGE_SCHEMA if spec.is_cdc else spark_schema(pin.snapshot.schema)
        if columns:
            if not spec.is_cdc and not pin.snapshot.config.populate_meta_fields:
                # As in Hudi a catalog shows the meta columns, without values; a path does not.
                schema = StructType([*(_text_column(name) for name in META_COLUMNS), *schema])
            schema = with_comments(schema, columns)
        return DESCRIBE_TABLE.lines(spec=spec, columns=schema.json(), size=sum(pin.sizes))

    def pin(self, spec: str) -> str:
        """A snapshot for all parts of a query."""
        read_spec = ReadSpec.parse(spec)
        pin = self._pins.newest(read_spec, self._tables.address(read_spec.path))
        native, merged = pin.sizes
        return PIN.lines(
            name=pin.name,
            root=self._file_systems.url(read_spec.path) or read_spec.path,
            native_size=native,
            merged_size=merged,
            readers=pin.readers,
        )

    def join_keys(
        self,
        pin: str,
        size: str,
        read_size: str,
        is_selective: bool,  # noqa: FBT001 - the JVM passes all arguments
        is_cheap: bool,  # noqa: FBT001 - as above
        columns: Sequence[str],
    ) -> str:
        """How the keys of the other side of a join may reach a scan."""
        side = OtherSide(int(size), int(read_size), is_selective, is_cheap)
        return source_of_keys(self._pin_of(pin), columns, side)

    def list_files(self, pin: str, filters: str) -> str:
        """The base files that Spark's reader has to read."""
        settings = self._settings.now()
        found, report = self._planned(pin, filters, settings)
        self._count(found, report, settings)
        return native_files(found, report)

    def check_files(self, pin: str, filters: str) -> None:
        """Refuse to read files that were cleaned since they were listed."""
        found = self._pin_of(pin)
        check_files(found, self._report(found, filters, self._settings.now()))

    def read_merged(self, pin: str, filters: str, columns: str) -> Any:  # noqa: ANN401 - of the JVM
        """The rows that our reader reads."""
        settings = self._settings.now()
        found, report = self._planned(pin, filters, settings)
        if found.readers == READERS_MERGED:
            # Where both readers are needed, the scan is counted when Spark's own lists its files.
            self._count(found, report, settings)
        return merged_rows(self._spark, found, report, columns)

    def count_merged(self, pin: str, filters: str) -> str:
        """How much of the table is for our reader, and how much of that it reads."""
        found = self._pin_of(pin)
        return merged_counts(found, self._report(found, filters, self._settings.now()))

    def insert(self, spec: str, overwrite: bool, rows: Any) -> None:  # noqa: ANN401, FBT001 - JVM
        """Rows that plain SQL inserts."""
        path = ReadSpec.parse(spec).path
        self._tables.insert(path, DataFrame(rows, self._spark), overwrite=overwrite)

    def save(self, mode: str, options: dict[str, str], rows: Any) -> None:  # noqa: ANN401 - JVM
        """Rows that a DataFrameWriter saves."""
        self._settings.now()  # refuses settings that are misspelled
        self._tables.save(mode, options, DataFrame(rows, self._spark))

    def check_stream(self, options: dict[str, str]) -> None:
        """Check the options of a stream before it starts."""
        self._settings.now()  # refuses settings that are misspelled
        hudi_options(options, Use.READ, also=STREAM_LIMITS)
        StreamOptions.of(options)

    def stream_newest(self, stream: str, options: dict[str, str]) -> str:
        """The last commit of a streamed table, for a query that ends with it."""
        return self._streams.stream(self._tables.address, stream, options).newest()

    def stream_next(
        self,
        stream: str,
        options: dict[str, str],
        after: str,
        up_to: str,
        everything: bool,  # noqa: FBT001 - the JVM passes all arguments
    ) -> str:
        """The end of the next batch of a stream; empty if nothing was committed since."""
        position = self._streams.stream(self._tables.address, stream, options).next(
            StreamPosition.parse(after) if after else None,
            up_to=up_to or None,
            limited=not everything,
        )
        return "" if position is None else str(position)

    def stream_batch(self, stream: str, options: dict[str, str], after: str, position: str) -> str:
        """How the table is to be read for the rows of one batch."""
        changes = self._streams.stream(self._tables.address, stream, options)
        return str(batch_spec(changes, options[PATH_OPTION], after, position))

    def stream_write(
        self,
        query: str,
        number: int,
        mode: str,
        options: dict[str, str],
        rows: Any,  # noqa: ANN401 - a DataFrame of the JVM
    ) -> None:
        """Write a batch of a DataStreamWriter."""
        batch = StreamBatch(str(options.get(STREAM_NAME) or query), int(number))
        save_mode = "Overwrite" if mode == "Complete" else "Append"
        self._tables.save(save_mode, options, DataFrame(rows, self._spark), batch)

    def take_statement(self, text: str, plan: Any) -> Any:  # noqa: ANN401 - JVM objects
        """How a statement is run that Spark's parser met; nothing, if it is not ours."""
        return self._tables.take_statement(text, plan)

    def take_write(self, plan: Any) -> Any:  # noqa: ANN401 - JVM objects
        """How a plan is run that Spark's analyzer met; nothing, if it is not ours."""
        return self._tables.take_write(plan)

    def resolve_relation(self, node: Any) -> Any:  # noqa: ANN401 - JVM objects
        """The plan of an earlier state or of the changes of a table that a query names."""
        return self._tables.earlier_state(node)

    def resolve_index_names(self, plan: Any) -> Any:  # noqa: ANN401 - JVM objects
        """The plan of a query that names expression indexes; nothing, if it does not."""
        return self._tables.index_names(plan)

    def resolve_view(self, plan: Any, name: str, zone: str) -> Any:  # noqa: ANN401 - JVM objects
        """The same for the query of a view, with the name of the view and its time zone."""
        return self._tables.index_names(plan, name, zone)

    def run_statement(self, name: str) -> Any:  # noqa: ANN401 - a JVM object or nothing
        """Run a statement that was taken, and return its rows."""
        return self._tables.run_statement(name)

    def _count(self, pin: Pin, report: Report, settings: PlanSettings) -> None:
        """Count a scan, unless it is only explained or the session does not want that."""
        if not self._watchers and settings.counts_scans:
            count_scan(pin.snapshot.storage, report)

    def _pin_of(self, name: str) -> Pin:
        return self._pins.find(name, self._tables.address)

    def _report(self, pin: Pin, filters: str, settings: PlanSettings) -> Report:
        zone, asks_indexes = settings.zone, settings.asks_indexes
        knows_zone = is_same_zone(self._spark.sparkContext._jvm, zone)
        return prune(pin, filters, zone, asks_indexes=asks_indexes, knows_zone=knows_zone)

    def _planned(self, name: str, filters: str, settings: PlanSettings) -> tuple[Pin, Report]:
        pin = self._pin_of(name)
        report = self._report(pin, filters, settings)
        for seen in list(self._watchers):
            seen.append((pin, report))
        return pin, report


def _text_column(name: str) -> StructField:
    return StructField(name, StringType())


_servers: dict[str, TableServer] = {}
_lock = threading.Lock()


def serve(tables: Tables) -> tuple[TableServer, Callback]:
    """Let the plans of a session reach its tables: classes, the callback, the rule that pins.

    Raises:
        UnsupportedFeature: The JVM has the classes of another version of lakedex.
    """
    spark = tables.spark
    package = install_classes(spark)
    check_contract(package, CONTRACT)
    session = spark._jsparkSession.sessionUUID()
    with _lock:
        # A session that is attached again keeps its pins, and its older lakes go on.
        server = _servers.get(session) or TableServer(tables)
        server.use(tables)
        _servers[session] = server
    listen(spark.sparkContext, package, _callback)
    package.PinRule.install(spark._jsparkSession)
    package.LakeStrategy.install(spark._jsparkSession)
    return server, _callback


def _handler(call: Call) -> Handler:
    def handle(message: Any) -> Any:  # noqa: ANN401 - JVM objects
        with _lock:
            server = _servers.get(call.session_of(message))
        if server is None:
            raise InvalidInput(NOT_ATTACHED)
        answer: Callable[..., Any] = getattr(server, call.name)
        return answer(**call.arguments(message))

    return handle


_callback = Callback({call.name: _handler(call) for call in CALLS})
