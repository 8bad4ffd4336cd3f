"""A table's properties, typed: what `.hoodie/hoodie.properties` says about the table.

A missing key has Hudi's default. What lakedex cannot read is refused when it is needed, so that
a table can be inspected even if its rows cannot be merged; only the version is refused at once.

The merge mode says which of two versions of a record wins. Version 8 and later name it; before
that it follows from the payload class, else from the merge strategy id, else from whether there is
an ordering field. Version 6 tables of Hudi 0.15 carry `OverwriteWithLatestAvroPayload` beside the
event-time strategy id: there the payload decides, as it does in Hudi 1.x, so the later write wins.
A mode that needs JVM code, or a merge of single columns, is `CUSTOM`; such a table can still be
opened, and what needs no merge can be read.

The key generator is known by its type, by the name of a JVM class, or by its fields. Tables of
version 8 and later have the type, older ones the class, which is only looked up by its name: no
class is ever loaded.

Paths in properties are relative, without `.`, `..` or empty parts and without a scheme, because
whoever can write `hoodie.properties` must not be able to direct a reader outside of the table.

Metadata partitions that only lakedex has are listed in a property of their own, which Hudi keeps
and ignores, so that other engines neither write to them nor read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeVar

from lakedex.config import keys
from lakedex.errors import CorruptFile, InvalidInput, UnsafePath, UnsupportedFeature


def inside_table(value: str, *, key: str) -> str:
    """The path as it is when it stays inside the table.

    Example:
        >>> inside_table(".hoodie/.index_defs/index.json", key="hoodie.table.index.defs.path")
        '.hoodie/.index_defs/index.json'

    Raises:
        UnsafePath: the path is empty, absolute, has a scheme, or climbs.
    """
    path = value.strip()
    parts = path.split("/")
    unsafe = any(part in ("", ".", "..") for part in parts) or any(
        char in path for char in ("\\", "\0")
    )
    if unsafe or ":" in parts[0]:
        raise UnsafePath(f"{key}={value[:200]!r} does not name a place inside the table")
    return path


COMPOSITE_PREFIX: Final = "secondary_index_composite-"
"""How the partition of a secondary index on several columns begins: no name that an index is given
has such a mark, so that none is taken for one of these."""
OWN_EXPRESSION_PREFIX: Final = "expr_index_own-"
"""The same of an index on an expression that Hudi has no name for."""
ASYNC_SECONDARY_PREFIX: Final = "secondary_index_async-"
"""The same of a secondary index that writers do not maintain: Hudi would take it for complete."""


def is_own_partition(name: str) -> bool:
    """Whether a metadata partition is one that other engines do not know.

    Example:
        >>> is_own_partition("secondary_index_composite-i"), is_own_partition("secondary_index_i")
        (True, False)
    """
    return name.startswith((COMPOSITE_PREFIX, OWN_EXPRESSION_PREFIX, ASYNC_SECONDARY_PREFIX))


def split_partitions(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Metadata partitions that all engines know, and those that lakedex alone does.

    Example:
        >>> split_partitions(["files", "secondary_index_composite-i"])
        (['files'], ['secondary_index_composite-i'])
    """
    listed = [name for name in names if name]
    own = [name for name in listed if is_own_partition(name)]
    return [name for name in listed if not is_own_partition(name)], own


_STRATEGY_FIRST_VERSION = 8


class MergeMode(Enum):
    """How two versions of one record merge; the values are Hudi's names."""

    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


@dataclass(frozen=True, slots=True)
class MergeRule:
    """A merge mode and, when it is `CUSTOM`, the payload class or setting that requires it."""

    mode: MergeMode
    custom_payload: str | None = None


_PAYLOADS = {
    keys.DEFAULT_PAYLOAD: MergeMode.EVENT_TIME_ORDERING,
    keys.EVENT_TIME_PAYLOAD: MergeMode.EVENT_TIME_ORDERING,
    keys.OVERWRITE_PAYLOAD: MergeMode.COMMIT_TIME_ORDERING,
}


def payload_mode(payload: str) -> MergeMode:
    """The mode that a payload class of Hudi means; CUSTOM for one that is code of its own.

    Example:
        >>> payload_mode("org.apache.hudi.common.model.OverwriteWithLatestAvroPayload").value
        'COMMIT_TIME_ORDERING'
    """
    return _PAYLOADS.get(payload.strip(), MergeMode.CUSTOM)


_STRATEGIES = {
    keys.EVENT_TIME_STRATEGY_ID: MergeMode.EVENT_TIME_ORDERING,
    keys.COMMIT_TIME_STRATEGY_ID: MergeMode.COMMIT_TIME_ORDERING,
}


def resolve_merge_rule(
    props: Mapping[str, str], *, version: int, has_ordering_fields: bool
) -> MergeRule:
    """The merge rule of a table with these properties.

    Example:
        >>> payload = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
        >>> props = {"hoodie.compaction.payload.class": payload}
        >>> resolve_merge_rule(props, version=6, has_ordering_fields=True).mode.value
        'COMMIT_TIME_ORDERING'

    Raises:
        UnsupportedFeature: the merge mode is not one of the three that Hudi has.
    """
    refused = _refused_setting(props)
    if refused is not None:
        return MergeRule(MergeMode.CUSTOM, refused)
    explicit = props.get(keys.MERGE_MODE, "").strip().upper()
    if explicit and explicit not in MergeMode.__members__:
        raise UnsupportedFeature(f"{keys.MERGE_MODE}={explicit}", table_version=version)
    rule = MergeRule(MergeMode(explicit)) if explicit else None
    if rule is None or rule.mode is MergeMode.CUSTOM:
        rule = _inferred(props, version=version, custom=rule is not None)
    if rule is None:
        rule = MergeRule(MergeMode.EVENT_TIME_ORDERING)
    if rule.mode is MergeMode.EVENT_TIME_ORDERING and not has_ordering_fields:
        return MergeRule(MergeMode.COMMIT_TIME_ORDERING)
    return rule


def _refused_setting(props: Mapping[str, str]) -> str | None:
    """The setting that changes single columns or marks deletes in a way of its own, if any."""
    partial = props.get(keys.PARTIAL_UPDATE_MODE, "").strip()
    if partial and partial.upper() != "NONE":
        return f"{keys.PARTIAL_UPDATE_MODE}={partial}"
    return next((key for key in sorted(props) if key.startswith(keys.MERGE_PROPERTY_PREFIX)), None)


def _inferred(props: Mapping[str, str], *, version: int, custom: bool) -> MergeRule | None:
    """The rule that payload class and strategy id give; `None` when neither is there."""
    payload = props.get(keys.PAYLOAD_CLASS, "").strip()
    strategy = next((props[key] for key in keys.MERGE_STRATEGY_ID_NAMES if props.get(key)), "")
    strategy = strategy.strip().lower()
    by_payload = _PAYLOADS.get(payload, MergeMode.CUSTOM) if payload else None
    by_strategy = _STRATEGIES.get(strategy) if strategy else None
    if payload and (custom or strategy == keys.PAYLOAD_STRATEGY_ID):
        known = strategy in ("", keys.PAYLOAD_STRATEGY_ID) or by_strategy is not None
        first = by_payload if known else MergeMode.CUSTOM
    elif custom:
        first = MergeMode.CUSTOM
    elif version == _STRATEGY_FIRST_VERSION:
        first = by_strategy or by_payload
    else:
        first = by_payload or by_strategy
    if first is None:
        first = MergeMode.CUSTOM if strategy else None
    if first is None:
        return None
    named = payload or strategy or "a custom record merger"
    return MergeRule(first, named if first is MergeMode.CUSTOM else None)


LAYOUT_OF_VERSION = MappingProxyType({6: 1, 8: 2, 9: 2})
_READABLE_FORMATS = ("PARQUET",)
_FIRST_VERSION_OF_LAYOUT_2 = 8
_PLAIN_FORMATS = MappingProxyType({keys.TABLE_FORMAT: "native", keys.LOG_FILE_FORMAT: "hoodie_log"})
"""Properties that can only have one value: with another one timeline or files would be
elsewhere."""
_MOST_DIGITS = 9
_Member = TypeVar("_Member", bound=Enum)


class TableType(Enum):
    """Whether updates rewrite base files or are appended to log files."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class TimelineZone(Enum):
    """The zone in which instant times are written: that of the process, or UTC."""

    LOCAL = "LOCAL"
    UTC = "UTC"


@dataclass(frozen=True, slots=True)
class TableConfig:
    """The properties of one table.

    `timeline_folder`, `history_folder` and `archive_folder` are relative to the table's root.
    `partition_kinds` goes with `partition_fields`: `simple`, or `timestamp` where a custom key
    generator formats the value. `raw` has every property as it is in the file.

    Example:
        >>> config = TableConfig.from_properties(
        ...     {"hoodie.table.name": "t", "hoodie.table.version": "9"}, "hoodie.properties")
        >>> config.timeline_folder, config.table_type.value
        ('.hoodie/timeline', 'COPY_ON_WRITE')
    """

    name: str
    database: str | None
    version: int
    timeline_layout: int
    table_type: TableType
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    partition_kinds: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    merge_mode: MergeMode
    custom_payload: str | None
    keygen_type: str | None
    keygen_class: str | None
    hive_style_partitioning: bool
    url_encode_partitioning: bool
    drop_partition_columns: bool
    slash_separated_dates: bool
    """Whether the dashes of a partition value are slashes in its path."""
    populate_meta_fields: bool
    base_file_format: str
    partition_metafile_in_base_format: bool
    timeline_folder: str
    history_folder: str
    archive_folder: str
    timezone: TimelineZone
    metadata_partitions: tuple[str, ...]
    metadata_partitions_inflight: tuple[str, ...]
    index_defs_path: str | None
    create_schema: str | None
    cdc_enabled: bool
    cdc_logging_mode: str
    timebased_keygen: Mapping[str, str] = field(repr=False)
    raw: Mapping[str, str] = field(repr=False)

    @property
    def dropped_columns(self) -> tuple[str, ...]:
        """The columns that files leave out because partition paths have their values."""
        return self.partition_fields if self.drop_partition_columns else ()

    @classmethod
    def from_properties(cls, props: Mapping[str, str], path: str) -> TableConfig:
        """The typed form of `props`, which were read from `path`.

        A missing timeline layout is the one that fits the version: 1 for 6, 2 for 8 and 9.

        Raises:
            CorruptFile: name or version is missing, or a value is not of its kind.
            UnsupportedFeature: another version, a layout that does not fit it, or a table or log
                format of another kind.
            UnsafePath: a folder property leaves the table.
        """
        read = _Reader(props, path)
        version, layout = _version_and_layout(read)
        ordering = next(
            (read.names(key) for key in keys.ORDERING_FIELD_NAMES if props.get(key)), ()
        )
        merge = resolve_merge_rule(props, version=version, has_ordering_fields=bool(ordering))
        partitions = [part.partition(":") for part in read.names(keys.PARTITION_FIELDS)]
        timeline = f"{keys.META_FOLDER}/{read.folder(keys.TIMELINE_PATH, 'timeline')}"
        return cls(
            name=read.required(keys.TABLE_NAME),
            database=read.text(keys.DATABASE_NAME),
            version=version,
            timeline_layout=layout,
            table_type=read.member(keys.TABLE_TYPE, TableType.COPY_ON_WRITE),
            record_key_fields=read.names(keys.RECORD_KEY_FIELDS),
            partition_fields=tuple(name for name, _, _ in partitions),
            partition_kinds=tuple(kind.lower() or "simple" for _, _, kind in partitions),
            ordering_fields=ordering,
            merge_mode=merge.mode,
            custom_payload=merge.custom_payload,
            keygen_type=read.text(keys.KEY_GENERATOR_TYPE),
            keygen_class=read.text(keys.KEY_GENERATOR_CLASS),
            hive_style_partitioning=read.flag(keys.HIVE_STYLE_PARTITIONING),
            url_encode_partitioning=read.flag(keys.URL_ENCODE_PARTITIONING),
            drop_partition_columns=read.flag(keys.DROP_PARTITION_COLUMNS),
            slash_separated_dates=read.flag(keys.SLASH_SEPARATED_DATES),
            populate_meta_fields=read.flag(keys.POPULATE_META_FIELDS, default=True),
            base_file_format=_base_file_format(read),
            partition_metafile_in_base_format=read.flag(keys.PARTITION_METAFILE_USE_BASE_FORMAT),
            timeline_folder=timeline if layout > 1 else keys.META_FOLDER,
            history_folder=f"{timeline}/{read.folder(keys.TIMELINE_HISTORY_PATH, 'history')}",
            archive_folder=_archive_folder(read),
            timezone=read.member(keys.TIMELINE_TIMEZONE, TimelineZone.LOCAL),
            metadata_partitions=_metadata_partitions(
                read, keys.METADATA_PARTITIONS, keys.OWN_METADATA_PARTITIONS
            ),
            metadata_partitions_inflight=_metadata_partitions(
                read, keys.METADATA_PARTITIONS_INFLIGHT, keys.OWN_METADATA_PARTITIONS_INFLIGHT
            ),
            index_defs_path=_index_defs_path(read),
            create_schema=read.text(keys.CREATE_SCHEMA),
            cdc_enabled=read.flag(keys.CDC_ENABLED),
            cdc_logging_mode=(read.text(keys.CDC_LOGGING_MODE) or "data_before_after").lower(),
            timebased_keygen=_timebased_keygen(props),
            raw=dict(props),
        )

    @property
    def own_metadata_partitions(self) -> tuple[str, ...]:
        """Those of the metadata partitions that other engines do not know."""
        return tuple(name for name in self.metadata_partitions if is_own_partition(name))

    @property
    def is_partitioned(self) -> bool:
        """Whether rows are in partition folders."""
        return bool(self.partition_fields)

    @property
    def is_metadata_table(self) -> bool:
        """Whether this is the metadata table of another table."""
        return self.raw.get(keys.PAYLOAD_CLASS) == keys.METADATA_PAYLOAD

    @property
    def made_with_layout_2(self) -> bool:
        """Whether version 8 or a later one made the table.

        Then all instants have completion times, and all log files the instants that wrote them.
        """
        initial = self.raw.get(keys.TABLE_INITIAL_VERSION, "")
        return initial.isdecimal() and int(initial) >= _FIRST_VERSION_OF_LAYOUT_2

    @property
    def metadata_enabled(self) -> bool:
        """Whether the table has a metadata table that readers may use."""
        return "files" in self.metadata_partitions

    def require_known_merge(self) -> MergeMode:
        """The merge mode, for a reader that is about to merge log records.

        Raises:
            UnsupportedFeature: merging would need JVM code or a merge of single columns.
        """
        if self.merge_mode is MergeMode.CUSTOM:
            feature = f"merging records by {self.custom_payload}"
            raise UnsupportedFeature(feature, table_version=self.version)
        return self.merge_mode

    def require_readable_base_files(self) -> str:
        """The base file format, for a reader that is about to open base files.

        Raises:
            UnsupportedFeature: the format is not Parquet, or files are not what they are elsewhere.
        """
        if self.base_file_format not in _READABLE_FORMATS:
            feature = f"base file format {self.base_file_format}"
            raise UnsupportedFeature(feature, table_version=self.version)
        if self.raw.get(keys.BOOTSTRAP_BASE_PATH):
            feature = f"a bootstrapped table ({keys.BOOTSTRAP_BASE_PATH})"
            raise UnsupportedFeature(feature, table_version=self.version)
        return self.base_file_format


@dataclass(frozen=True, slots=True)
class _Reader:
    """Properties with typed access; errors name the file."""

    props: Mapping[str, str]
    path: str

    def text(self, key: str) -> str | None:
        """The value without blanks around it; `None` when missing or empty."""
        return self.props.get(key, "").strip() or None

    def required(self, key: str) -> str:
        """The value of a key that every table must have."""
        value = self.text(key)
        if value is None:
            raise CorruptFile(self.path, 0, expected=f"the property {key}", actual="none")
        return value

    def number(self, key: str, value: str) -> int:
        """A value that must be a small whole number."""
        if not (value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS):
            raise CorruptFile(self.path, 0, expected=f"a number for {key}", actual=repr(value[:80]))
        return int(value)

    def names(self, key: str) -> tuple[str, ...]:
        """A comma list without its empty entries."""
        return tuple(name.strip() for name in self.props.get(key, "").split(",") if name.strip())

    def flag(self, key: str, *, default: bool = False) -> bool:
        """A boolean; like in Hudi everything but `true` is false."""
        value = self.text(key)
        return default if value is None else value.lower() == "true"

    def member(self, key: str, default: _Member) -> _Member:
        """A member of the enum of `default`, by its name in any case."""
        value = self.text(key)
        if value is None:
            return default
        for member in type(default):
            if member.name == value.upper():
                return member
        names = ", ".join(member.name for member in type(default))
        raise CorruptFile(self.path, 0, expected=f"{key} of {names}", actual=repr(value[:80]))

    def folder(self, key: str, default: str) -> str:
        """A folder name that cannot climb."""
        return inside_table(self.text(key) or default, key=key)


def _version_and_layout(read: _Reader) -> tuple[int, int]:
    """Table version and timeline layout, which must fit each other."""
    version = read.number(keys.TABLE_VERSION, read.required(keys.TABLE_VERSION))
    fitting = LAYOUT_OF_VERSION.get(version)
    if fitting is None:
        raise UnsupportedFeature(f"{keys.TABLE_VERSION}={version}", table_version=version)
    stored = read.text(keys.TIMELINE_LAYOUT_VERSION)
    layout = fitting if stored is None else read.number(keys.TIMELINE_LAYOUT_VERSION, stored)
    if layout != fitting:
        feature = f"{keys.TIMELINE_LAYOUT_VERSION}={layout}"
        raise UnsupportedFeature(feature, table_version=version)
    for name, plain in _PLAIN_FORMATS.items():
        value = read.text(name)
        if value is not None and value.lower() != plain:
            raise UnsupportedFeature(f"{name}={value[:80]}", table_version=version)
    return version, layout


def _archive_folder(read: _Reader) -> str:
    """The archive of layout 1; the property was empty in the oldest tables."""
    if read.props.get(keys.ARCHIVELOG_FOLDER, "archived").strip() == "":
        return keys.META_FOLDER
    return f"{keys.META_FOLDER}/{read.folder(keys.ARCHIVELOG_FOLDER, 'archived')}"


def _base_file_format(read: _Reader) -> str:
    value = read.text(keys.BASE_FILE_FORMAT) or read.text(keys.BASE_FILE_FORMAT_OLD)
    return (value or "PARQUET").upper()


def _metadata_partitions(read: _Reader, known: str, own: str) -> tuple[str, ...]:
    """Those that all engines know, then those that lakedex alone does."""
    # Without the files there is no metadata table: another engine took it away, with all in it.
    is_there = "files" in read.names(keys.METADATA_PARTITIONS)
    return (*read.names(known), *(read.names(own) if is_there else ()))


def _index_defs_path(read: _Reader) -> str | None:
    value = read.text(keys.INDEX_DEFS_PATH)
    return None if value is None else inside_table(value, key=keys.INDEX_DEFS_PATH)


def _timebased_keygen(props: Mapping[str, str]) -> Mapping[str, str]:
    """Options of the timestamp key generator by their last name part, new names winning."""
    found: dict[str, str] = {}
    for prefix in (keys.TIMEBASED_KEYGEN_PREFIX_OLD, keys.TIMEBASED_KEYGEN_PREFIX):
        found |= {
            key.removeprefix(prefix): value
            for key, value in props.items()
            if key.startswith(prefix)
        }
    return found


_CLASS_PACKAGE = "org.apache.hudi.keygen."
_AVRO = "_AVRO"


class KeyGeneratorType(Enum):
    """How record keys and partition paths are spelled; the values are Hudi's names."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"


_CLASSES = {
    "SimpleKeyGenerator": KeyGeneratorType.SIMPLE,
    "SimpleAvroKeyGenerator": KeyGeneratorType.SIMPLE,
    "ComplexKeyGenerator": KeyGeneratorType.COMPLEX,
    "ComplexAvroKeyGenerator": KeyGeneratorType.COMPLEX,
    "NonpartitionedKeyGenerator": KeyGeneratorType.NON_PARTITION,
    "NonpartitionedAvroKeyGenerator": KeyGeneratorType.NON_PARTITION,
    "TimestampBasedKeyGenerator": KeyGeneratorType.TIMESTAMP,
    "TimestampBasedAvroKeyGenerator": KeyGeneratorType.TIMESTAMP,
    "CustomKeyGenerator": KeyGeneratorType.CUSTOM,
    "CustomAvroKeyGenerator": KeyGeneratorType.CUSTOM,
}
_KNOWN_TO_HUDI = frozenset(
    {
        "GLOBAL_DELETE",
        "HOODIE_TABLE_METADATA",
        "SPARK_SQL",
        "SPARK_SQL_UUID",
        "SPARK_SQL_MERGE_INTO",
        "USER_PROVIDED",
        "AUTO_RECORD",
    }
)


def parse_key_generator(text: str) -> KeyGeneratorType:
    """The key generator of a type or of a class name.

    Example:
        >>> parse_key_generator("org.apache.hudi.keygen.ComplexKeyGenerator").value
        'COMPLEX'
        >>> parse_key_generator("simple_avro").value
        'SIMPLE'

    Raises:
        UnsupportedFeature: Hudi has such a generator, or it is a class of the user.
        InvalidInput: there is no such type.
    """
    name = text.strip()
    if name.startswith(_CLASS_PACKAGE) and name.removeprefix(_CLASS_PACKAGE) in _CLASSES:
        return _CLASSES[name.removeprefix(_CLASS_PACKAGE)]
    kind = name.upper().removesuffix(_AVRO)
    if kind in KeyGeneratorType.__members__:
        return KeyGeneratorType[kind]
    if kind in _KNOWN_TO_HUDI or "." in name:
        raise UnsupportedFeature(f"the key generator {name[:200]}")
    known = ", ".join(KeyGeneratorType.__members__)
    raise InvalidInput(f"no key generator is called {name[:200]!r}; there are {known}")


def inferred_key_generator(
    record_key: Sequence[str], partition_by: Sequence[str], *, custom: bool = False
) -> KeyGeneratorType:
    """The key generator that Hudi takes for such fields when none is named.

    Example:
        >>> inferred_key_generator(["id"], ["day"]).value
        'SIMPLE'
    """
    if not partition_by:
        return KeyGeneratorType.NON_PARTITION
    if custom:
        return KeyGeneratorType.CUSTOM
    one_each = len(record_key) == len(partition_by) == 1
    return KeyGeneratorType.SIMPLE if one_each else KeyGeneratorType.COMPLEX
