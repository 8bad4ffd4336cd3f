"""The options of one write: what the table keeps, what the caller gave, and Hudi's defaults.

The write index and its parameters and the numbers of file groups belong to the table. They are kept
beside it (`kept()`), and a writer that says otherwise later is refused with both values. The
columns with statistics, by a list or by their number, are kept too, and a later writer may say
others. All other options hold for one write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from lakedex.config import keys
from lakedex.config import write_option_names as options
from lakedex.config.bucket_options import (
    RESIZING,
    BucketOptions,
    ResizeOptions,
    check_no_bucket_options,
)
from lakedex.config.metadata_options import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataOptions,
    RecordIndexScope,
    resolve_metadata,
)
from lakedex.config.option_check import check_options, commit_notes
from lakedex.config.option_values import FlagOption, NumberOption, TextOption, flag_text
from lakedex.config.restated_options import check_restated
from lakedex.config.service_options import (
    ArchivingOptions,
    CleaningOptions,
    LayoutOptions,
    SchedulingOptions,
)
from lakedex.config.table_config import TableConfig
from lakedex.config.write_index import (
    RecordIndexWindow,
    WriteIndex,
    resolve_window,
)
from lakedex.errors import InvalidInput, LakedexError, UnsupportedFeature

_FIXED: tuple[TextOption, ...] = (
    options.SIMPLE_UPDATE_PARTITION,
    options.BLOOM_UPDATE_PARTITION,
    options.RECORD_UPDATE_PARTITION,
    options.RECORD_INDEX_WINDOW_DAYS,
    options.RECORD_INDEX_WINDOW_FORMAT,
    options.RECORD_INDEX_WINDOW_OUTSIDE,
)
"""Settings that a table keeps once they are said, besides the write index."""

_FILE_GROUPS: Mapping[TextOption, str] = {
    options.COLUMN_STATS_GROUPS: COLUMN_STATS,
    options.PARTITION_STATS_GROUPS: PARTITION_STATS,
    options.BLOOM_FILTER_GROUPS: BLOOM_FILTERS,
    options.GLOBAL_RECORD_INDEX_LEAST_GROUPS: RECORD_INDEX,
    options.GLOBAL_RECORD_INDEX_MOST_GROUPS: RECORD_INDEX,
    options.PARTITIONED_RECORD_INDEX_LEAST_GROUPS: RECORD_INDEX,
    options.PARTITIONED_RECORD_INDEX_MOST_GROUPS: RECORD_INDEX,
}
"""Numbers of file groups, which a table keeps from the moment when the index is built."""

_PARTITION_OPTIONS: tuple[tuple[str, FlagOption], ...] = (
    (COLUMN_STATS, options.COLUMN_STATS),
    (PARTITION_STATS, options.PARTITION_STATS),
    (BLOOM_FILTERS, options.BLOOM_FILTERS),
)

_STAT_COLUMNS: tuple[TextOption, ...] = (
    options.COLUMN_STATS_COLUMNS,
    options.COLUMN_STATS_MOST_COLUMNS,
)
"""Which columns have statistics: what the newest write says counts, from then on."""

_NEWEST_COUNTS: tuple[TextOption, ...] = (*_STAT_COLUMNS, *RESIZING)

_FILLING = (options.NULL_FOR_MISSING, options.RECONCILE_SCHEMA, options.DROP_MISSING)


class InsertDuplicates(Enum):
    """What an insert does with rows whose key is in the table already."""

    NONE = "none"
    DROP = "drop"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class BloomOptions:
    """The bloom filters of base files."""

    entries: int | None
    """The number of keys that filters are made for at least; None for those of the file."""
    error_rate: float | None
    """None where it is not set: Hudi's for filters that writers look up, else a looser one."""
    use_metadata: bool
    """Whether lookups use column_stats and bloom_filters before footers."""


@dataclass(frozen=True, slots=True)
class LockOptions:
    """How long a writer waits for others, and when it takes them for dead."""

    wait_ms: int
    retry_wait_ms: int | None
    """The pause between two attempts at a lock that others hold; None for the default."""
    validity_s: int
    renewal_s: int
    heartbeat_ms: int
    heartbeat_misses: int
    looks_early: bool
    """Whether a writer looks for others at work on its file groups before it writes them."""

    @classmethod
    def resolve(cls, settings: Mapping[str, str]) -> LockOptions:
        """The options by their names.

        Raises:
            InvalidInput: a value is wrong, or a lock would be renewed after its end.
        """
        lock = cls(
            wait_ms=options.LOCK_WAIT_MS.value(settings),
            retry_wait_ms=options.LOCK_RETRY_WAIT_MS.value_if_given(settings),
            validity_s=options.LOCK_VALIDITY_S.value(settings),
            renewal_s=options.LOCK_RENEWAL_S.value(settings),
            heartbeat_ms=options.HEARTBEAT_MS.value(settings),
            heartbeat_misses=options.HEARTBEAT_MISSES.value(settings),
            looks_early=options.EARLY_CONFLICTS.value(settings),
        )
        if lock.renewal_s >= lock.validity_s:
            raise InvalidInput(
                f"{options.LOCK_RENEWAL_S.name}={lock.renewal_s} must be less than "
                f"{options.LOCK_VALIDITY_S.name}={lock.validity_s}"
            )
        return lock


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """All options of one write.

    Example:
        >>> config = TableConfig.from_properties(
        ...     {"hoodie.table.name": "t", "hoodie.table.version": "9"}, "hoodie.properties")
        >>> chosen = WriteOptions.resolve(config, {}, {"hoodie.index.type": "BLOOM"})
        >>> chosen.index_type.value, chosen.metadata.partitions
        ('BLOOM', ('column_stats', 'files'))
        >>> WriteOptions.resolve(config, chosen.kept(), {"hoodie.index.type": "SIMPLE"})
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: ...
    """

    index_type: WriteIndex
    update_partition_path: bool
    """Whether a global index moves a record whose partition changed."""
    small_file_limit: int
    max_file_size: int
    compression: str
    """The codec as pyarrow calls it: `snappy`, `gzip`, `zstd`, `lz4` or `none`."""
    combine_before_insert: bool
    insert_duplicates: InsertDuplicates
    merges_inserts: bool
    """Whether an inserted row is merged with the record that has its key, as an upsert does."""
    bloom: BloomOptions
    metadata: MetadataOptions
    layout: LayoutOptions
    scheduling: SchedulingOptions
    lock: LockOptions
    fixed: Mapping[str, str]
    """The settings of `kept()` besides indexes: those ever said, and those of indexes to build."""
    window: RecordIndexWindow | None = None
    """Where the record index knows the newest days only."""
    buckets: BucketOptions | None = None
    """The bucket index, where that is the write index."""
    resizing: ResizeOptions = field(default_factory=ResizeOptions)
    cleaning: CleaningOptions = field(default_factory=CleaningOptions)
    archiving: ArchivingOptions = field(default_factory=ArchivingOptions)
    fills_missing: bool = False
    """Whether columns that the rows leave out are null in them."""
    commit_notes: Mapping[str, str] = field(default_factory=dict)
    """What the commit says besides: the options whose name begins with the prefix for that."""

    @property
    def lookup_index(self) -> WriteIndex:
        """How keys are found that no windowed index knows; else the write index itself."""
        if self.window is None:
            return self.index_type
        return WriteIndex.GLOBAL_BLOOM if self.index_type.is_global else WriteIndex.BLOOM

    @classmethod
    def resolve(
        cls,
        config: TableConfig,
        kept: Mapping[str, str],
        given: Mapping[str, str],
        *,
        record_index_partitioned: bool | None = None,
        column_stats_groups: int | None = None,
        shown_buckets: BucketOptions | None = None,
    ) -> WriteOptions:
        """The options of a write that was given `given` on a table that keeps `kept`.

        `record_index_partitioned` says of which kind an existing record index is, None if it is
        not known, `column_stats_groups` how many file groups the statistics of columns have, None
        where there are none or that is not known, `shown_buckets` the bucket index that the files
        of a table show which keeps none. A table that keeps no write index has that one, else gets
        the given one, else its record index if it has one, else SIMPLE.

        Raises:
            InvalidInput: an unknown name, a wrong value, or one that contradicts the table.
            UnsupportedFeature: an option needs something that lakedex does not have.
        """
        prefix = options.COMMIT_NOTES.text({**kept, **given})
        check_options({options.COMMIT_NOTES.name: prefix, **given})
        for option in options.OBEYED:
            option.given(given)  # refuses one option under two names with two values
        check_restated(config, given)
        if shown_buckets is not None:
            # What the table shows is the same as if it had been kept.
            kept = {
                options.INDEX_TYPE.name: WriteIndex.BUCKET.value,
                **shown_buckets.kept(),
                **kept,
            }
        index = _write_index(config, kept, given, partitioned=record_index_partitioned)
        fixed = _fixed_settings(config, kept, given, column_stats_groups)
        window = resolve_window(config, kept, given, index)
        buckets = None
        if index is WriteIndex.BUCKET:
            buckets = BucketOptions.resolve(config, kept, given)
            fixed |= buckets.kept()
        else:
            check_no_bucket_options({**kept, **given})
        if window is not None:
            fixed |= window.kept()
        elif options.INDEX_TYPE.given(kept) is None:
            _check_record_index(index, given)
        settings = {**by_newest_name(kept), **by_newest_name(given), **fixed}
        metadata = resolve_metadata(
            config,
            settings,
            by_newest_name(given),
            index,
            record_index_partitioned=record_index_partitioned,
            is_windowed=window is not None,
        )
        if _says_another(options.COLUMN_STATS_MOST_COLUMNS, kept, given):
            metadata = replace(metadata, adds_stat_columns=True)
        _check_virtual_keys(config, index, metadata, is_windowed=window is not None)
        for partition in metadata.partitions:
            # How an index that is there was built is not ours to say.
            if partition not in config.metadata_partitions:
                fixed |= metadata.layout(partition)
        moves = _update_option(index)
        if index.is_global:
            fixed[moves.name] = flag_text(moves.value(settings))
        return cls(
            index_type=index,
            update_partition_path=moves.value(settings),
            small_file_limit=options.SMALL_FILE_LIMIT.value(settings),
            max_file_size=options.MAX_FILE_SIZE.value(settings),
            compression=_codec(settings),
            combine_before_insert=options.COMBINE_BEFORE_INSERT.value(settings)
            # The older of two options for inserts also reduces the rows, as in Hudi.
            or options.DROP_DUPLICATES.value(settings),
            insert_duplicates=_insert_duplicates(settings),
            merges_inserts=not options.ALLOW_DUPLICATE_INSERTS.value(settings),
            bloom=_bloom(settings),
            metadata=metadata,
            layout=LayoutOptions.resolve(settings),
            scheduling=SchedulingOptions.resolve(settings),
            lock=LockOptions.resolve(settings),
            fixed=fixed,
            window=window,
            buckets=buckets,
            resizing=ResizeOptions.resolve(settings, given),
            cleaning=CleaningOptions.resolve(settings),
            archiving=ArchivingOptions.resolve(settings),
            fills_missing=any(option.value(settings) for option in _FILLING),
            commit_notes=commit_notes(settings, given),
        )

    def with_stat_columns(self, names: Sequence[str]) -> WriteOptions:
        """The same for a table that from now on keeps statistics of these columns."""
        metadata = replace(self.metadata, stat_columns=tuple(names))
        listed = {options.COLUMN_STATS_COLUMNS.name: ",".join(names)}
        return replace(self, metadata=metadata, fixed={**self.fixed, **listed})

    def kept(self) -> dict[str, str]:
        """What the table keeps of these options, for the next writer to be held to."""
        settings = {
            **self.fixed,
            options.INDEX_TYPE.name: self.index_type.value,
            options.METADATA_ENABLE.name: flag_text(self.metadata.enabled),
        }
        for partition, option in _PARTITION_OPTIONS:
            settings[option.name] = flag_text(self.metadata.has(partition))
        for scope, option in (
            (RecordIndexScope.GLOBAL, options.GLOBAL_RECORD_INDEX),
            (RecordIndexScope.PARTITIONED, options.PARTITIONED_RECORD_INDEX),
        ):
            settings[option.name] = flag_text(self.metadata.record_index is scope)
        return dict(sorted(settings.items()))


def _write_index(
    config: TableConfig,
    kept: Mapping[str, str],
    given: Mapping[str, str],
    *,
    partitioned: bool | None,
) -> WriteIndex:
    said, known = options.INDEX_TYPE.given(given), options.INDEX_TYPE.given(kept)
    wanted = WriteIndex.parse(said) if said is not None else None
    if known is None:
        if wanted is not None or RECORD_INDEX not in config.metadata_partitions:
            return wanted or WriteIndex.SIMPLE
        by_partition = WriteIndex.RECORD_LEVEL_INDEX
        return by_partition if partitioned else WriteIndex.GLOBAL_RECORD_LEVEL_INDEX
    stored = WriteIndex.parse(known)
    if wanted is not None and wanted is not stored:
        raise _contradiction(config, options.INDEX_TYPE.name, wanted.value, stored.value)
    return stored


def _check_virtual_keys(
    config: TableConfig, index: WriteIndex, metadata: MetadataOptions, *, is_windowed: bool
) -> None:
    """Refuse indexes of keys for a table without meta columns.

    Its files have no bloom filters, and Hudi's writers leave its record index as it is, so that
    keys would be missing in it. Whether a table has such an index is known when rows are written,
    so that the index can be dropped.
    """
    present = config.metadata_partitions
    if config.populate_meta_fields or (index.uses_record_index and RECORD_INDEX in present):
        return
    wants: str | None = None
    if index not in (WriteIndex.SIMPLE, WriteIndex.GLOBAL_SIMPLE):
        wants = f"{options.INDEX_TYPE.name}={index.value}"
    elif is_windowed:
        wants = options.RECORD_INDEX_WINDOW_DAYS.name
    for name in (BLOOM_FILTERS, RECORD_INDEX):
        if wants is None and metadata.has(name) and name not in present:
            wants = f"the index {name}"
    if wants is not None:
        raise UnsupportedFeature(
            f"{wants} with {keys.POPULATE_META_FIELDS}=false, where Hudi keeps no index of keys "
            f"(use {options.INDEX_TYPE.name}=SIMPLE or GLOBAL_SIMPLE),"
        )


def _check_record_index(index: WriteIndex, given: Mapping[str, str]) -> None:
    """Refuse a write index that goes by a record index which the same options switch off."""
    if not index.uses_record_index:
        return
    own = options.GLOBAL_RECORD_INDEX if index.is_global else options.PARTITIONED_RECORD_INDEX
    if own.given(given) is not None and not own.value(given):
        raise InvalidInput(
            f"{own.name}=false contradicts {options.INDEX_TYPE.name}={index.value}, which finds "
            "keys by that index"
        )


def _fixed_settings(
    config: TableConfig,
    kept: Mapping[str, str],
    given: Mapping[str, str],
    column_stats_groups: int | None,
) -> dict[str, str]:
    """The settings that stay with the table, the kept ones and those said for the first time."""
    found: dict[str, str] = {}
    built = {FILES, *config.metadata_partitions}
    for option in _NEWEST_COUNTS:
        newest = option.given({**kept, **given})
        if newest is not None:
            found[option.name] = newest
    for option in (*_FIXED, *_FILE_GROUPS):
        said, known = option.given(given), option.given(kept)
        if said is not None and _FILE_GROUPS.get(option, FILES) not in built:
            known = None
        stored = known
        if option is options.COLUMN_STATS_GROUPS and column_stats_groups is not None:
            # Whoever built the index need not have said how many: columns and files decide.
            stored = str(column_stats_groups)
        if said is not None and stored is not None and _normal(said) != _normal(stored):
            raise _contradiction(config, option.name, said, stored)
        value = known if known is not None else said
        if value is not None:
            found[option.name] = value
    return found


def _says_another(option: NumberOption, kept: Mapping[str, str], given: Mapping[str, str]) -> bool:
    return option.given(given) is not None and (
        option.given(kept) is None or option.value(given) != option.value(kept)
    )


def _normal(value: str) -> str:
    return ",".join(part.strip() for part in value.lower().split(","))


def _contradiction(config: TableConfig, name: str, wanted: str, stored: str) -> LakedexError:
    return InvalidInput(
        f"{name}={wanted!r} contradicts table {config.name}, which keeps {stored!r}"
    )


def by_newest_name(given: Mapping[str, str]) -> dict[str, str]:
    """Options under the newest of their names."""
    renamed = {old: option.name for option in options.OBEYED for old in option.older_names}
    return {renamed.get(name, name): value for name, value in given.items()}


def _update_option(index: WriteIndex) -> FlagOption:
    if index.uses_record_index:
        return options.RECORD_UPDATE_PARTITION
    is_bloom = index in (WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM)
    return options.BLOOM_UPDATE_PARTITION if is_bloom else options.SIMPLE_UPDATE_PARTITION


_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}


def _codec(settings: Mapping[str, str]) -> str:
    name = options.COMPRESSION.value(settings)
    return _CODECS.get(name, name)


def _insert_duplicates(settings: Mapping[str, str]) -> InsertDuplicates:
    policy = InsertDuplicates(options.INSERT_DUPLICATES.value(settings))
    # An older option for the same thing.
    if policy is InsertDuplicates.NONE and options.DROP_DUPLICATES.value(settings):
        return InsertDuplicates.DROP
    return policy


def _bloom(settings: Mapping[str, str]) -> BloomOptions:
    return BloomOptions(
        entries=options.BLOOM_ENTRIES.value_if_given(settings),
        error_rate=options.BLOOM_ERROR_RATE.value_if_given(settings),
        use_metadata=options.BLOOM_USE_METADATA.value(settings),
    )
