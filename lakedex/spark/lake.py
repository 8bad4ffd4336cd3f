"""A Spark session as a set of tables: creates them, opens them, runs statements.

The settings of stores come from Hadoop's configuration as the session has it, those of a bucket
before the general ones. They are never logged. `lakedex.partition.roots`, also of the session,
allows other roots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakedex.config import keys
from lakedex.errors import InvalidInput, LakedexError, TableNotFound
from lakedex.services.advising import Advice, joined_advice
from lakedex.services.indexes_by_options import asking_for_indexes
from lakedex.spark.engine import SparkEngine
from lakedex.spark.explaining import QueryReport, Scans, explain_query, list_scans
from lakedex.spark.saving import insert_rows, save_rows
from lakedex.spark.schemas import any_schema
from lakedex.spark.serving import serve
from lakedex.spark.shipping import ship
from lakedex.spark.sql.names import NamedTable
from lakedex.spark.sql.statements import Statements
from lakedex.spark.table import SparkTable
from lakedex.storage.object_options import options_for
from lakedex.storage.open import StorageAddress
from lakedex.storage.roots import ROOTS_OPTION
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.stream_batches import StreamBatch

_S3_SETTINGS = (
    "access.key",
    "secret.key",
    "session.token",
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "connection.ssl.enabled",
)
_S3_SCHEMES = {"s3", "s3a"}
_PROVIDERS = "aws.credentials.provider"
_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_DEFAULTS = "core-default.xml"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")
_WAREHOUSE = "spark.sql.warehouse.dir"


def address_of(
    spark: SparkSession, path: str, options: Mapping[str, str] | None = None
) -> StorageAddress:
    """The address of a path or URL.

    Args:
        spark: The session whose configuration counts.
        path: A URL, or a path in the session's default file system.
        options: Settings of stores, before those of the configuration; those of other kinds of
            stores than that of the URL are left out.
    """
    if not path or "\x00" in path:
        raise InvalidInput("the path of a table must be a text that is not empty")
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    url = path if _SCHEME.match(path) else _in_default_store(conf, path)
    settings = _s3_settings(conf, url) if urlsplit(url).scheme.lower() in _S3_SCHEMES else {}
    allowed = conf.get(ROOTS_OPTION)
    if allowed:
        settings[ROOTS_OPTION] = str(allowed)
    given = dict(options or {})
    if ROOTS_OPTION in given:
        settings[ROOTS_OPTION] = given.pop(ROOTS_OPTION)
    own = options_for(urlsplit(url).scheme.lower(), given)
    return StorageAddress.of(url, {**settings, **own})


def warehouse_path(spark: SparkSession, name: str) -> str:
    """The path in the warehouse of a table of which only the name is given."""
    return f"{str(spark.conf.get(_WAREHOUSE)).rstrip('/')}/{name}"


def _in_default_store(conf: Any, path: str) -> str:  # noqa: ANN401 - a Java object
    store = str(conf.get("fs.defaultFS", "file:///"))
    if store.startswith("file:"):
        # Tasks may run in another folder than the driver.
        return str(Path(path).absolute())
    if not path.startswith("/"):
        raise InvalidInput(f"the path {path!r} must be absolute in {store}")
    return store.rstrip("/") + path


def _s3_settings(conf: Any, url: str) -> dict[str, str]:  # noqa: ANN401 - a Java object
    bucket = urlsplit(url).netloc
    found = {}
    for name in _S3_SETTINGS:
        value = _setting(conf, bucket, name)
        if value:
            found[f"fs.s3a.{name}"] = value
    if (_setting(conf, bucket, _PROVIDERS) or "").endswith(_ANONYMOUS):
        found["skip_signature"] = "true"
    return found


def _setting(conf: Any, bucket: str, name: str) -> str | None:  # noqa: ANN401 - a Java object
    for full in (f"fs.s3a.bucket.{bucket}.{name}", f"fs.s3a.{name}"):
        sources = conf.getPropertySources(full)
        # What Hadoop would do by default is left to the store's own default.
        if sources and list(sources)[-1] != _DEFAULTS:
            value = conf.get(full)
            return None if value is None else str(value).strip()
    return None


_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?")
_PATH_MARKS = re.compile(r"[/:\\]")


class Lake:
    """The tables of a Spark session; `lakedex.attach` and `lakedex.local` give one."""

    def __init__(
        self, spark: SparkSession, storage_options: Mapping[str, str] | None = None
    ) -> None:
        """Send the package to the executors."""
        self._spark = spark
        self._storage_options = dict(storage_options or {})
        address_of(spark, "/", self._storage_options)  # refuses names that no store knows
        self._engine = SparkEngine(spark.sparkContext)
        ship(spark.sparkContext)
        self._server, self._callback = serve(self)
        self._statements = Statements(self, self._callback)

    def __repr__(self) -> str:
        return f"Lake({self._spark.sparkContext.master!r})"

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    def create_table(
        self,
        name: str,
        schema: StructType | str | pa.Schema,
        *,
        path: str | PathLike[str] | None = None,
        record_key: str | Sequence[str],
        ordering: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] | None = None,
        table_type: str = "cow",
        properties: Mapping[str, str] | None = None,
    ) -> SparkTable:
        """Make a table without rows.

        Args:
            name: What the table is called in the session's catalog, such as `trips` or `db.trips`.
            schema: Its columns: a StructType, a DDL text such as `id int, at timestamp`, or an
                Arrow schema.
            path: Its path; by default in the session's warehouse.
            record_key: The column or columns by which a record is known.
            ordering: The column or columns whose larger value wins when a record is written twice.
            partition_by: The column or columns whose values name folders.
            table_type: `cow` (copy-on-write) or `mor` (merge-on-read).
            properties: Hudi's table and write properties, kept in the table.

        Raises:
            InvalidInput: Something of this is wrong, or the path holds a table or other data;
                nothing was made.
            UnsupportedFeature: The table would need something that lakedex does not have.
        """
        _check_name(name)
        names = self._statements.names
        identifier = names.identifier(names.parts(name))
        if identifier is None or names.catalog.tableExists(identifier):
            raise InvalidInput(
                f"the catalog has a table or view {name!r} already, or cannot have one"
            )
        url = names.default_path(identifier) if path is None else _text(path)
        spec = TableSpec(
            name=name.rpartition(".")[2],
            schema=any_schema(self._spark, schema),
            record_key=record_key,
            ordering=ordering,
            partition_by=partition_by or (),
            table_type=table_type,
            properties=properties or {},
            database=str(identifier.database().get()),
        )
        table = self.make_table(url, spec)
        try:
            names.register(identifier, table.path)
        except BaseException:
            self.address(url).open().delete_folder(keys.META_FOLDER)
            raise
        return table

    def sql(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> DataFrame:
        """Run a statement: Spark SQL, and what Hudi's SQL adds to it.

        Args:
            text: The statement.
            args: The values of its parameters, as `spark.sql` takes them: by name for `:name`,
                in a list for `?`.

        Example:
            `lake.sql("SELECT * FROM trips WHERE rider = 'rider-A'").show()`

        Raises:
            InvalidDefinition: The statement cannot be understood; the place is shown.
            LakedexError: It cannot be done; nothing was changed.
        """
        return self._statements.sql(text, args)

    def make_table(self, path: str, spec: TableSpec) -> SparkTable:
        """Make a table at a path, without a name in the catalog."""
        address = self.address(path)
        create_table(address.open(), spec)
        table = SparkTable(self._spark, address, self._engine)
        try:
            table.writer(asking_for_indexes(spec.properties))
        except BaseException:
            address.open().delete_folder(keys.META_FOLDER)
            raise
        return table

    def table_at(self, path: str) -> SparkTable:
        """The table at a path.

        Raises:
            TableNotFound: There is none.
        """
        table = SparkTable(self._spark, self.address(path), self._engine)
        table.name  # noqa: B018 - reads the table's properties, so that a wrong path shows now
        return table

    def table(self, name_or_path: str | PathLike[str]) -> SparkTable:
        """A table by its name in the session's catalog, or in the warehouse, or by its path.

        Raises:
            TableNotFound: There is none.
        """
        text = _text(name_or_path)
        is_name = isinstance(name_or_path, str) and not _PATH_MARKS.search(text)
        named = self._named(text) if is_name else None
        url = text
        if is_name:
            url = warehouse_path(self._spark, text) if named is None else named.path
        try:
            table = self.table_at(url)
        except TableNotFound as error:
            if not is_name:
                raise
            raise TableNotFound(f"there is no table {text!r}: {error}") from error
        return table if named is None else table.of_catalog(named.properties)

    def explain(self, query: str | DataFrame) -> QueryReport:
        """What a query would read of every table in it, which index removed what, and why.

        Args:
            query: A SELECT, a statement that changes rows, or a DataFrame; nothing of it is run.
        """
        if isinstance(query, str):
            execution = self._statements.planned(query)
        else:
            execution = query._jdf.queryExecution()
        return explain_query(self._server, self._spark.sparkContext._jvm, execution)

    def advise(self, tables: str | Sequence[str] | None = None) -> Advice:
        """Indexes to create and to drop, judging by the queries that were counted.

        Args:
            tables: Names or paths; by default all tables of the session's catalog.
        """
        if tables is not None:
            names = [tables] if isinstance(tables, str) else tables
            return joined_advice(
                [self.table(n).advise(None if _PATH_MARKS.search(n) else n) for n in names]
            )
        found = []
        for each in self._statements.names.own_tables():
            try:
                found.append(self.table_at(each.path).advise(each.shown))
            except LakedexError as error:
                found.append(Advice((), (f"{each.shown}: {error}",)))
        return joined_advice(found)

    def scans(self, execution: Any) -> Scans:  # noqa: ANN401 - a JVM object
        """What the scans of a planned query would read of our tables."""
        return list_scans(self._server, self._spark.sparkContext._jvm, execution)

    def address(self, path: str) -> StorageAddress:
        """The address of a path, with the settings of its store."""
        return address_of(self._spark, path, self._storage_options)

    def insert(self, path: str, rows: DataFrame, *, overwrite: bool) -> None:
        """Rows that plain Spark SQL inserts into the table at a path."""
        insert_rows(self.table(path), rows, overwrite=overwrite)

    def save(
        self,
        mode: str,
        options: Mapping[str, str],
        rows: DataFrame,
        batch: StreamBatch | None = None,
    ) -> None:
        """Rows that a DataFrameWriter saves, with Hudi's options, or a batch of a stream."""
        save_rows(self, mode, options, rows, batch)

    def take_statement(self, text: str, plan: Any) -> Any:  # noqa: ANN401 - JVM objects
        """A statement of plain Spark SQL; nothing, where it concerns no table of ours."""
        return self._statements.take(text, plan)

    def take_write(self, plan: Any) -> Any:  # noqa: ANN401 - JVM objects
        """A DataFrame written into a table by its name, or a statement of a script."""
        return self._statements.take_write(plan)

    def earlier_state(self, node: Any) -> Any:  # noqa: ANN401 - JVM objects
        """The plan of an earlier state, or of the changes, of a table that a query names."""
        return self._statements.earlier_state(node)

    def index_names(self, plan: Any, *of_view: str) -> Any:  # noqa: ANN401 - JVM objects
        """The plan of a query, or of a view, that names expression indexes of our tables."""
        return self._statements.index_names(plan, *of_view)

    def run_statement(self, name: str) -> Any:  # noqa: ANN401 - a JVM object or nothing
        """Run a statement that was taken before; its rows, if it gives any."""
        return self._statements.run(name)

    def _named(self, name: str) -> NamedTable | None:
        """The table of ours that the session's catalog has under a name."""
        if not _NAME.fullmatch(name):
            return None
        names = self._statements.names
        return names.find(names.parts(name))


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"a table's name is letters, digits and underscores (trips, db.trips), not {name!r}"
        )


def _text(path: str | PathLike[str]) -> str:
    if not isinstance(path, str | PathLike):
        raise InvalidInput(f"the path of a table must be text or a path, not {path!r}")
    return fspath(path)
