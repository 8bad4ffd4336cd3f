"""CREATE INDEX as a kind of index sees it, and what the kind makes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.config.write_options import WriteOptions
from lakedex.errors import InvalidInput
from lakedex.filegroup import META_COLUMNS
from lakedex.index.definitions import ASYNC, COVERING, MAINTENANCE, IndexDefinition
from lakedex.index.expressions import CheckedBySpark
from lakedex.schema.hudi_types import hudi_type

PARTITIONED: Final = "isPartitioned"
"""The option that says whether a record index is one for each partition."""


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """A new index of the metadata table, or one that is built again."""

    name: str
    """The name that the user gave it."""
    using: str
    """The kind, as the statement has it; empty where it names none."""
    columns: tuple[str, ...]
    """The columns, as the statement spells them."""
    options: Mapping[str, str]
    """The options of the index, and write options for its build and all later writes."""
    config: TableConfig
    read_schema: Callable[[], pa.Schema]
    """Reads the columns of the table, without meta columns."""
    read_definitions: Callable[[], Mapping[str, IndexDefinition]]
    """Reads the index definitions of the table."""
    resolve: Callable[[Mapping[str, str]], WriteOptions]
    """What write options mean to the table, beside those of the writer."""
    given: Mapping[str, str]
    """The write options of the writer."""
    building: Collection[str] = ()
    """The indexes that are being built."""
    spark: CheckedBySpark | None = None
    """Checks the function of an expression index, where there is a Spark."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table, without meta columns."""
        return self.read_schema()

    @property
    def definitions(self) -> Mapping[str, IndexDefinition]:
        """The index definitions of the table, by name."""
        return self.read_definitions()

    @property
    def table(self) -> str:
        """The name of the table."""
        return self.config.name

    def is_live(self, name: str) -> bool:
        """Whether the table has an index, by its full name."""
        return name in self.config.metadata_partitions

    def column(self, name: str) -> str:
        """The column to index, as the table spells it; see `indexed_column`."""
        return indexed_column(self.schema, self.table, name)

    def path(self, name: str) -> str:
        """The column, or the field of a struct, as the table spells it; see `indexed_path`."""
        return indexed_path(self.schema, self.table, name)

    def write_options(self, why_sync: str) -> dict[str, str]:
        """The options of an index that has none of its own and that every write maintains.

        Raises:
            InvalidInput: there is an option that such an index cannot have.
        """
        options = dict(self.options)
        if COVERING in options:
            raise InvalidInput(f"{COVERING} is true or false, and for secondary indexes only")
        if options.pop(MAINTENANCE, "") == ASYNC:
            raise InvalidInput(
                f"the index {self.name} cannot have {MAINTENANCE}={ASYNC}: {why_sync}"
            )
        self.refuse_partitioned(options)
        return options

    @staticmethod
    def refuse_partitioned(options: Mapping[str, str]) -> None:
        """Refuse the option that only a record index has."""
        if PARTITIONED in options:
            value = options[PARTITIONED]
            raise InvalidInput(f"{PARTITIONED}={value!r}: a record_index has it, true or false")


@dataclass(frozen=True, slots=True)
class NewIndex:
    """What CREATE INDEX builds."""

    options: Mapping[str, str]
    """Write options for the build, which the table keeps."""
    definition: IndexDefinition | None = None
    """None for an index that a table has once, which the options ask for."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What the table keeps beside the definition."""
    zone: str | None = None
    """The time zone in which the index is computed; None where it depends on none."""
    more_columns: tuple[str, ...] = ()
    """The columns that an index of the table is to cover beside those that it has."""


def indexed_column(schema: pa.Schema, table: str, name: str) -> str:
    """The column of a table that is to be indexed, as the table spells it.

    Raises:
        InvalidInput: there is no such column, or it is a VECTOR or a BLOB.
    """
    same = _matching(schema.names, name)
    if name in META_COLUMNS:
        raise InvalidInput(f"the meta column {name} of table {table} cannot be indexed")
    if len(same) != 1:
        raise InvalidInput(
            f"table {table} has no column {name!r} to index; it has {', '.join(schema.names)}"
        )
    own_type = hudi_type(schema.field(same[0]))
    if own_type is not None:
        raise InvalidInput(
            f"column {same[0]!r} of table {table} is {own_type}, and there is no index of such "
            "columns yet"
        )
    return same[0]


def indexed_path(schema: pa.Schema, table: str, path: str) -> str:
    """The column, or the field of a struct such as `home.city`, as the table spells it.

    Raises:
        InvalidInput: there is no such column or field.
    """
    column, *fields = path.split(".")
    spelled = [indexed_column(schema, table, column)]
    kind: pa.DataType = schema.field(spelled[0]).type
    for name in fields:
        same = _matching([each.name for each in kind] if pa.types.is_struct(kind) else [], name)
        if len(same) != 1:
            raise InvalidInput(f"table {table} has no field {path!r} to index")
        spelled += same
        kind = kind.field(same[0]).type
    return ".".join(spelled)


def _matching(names: Collection[str], name: str) -> list[str]:
    """The names that are meant: the very same, else those that differ in case only."""
    same = [each for each in names if each == name]
    return same or [each for each in names if each.lower() == name.lower()]
