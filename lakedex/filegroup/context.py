"""What reading the slices of a table needs to know about the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.config import MergeMode, TableConfig
from lakedex.config.new_layout import NewLayout
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.keys import PartitionLayout
from lakedex.keys.generator import KeyGenerator, type_of
from lakedex.schema import SchemaHistory, apply_history, mapping, project
from lakedex.schema.field_paths import flat
from lakedex.storage import Storage

RECORD_KEY = "_hoodie_record_key"
META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    RECORD_KEY,
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
PARTITION_PATH = META_COLUMNS[3]
DELETED_FLAG = "_hoodie_is_deleted"
OPERATION = "_hoodie_operation"


@dataclass(frozen=True, slots=True)
class ReadContext:
    """A table as its slices are read: store, settings, schema and committed instants."""

    storage: Storage
    config: TableConfig
    schema: pa.Schema
    """All columns of the table in their newest form, the meta columns first."""
    history: SchemaHistory | None
    """How columns were renamed and retyped, if the table keeps that."""
    is_committed: Callable[[str], bool]
    """Which log blocks count."""

    @property
    def has_virtual_keys(self) -> bool:
        """Whether the files hold no meta columns: keys are computed from the key columns."""
        return not self.config.populate_meta_fields and not self.config.is_metadata_table

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """What decides between versions of a row; none for commit-time ordering."""
        if self.config.require_known_merge() is MergeMode.COMMIT_TIME_ORDERING:
            return ()
        return self.config.ordering_fields

    @property
    def ordering_columns(self) -> list[str]:
        """The columns that hold the ordering fields, which may be fields of structs."""
        known = self.schema.names
        names = [n if n in known else n.partition(".")[0] for n in self.ordering_fields]
        return list(dict.fromkeys(names))

    def ordering_types(self) -> list[pa.DataType]:
        """The types of the ordering fields."""
        return [type_of(self.schema, name, role="ordering") for name in self.ordering_fields]

    def target(self, columns: Sequence[str]) -> pa.Schema:
        """The schema of some columns; an unknown name is an error.

        With virtual keys the meta columns are known too, though `schema` may not list them.
        """
        computed = META_COLUMNS if self.has_virtual_keys else ()
        fields = []
        for name in columns:
            if name in self.schema.names:
                fields.append(self.schema.field(name))
            elif name in computed:
                fields.append(pa.field(name, pa.string()))
            else:
                raise InvalidInput(f"table {self.config.name} has no column {name!r}")
        return pa.schema(fields)

    def merge_columns(self) -> list[str]:
        """The columns that merging needs, whatever a query selects."""
        optional = [name for name in (DELETED_FLAG, OPERATION) if name in self.schema.names]
        return [RECORD_KEY, *self.ordering_columns, *optional]

    def stored_names(self, columns: Sequence[str], instant_time: str) -> list[str]:
        """The names that columns have in files of an instant; of computed ones their sources."""
        if self.has_virtual_keys:
            columns = self._sources(columns)
        if self.history is None:
            return list(columns)
        names = mapping(self.history.version_at(instant_time), self.history.newest)
        known = {field.name for field in self.history.newest.record.fields}
        return [names.get(name, name) for name in columns if name in names or name not in known]

    def conform(
        self, rows: pa.Table, instant_time: str, target: pa.Schema, partition: str
    ) -> pa.Table:
        """Rows of a file or log block of an instant as the newest schema has them."""
        if not self.has_virtual_keys:
            return self._conform_stored(rows, instant_time, target, partition)
        stored = pa.schema([self.schema.field(name) for name in self._sources(target.names)])
        rows = self._conform_stored(rows, instant_time, stored, partition)
        return self._with_computed(rows, target, partition)

    def record_keys(self, rows: pa.Table) -> pa.Array:
        """The record key of each row: the stored one, or made from the key columns."""
        if RECORD_KEY in rows.column_names:
            return flat(rows[RECORD_KEY])
        return self._key_generator().keys(rows)

    def _key_generator(self) -> KeyGenerator:
        if not self.config.record_key_fields:
            raise InvalidInput(f"table {self.config.name} has neither stored keys nor key columns")
        return KeyGenerator.of(self.config, self.schema)

    def _sources(self, columns: Sequence[str]) -> list[str]:
        """The stored columns that some columns are read from or computed of."""
        names = [name for name in columns if name not in META_COLUMNS]
        if RECORD_KEY in columns:
            names += [field.partition(".")[0] for field in self.config.record_key_fields]
        return list(dict.fromkeys(names))

    def _with_computed(self, rows: pa.Table, target: pa.Schema, partition: str) -> pa.Table:
        """Rows with the meta columns of the target: key and partition path are computed."""
        count = rows.num_rows
        arrays: list[pa.Array | pa.ChunkedArray] = []
        for name in target.names:
            if name == RECORD_KEY:
                arrays.append(self.record_keys(rows))
            elif name == PARTITION_PATH:
                arrays.append(pa.repeat(pa.scalar(partition, pa.string()), count))
            elif name in META_COLUMNS:
                arrays.append(pa.nulls(count, pa.string()))
            else:
                arrays.append(rows[name])
        return pa.Table.from_arrays(arrays, schema=target)

    def _conform_stored(
        self, rows: pa.Table, instant_time: str, target: pa.Schema, partition: str
    ) -> pa.Table:
        if self.config.drop_partition_columns:
            rows = self._with_partition_values(rows, target, partition)
        if self.history is not None:
            version = self.history.version_at(instant_time)
            return apply_history(rows, version, self.history.newest, target)
        return project(rows, target)

    def _with_partition_values(self, rows: pa.Table, target: pa.Schema, partition: str) -> pa.Table:
        texts = partition_layout(self.config).texts(partition)
        for name in self.config.partition_fields:
            if name not in target.names:
                continue
            # Some writers leave the column in the file, without its values.
            rows = rows.drop_columns([name]) if name in rows.column_names else rows
            value = _typed(texts, name, target.field(name).type, partition)
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        return rows


def _typed(
    texts: dict[str, str | None], name: str, data_type: pa.DataType, partition: str
) -> pa.Scalar:
    """A partition value that only stands in the path, in the type of its column."""
    try:
        return pa.scalar(texts[name], pa.string()).cast(data_type)
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        feature = f"the partition path {partition!r} as the only source of column {name}"
        raise UnsupportedFeature(f"{feature} ({data_type})") from None


def partition_layout(config: TableConfig) -> PartitionLayout:
    """How a table spells partition values in folder names."""
    generator = f"{config.keygen_type or ''} {config.keygen_class or ''}".upper()
    derived = {
        name
        for name, kind in zip(config.partition_fields, config.partition_kinds, strict=True)
        if kind != "simple"
    }
    if "TIMESTAMP" in generator:
        derived = set(config.partition_fields)
    new = NewLayout.of(config)
    return PartitionLayout(
        config.partition_fields,
        hive_style=config.hive_style_partitioning,
        url_encoded=config.url_encode_partitioning,
        derived_fields=frozenset(derived),
        newer_fields=new.fields or (),
        hashed_folders=new.hashed_folders,
        has_roots=bool(new.roots),
        slash_dates=config.slash_separated_dates,
    )
