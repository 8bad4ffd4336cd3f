"""What a new table is to be, checked, and the properties that say so."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakedex.config import MergeMode, TableConfig, TableType, keys, table_checksum
from lakedex.config.option_check import (
    canonical_names,
    check_options,
    is_own_name,
    is_write_option,
    option_texts,
)
from lakedex.config.option_values import FlagOption, flag_text
from lakedex.config.restated_options import is_timebased
from lakedex.config.table_config import (
    KeyGeneratorType,
    inferred_key_generator,
    parse_key_generator,
    payload_mode,
)
from lakedex.config.write_option_names import COMPACT_INLINE, RECORD_INDEX_WINDOW_FORMAT
from lakedex.config.write_options import WriteOptions, by_newest_name
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.index.registry import check_buckets
from lakedex.keys.generator import KeyGenerator, check_virtual_keys, type_of
from lakedex.keys.partition_path import PartitionDays
from lakedex.schema import avro_schema
from lakedex.schema.arrow_types import with_defaults
from lakedex.schema.storable import check_reserved, storable_schema

_VERSION, _LAYOUT = "9", "2"
_NAME = re.compile(r"\w[\w.\-]*")
_MOST_NAME_CHARS = 200
_NOT_IN_AVRO = re.compile(r"[^A-Za-z0-9_]")
_TYPES = {
    "cow": TableType.COPY_ON_WRITE,
    "copy_on_write": TableType.COPY_ON_WRITE,
    "mor": TableType.MERGE_ON_READ,
    "merge_on_read": TableType.MERGE_ON_READ,
}
_GENERATOR_NAMES = (
    keys.KEY_GENERATOR_TYPE,
    keys.KEY_GENERATOR_CLASS,
    "hoodie.datasource.write.keygenerator.type",
    "hoodie.datasource.write.keygenerator.class",
)
_MODE_NAMES = (keys.MERGE_MODE, "hoodie.write.record.merge.mode")
_PAYLOAD_NAMES = (keys.PAYLOAD_CLASS, "hoodie.datasource.write.payload.class")
_SLASH_DATES = FlagOption(keys.SLASH_SEPARATED_DATES, "false")
_FLAGS = (
    FlagOption(keys.HIVE_STYLE_PARTITIONING, "true"),
    FlagOption(keys.URL_ENCODE_PARTITIONING, "false"),
    FlagOption(keys.DROP_PARTITION_COLUMNS, "false"),
)
_META_FIELDS = FlagOption(keys.POPULATE_META_FIELDS, "true")


@dataclass(frozen=True)
class TableSpec:
    """What a new table is to be.

    `partition_by` may say how a column is turned into a folder: `day:TIMESTAMP`, `city:SIMPLE`.
    `properties` takes table properties (hive style, url encoding, key generator, its time-based
    options, merge mode) and write options that the table is to keep.
    """

    name: str
    schema: pa.Schema
    record_key: str | Sequence[str]
    ordering: str | Sequence[str] | None = None
    partition_by: str | Sequence[str] = ()
    table_type: str = "cow"
    properties: Mapping[str, str] = field(default_factory=dict)
    database: str = "default"

    def resolve(self) -> ResolvedSpec:
        """Check everything and say what is to be written.

        Raises:
            InvalidInput: a name, a column, a type or a property is wrong; it is named.
            UnsupportedFeature: the table would need something that lakedex does not have.
        """
        _check_name(self.name, "table")
        _check_name(self.database, "database")
        check_reserved(self.schema.names)
        schema = storable_schema(self.schema)
        record_key = _columns(self.record_key)
        ordering = _columns(self.ordering or ())
        partition_by = _columns(self.partition_by)
        for name in ordering:
            _check_ordering(schema, name)
        given, own = _split_properties(self.properties)
        props = self._identity(schema)
        if record_key:
            props[keys.RECORD_KEY_FIELDS] = ",".join(record_key)
        generator = _generator(given, record_key, partition_by)
        props[keys.KEY_GENERATOR_TYPE] = generator.value
        if partition_by:
            props[keys.PARTITION_FIELDS] = ",".join(_spelled(partition_by, generator))
        props |= _merging(given, ordering)
        if _SLASH_DATES.value(given):
            props[_SLASH_DATES.name] = "true"
            # Both at once are refused, so the default of the one gives way to the other.
            given = {keys.HIVE_STYLE_PARTITIONING: "false", **given}
        props |= {flag.name: flag_text(flag.value(given)) for flag in _FLAGS}
        if not _META_FIELDS.value(given):
            if not record_key:
                raise InvalidInput(
                    f"{keys.POPULATE_META_FIELDS}=false needs a record key: without meta columns "
                    "keys are computed from its columns"
                )
            props[keys.POPULATE_META_FIELDS] = "false"
        props |= {
            name: value.strip()
            for name, value in given.items()
            if is_timebased(name) or name in (keys.HASHED_FOLDERS, keys.OTHER_ROOTS)
        }
        config = TableConfig.from_properties(props, keys.PROPERTIES_FILE)
        KeyGenerator.of(config, schema)
        check_virtual_keys(config, schema)
        options = WriteOptions.resolve(config, {}, given)
        options.metadata.check_columns(schema.names)
        _check_index(config, options)
        if config.table_type is TableType.COPY_ON_WRITE and COMPACT_INLINE.value(given):
            raise InvalidInput(
                f"{COMPACT_INLINE.name}=true: a copy-on-write table has no log files to compact; "
                "leave it out, or create a merge-on-read table"
            )
        chosen = {name: value for name, value in given.items() if is_write_option(name)}
        chosen = by_newest_name(chosen)
        return ResolvedSpec(config, options, {**own, **chosen, **options.kept()})

    def _identity(self, schema: pa.Schema) -> dict[str, str]:
        """The properties that every table has, with the values of Hudi 1.2.0."""
        kind = _TYPES.get(str(self.table_type).lower())
        if kind is None:
            raise InvalidInput(f"table_type {self.table_type!r} must be 'cow' or 'mor'")
        avro_name = _avro_name(self.name)
        record = avro_schema(schema, f"{avro_name}_record", f"hoodie.{avro_name}")
        record = with_defaults(record, self.schema)
        return {
            keys.TABLE_NAME: self.name,
            keys.DATABASE_NAME: self.database,
            keys.TABLE_TYPE: kind.value,
            keys.TABLE_VERSION: _VERSION,
            keys.TABLE_INITIAL_VERSION: _VERSION,
            keys.TABLE_FORMAT: "native",
            keys.TABLE_CHECKSUM: str(table_checksum(self.name, self.database)),
            keys.TIMELINE_LAYOUT_VERSION: _LAYOUT,
            keys.TIMELINE_PATH: "timeline",
            keys.TIMELINE_HISTORY_PATH: "history",
            keys.TIMELINE_TIMEZONE: "UTC",
            keys.ARCHIVELOG_FOLDER: "archived",
            keys.CREATE_SCHEMA: record.to_json(),
        }


@dataclass(frozen=True)
class ResolvedSpec:
    """A checked table: its properties, and the options that it keeps."""

    config: TableConfig
    options: WriteOptions
    kept: Mapping[str, str]
    """What every later write goes by: the options above, and others that were given."""


def _check_index(config: TableConfig, options: WriteOptions) -> None:
    """Refuse parameters of the write index that are none."""
    if options.buckets is not None:
        check_buckets(options.buckets)
    if options.window is not None:
        name = RECORD_INDEX_WINDOW_FORMAT.name
        PartitionDays.of(config, options.window.date_format, option=name)


def _split_properties(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options among properties, under their full names, and the properties of a user's own.

    Raises:
        InvalidInput: a name is a misspelled option, or one option has two values.
        UnsupportedFeature: an option needs something that lakedex does not have.
    """
    texts = option_texts(properties)
    given = canonical_names(texts, any_case=False)
    check_options(given, may_be_own=True)
    own = {name: value for name, value in given.items() if is_own_name(name)}
    return {name: value for name, value in given.items() if name not in own}, own


def _check_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _MOST_NAME_CHARS:
        raise InvalidInput(
            f"{what} name {name[:_MOST_NAME_CHARS]!r} must be letters, digits, _, - and ."
        )


def _columns(names: str | Sequence[str]) -> tuple[str, ...]:
    """One name, a comma list, or a list of names."""
    given: object = names.split(",") if isinstance(names, str) else names
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise InvalidInput(f"columns are given by a name or a list of names, not by {names!r}")
    columns = [name.strip() for name in given]
    if columns == [""]:
        return ()
    if not all(columns) or len(set(columns)) != len(columns):
        raise InvalidInput(f"the columns {', '.join(columns)!r} are not all different names")
    return tuple(columns)


def _check_ordering(schema: pa.Schema, name: str) -> None:
    dtype = type_of(schema, name, role="ordering")
    if pa.types.is_nested(dtype) or pa.types.is_binary(dtype):
        raise InvalidInput(f"ordering column {name!r} of type {dtype} has no order")


def _generator(
    given: Mapping[str, str], record_key: tuple[str, ...], partition_by: tuple[str, ...]
) -> KeyGeneratorType:
    named = {parse_key_generator(given[name]) for name in _GENERATOR_NAMES if name in given}
    if len(named) > 1:
        shown = " and ".join(sorted(kind.value for kind in named))
        raise InvalidInput(f"the properties name two key generators, {shown}")
    custom = any(":" in name for name in partition_by)
    fitting = inferred_key_generator(record_key, partition_by, custom=custom)
    return named.pop() if named else fitting


def _spelled(partition_by: tuple[str, ...], generator: KeyGeneratorType) -> list[str]:
    """The partition columns as they are stored: with their kinds for a custom generator only."""
    if generator is KeyGeneratorType.CUSTOM:
        return [name if ":" in name else f"{name}:SIMPLE" for name in partition_by]
    kinds = [name for name in partition_by if ":" in name]
    if kinds:
        raise InvalidInput(
            f"partition column {kinds[0]!r} names its kind, which only key generator CUSTOM "
            f"takes, not {generator.value}"
        )
    return list(partition_by)


def _merge_mode(given: Mapping[str, str], ordering: tuple[str, ...]) -> str:
    """How versions of a record merge: by the given mode, by a payload class, or by the default."""
    fitting = MergeMode.EVENT_TIME_ORDERING if ordering else MergeMode.COMMIT_TIME_ORDERING
    payload = next((name for name in _PAYLOAD_NAMES if given.get(name)), None)
    if payload is not None:
        meant = payload_mode(given[payload])
        if meant is MergeMode.CUSTOM:
            raise UnsupportedFeature(f"{payload}={given[payload][:200]}")
        fitting = meant if ordering else fitting
    mode = next((given[name] for name in _MODE_NAMES if given.get(name)), fitting.value)
    return mode.strip().upper()


def _merging(given: Mapping[str, str], ordering: tuple[str, ...]) -> dict[str, str]:
    mode = _merge_mode(given, ordering)
    if mode not in (MergeMode.EVENT_TIME_ORDERING.value, MergeMode.COMMIT_TIME_ORDERING.value):
        raise UnsupportedFeature(f"{keys.MERGE_MODE}={mode[:80]}")
    if mode == MergeMode.EVENT_TIME_ORDERING.value and not ordering:
        raise InvalidInput(f"{keys.MERGE_MODE}={mode} needs ordering columns")
    found = {keys.MERGE_MODE: mode}
    if ordering:
        found[keys.ORDERING_FIELDS] = ",".join(ordering)
    return found


def _avro_name(name: str) -> str:
    """The table's name in Avro, where Hudi writes two underscores for what cannot stand there."""
    clean = _NOT_IN_AVRO.sub("__", name)
    return f"__{clean[1:]}" if clean[0].isdigit() else clean
