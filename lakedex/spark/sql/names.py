"""Resolves names in statements: tables of the session's own catalog, or paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from lakedex.errors import TableNotFound
from lakedex.spark.jvm_classes import has_hudi_bundle
from lakedex.spark.jvm_contract import DATA_SOURCE, HUDI_SOURCE
from lakedex.spark.sql.plans import listed, mapped, optional

_SESSION_CATALOG = "spark_catalog"
_HUDI_CLASS = "org.apache.hudi"
_MOST_PARTS = 2


@dataclass(frozen=True)
class NamedTable:
    """A table of ours as a statement names it."""

    parts: tuple[str, ...]
    path: str
    entry: Any = None
    """The session catalog's entry; None for a table that is named by its path."""

    @property
    def identifier(self) -> Any:  # noqa: ANN401 - a JVM object
        """Spark's own form of the name."""
        return None if self.entry is None else self.entry.identifier()

    @property
    def properties(self) -> dict[str, str]:
        """What the catalog holds as options and properties of the table."""
        if self.entry is None:
            return {}
        return {**mapped(self.entry.storage().properties()), **mapped(self.entry.properties())}

    @property
    def shown(self) -> str:
        """The name in messages."""
        return ".".join(self.parts)

    @property
    def quoted(self) -> str:
        """The name as it can stand in a statement."""
        return "" if self.entry is None else str(self.identifier.quotedString())


class Names:
    """Looks names up in one session."""

    def __init__(self, spark: SparkSession) -> None:
        """Look at the session's catalog at every question."""
        self._spark = spark
        self._jvm = spark.sparkContext._jvm
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        is_hudi_there = has_hudi_bundle(loader)
        self._providers = (
            {DATA_SOURCE} if is_hudi_there else {DATA_SOURCE, HUDI_SOURCE, _HUDI_CLASS}
        )

    @property
    def catalog(self) -> Any:  # noqa: ANN401 - a JVM object
        """The session's own catalog."""
        return self._spark._jsparkSession.sessionState().catalog()

    @property
    def is_elsewhere(self) -> bool:
        """Whether names without a catalog are those of another catalog at present."""
        return str(self._spark.catalog.currentCatalog()) != _SESSION_CATALOG

    def is_own(self, provider: str | None) -> bool:
        """Whether `USING provider` means a table of ours."""
        return provider is not None and provider.lower() in self._providers

    def find(self, parts: tuple[str, ...]) -> NamedTable | None:
        """The table of ours that a name stands for; None for another's, or none at all."""
        if self.is_path(parts):
            return NamedTable(parts, parts[-1])
        identifier = self.identifier(parts)
        if identifier is None or not self.catalog.tableExists(identifier):
            return None
        entry = self.catalog.getTableMetadata(identifier)
        if not self.is_own(optional(entry.provider())):
            return None
        return NamedTable(parts, location(entry), entry)

    def own_tables(self) -> list[NamedTable]:
        """All tables of ours in the session's catalog."""
        found = []
        for database in listed(self.catalog.listDatabases()):
            for identifier in listed(self.catalog.listTables(str(database))):
                parts = (str(database), str(identifier.table()))
                table = self.find(parts) if identifier.database().isDefined() else None
                if table is not None:
                    found.append(table)
        return found

    def named(self, text: str) -> NamedTable:
        """The table that a name in a text stands for, such as `db.trips`.

        Raises:
            TableNotFound: There is none of ours.
        """
        found = self.find(self.parts(text))
        if found is None:
            raise TableNotFound(f"there is no Hudi table {text!r} in the session's catalog")
        return found

    def parts(self, text: str) -> tuple[str, ...]:
        """The parts of a name such as `db.trips`."""
        parser = self._spark._jsparkSession.sessionState().sqlParser()
        return tuple(str(part) for part in listed(parser.parseMultipartIdentifier(text)))

    def database_of_view(self, name: str) -> str | None:
        """Where a view looks for names without a database; None where it does not say.

        Example of a name: `spark_catalog.default.days`, or `days` of a temporary view.
        """
        *before, last = self.parts(name)
        database = self._jvm.scala.Option.apply(before[-1] if before else None)
        identifier = self._jvm.org.apache.spark.sql.catalyst.TableIdentifier(last, database)
        entry = self.catalog.getTempViewOrPermanentTableMetadata(identifier)
        namespace = [str(each) for each in listed(entry.viewCatalogAndNamespace())]
        return namespace[-1] if namespace[:1] == [_SESSION_CATALOG] else None

    def default_path(self, identifier: Any) -> str:  # noqa: ANN401 - a JVM object
        """The path of a table of the warehouse."""
        return _path(self.catalog.defaultTablePath(identifier))

    def register(self, identifier: Any, path: str) -> None:  # noqa: ANN401 - a JVM object
        """Give the table at a path a name in the catalog."""
        provider = HUDI_SOURCE if HUDI_SOURCE in self._providers else DATA_SOURCE
        self._spark.catalog.createTable(str(identifier.quotedString()), path=path, source=provider)
        # An earlier table of the name may still be cached.
        self.catalog.refreshTable(identifier)

    def forget(self, identifier: Any) -> None:  # noqa: ANN401 - a JVM object
        """Take a name out of the catalog, with the folder if it is in the warehouse."""
        self.catalog.refreshTable(identifier)
        missing_is_fine, purge = True, False
        self.catalog.dropTable(identifier, missing_is_fine, purge)

    def is_path(self, parts: tuple[str, ...]) -> bool:
        """Whether a name is of the form hudi.`/path/of/table`."""
        return len(parts) == _MOST_PARTS and self.is_own(parts[0]) and "/" in parts[1]

    def identifier(self, parts: tuple[str, ...], *, is_new: bool = False) -> Any:  # noqa: ANN401
        """Spark's form of a name in the session catalog; None for a view or another catalog.

        A new table may have the name of a temporary view, which hides it.
        """
        names = list(parts)
        if len(names) > 1 and names[0].lower() == _SESSION_CATALOG:
            names = names[1:]
        elif self.is_elsewhere:
            return None
        if not names or len(names) > _MOST_PARTS:
            return None
        if not is_new and len(parts) == 1 and self.catalog.getTempView(names[-1]).isDefined():
            return None
        database = names[0] if len(names) == _MOST_PARTS else self.catalog.getCurrentDatabase()
        option = self._jvm.scala.Option.apply(database)
        return self._jvm.org.apache.spark.sql.catalyst.TableIdentifier(names[-1], option)


def location(entry: Any) -> str:  # noqa: ANN401 - a JVM object
    """The path of the table of a catalog entry."""
    return _path(entry.location())


def _path(uri: Any) -> str:  # noqa: ANN401 - a JVM object
    path = str(uri.getPath())
    return path if uri.getScheme() in (None, "file") else str(uri.toString())
