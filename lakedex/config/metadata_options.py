"""Which partitions the metadata table of a table is to have, and how they are laid out.

A partition that exists stays: an option that would drop one is refused, an option that is not
given drops nothing. A requested partition that is missing is built by the next write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from lakedex.config import write_option_names as options
from lakedex.config.option_check import did_you_mean
from lakedex.config.option_values import FlagOption, NumberOption
from lakedex.config.table_config import TableConfig
from lakedex.config.write_index import WriteIndex
from lakedex.errors import InvalidInput

FILES, COLUMN_STATS, PARTITION_STATS = "files", "column_stats", "partition_stats"
BLOOM_FILTERS, RECORD_INDEX = "bloom_filters", "record_index"


class RecordIndexScope(Enum):
    """Whether the record index knows keys of the whole table, or of each partition by itself."""

    GLOBAL = "global"
    PARTITIONED = "partitioned"


@dataclass(frozen=True, slots=True)
class IndexRoom:
    """The size of the file groups of an index of record keys, where options set it."""

    growth: float | None = None
    """How many times as many keys the file groups are made for."""
    group_bytes: int | None = None
    """The size that a file group is not to exceed."""

    @classmethod
    def resolve(cls, settings: Mapping[str, str]) -> IndexRoom:
        """The options by their names.

        Raises:
            InvalidInput: a value is wrong.
        """
        return cls(
            options.RECORD_INDEX_GROWTH.value_if_given(settings),
            options.RECORD_INDEX_GROUP_SIZE.value_if_given(settings),
        )


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """What a write keeps in the metadata table."""

    partitions: tuple[str, ...]
    """All partitions that this write keeps, sorted; empty when there is no metadata table."""
    record_index: RecordIndexScope | None
    stat_columns: tuple[str, ...]
    """The columns that column_stats is to have at least; empty means the first
    `most_stat_columns` of the table. What it has of others it keeps."""
    most_stat_columns: int
    column_stats_groups: int | None
    """None where the table's columns and files decide on it."""
    partition_stats_groups: int
    bloom_filter_groups: int
    record_index_groups: tuple[int, int]
    """The least and the largest number of file groups (per partition, if partitioned)."""
    record_index_room: IndexRoom
    compact_after: int
    """The number of delta commits after which the metadata table is compacted."""
    log_compact_after: int | None
    """The number of log blocks of a file group after which they become one; None for never."""
    expression_zones: Mapping[str, str]
    """The time zones that expression indexes are computed in, by index."""
    session_zone: str
    """The zone for those that nothing is noted of; empty where the writer does not say one."""
    adds_stat_columns: bool = False
    """Whether `most_stat_columns` is another number than that of the writes before."""

    @property
    def enabled(self) -> bool:
        """Whether there is a metadata table."""
        return bool(self.partitions)

    def has(self, partition: str) -> bool:
        """Whether a partition is kept."""
        return partition in self.partitions

    def check_columns(
        self, columns: Collection[str], kept: Mapping[str, str] | None = None
    ) -> None:
        """Refuse a list of columns with statistics that names one the table does not have.

        Args:
            columns: Those of the table.
            kept: The settings of the table; a column of theirs may have been dropped since.

        Raises:
            InvalidInput: naming the option and the column.
        """
        option = options.COLUMN_STATS_COLUMNS
        for name in self.stat_columns:
            if name not in columns and name not in option.value(kept or {}):
                hint = did_you_mean(name, columns)
                raise InvalidInput(
                    f"{option.name} names {name!r}, which is no column of the table{hint}"
                )

    def layout(self, partition: str) -> dict[str, str]:
        """The settings that a partition is built with, by the names of their options."""
        if partition == COLUMN_STATS:
            groups = self.column_stats_groups
            return {
                options.COLUMN_STATS_COLUMNS.name: ",".join(self.stat_columns),
                options.COLUMN_STATS_MOST_COLUMNS.name: str(self.most_stat_columns),
                **({} if groups is None else {options.COLUMN_STATS_GROUPS.name: str(groups)}),
            }
        if partition == PARTITION_STATS:
            return {options.PARTITION_STATS_GROUPS.name: str(self.partition_stats_groups)}
        if partition == BLOOM_FILTERS:
            return {options.BLOOM_FILTER_GROUPS.name: str(self.bloom_filter_groups)}
        if partition == RECORD_INDEX and self.record_index is not None:
            least, most = _count_options(self.record_index)
            low, high = self.record_index_groups
            return {least.name: str(low), most.name: str(high)}
        return {}


def resolve_metadata(
    config: TableConfig,
    settings: Mapping[str, str],
    given: Mapping[str, str],
    index: WriteIndex,
    *,
    record_index_partitioned: bool | None,
    is_windowed: bool = False,
) -> MetadataOptions:
    """The metadata options of one write; `settings` are the kept ones with the given over them.

    A windowed record index is no part of the metadata table, but kept in step with it.

    Raises:
        InvalidInput: an option would drop a partition, or two options contradict each other.
    """
    existing = {*config.metadata_partitions}
    enabled = options.METADATA_ENABLE.value(settings)
    if not enabled and existing:
        raise InvalidInput(
            f"{options.METADATA_ENABLE.name}=false would drop the metadata table of {config.name}"
        )
    scope = _record_index_scope(
        config,
        settings,
        given,
        None if is_windowed else index,
        partitioned=record_index_partitioned,
    )
    if not enabled and (scope is not None or is_windowed):
        raise InvalidInput(f"{options.METADATA_ENABLE.name}=false excludes a record index")
    wanted = _partitions(config, settings, given, scope) if enabled else set()
    if scope is RecordIndexScope.PARTITIONED and not config.is_partitioned:
        raise InvalidInput(f"table {config.name} has no partitions for {index.value} to go by")
    counts = record_index_bounds(settings, scope)
    return MetadataOptions(
        partitions=tuple(sorted(wanted | existing)),
        record_index=scope,
        stat_columns=options.COLUMN_STATS_COLUMNS.value(settings),
        most_stat_columns=options.COLUMN_STATS_MOST_COLUMNS.value(settings),
        column_stats_groups=options.COLUMN_STATS_GROUPS.value_if_given(settings),
        partition_stats_groups=options.PARTITION_STATS_GROUPS.value(settings),
        bloom_filter_groups=options.BLOOM_FILTER_GROUPS.value(settings),
        record_index_groups=counts,
        record_index_room=IndexRoom.resolve(settings),
        compact_after=options.METADATA_COMPACT_AFTER.value(settings),
        log_compact_after=_log_compact_after(settings),
        expression_zones=expression_zones(settings),
        session_zone=options.EXPRESSION_TIME_ZONE.text(settings),
    )


def record_index_bounds(
    settings: Mapping[str, str], scope: RecordIndexScope | None = None
) -> tuple[int, int]:
    """The least and the greatest number of file groups of an index of record keys.

    Raises:
        InvalidInput: they contradict each other.
    """
    least, most = _count_options(scope)
    low, high = least.value(settings), most.value(settings)
    # Of two limits of which one was chosen, the default of the other gives way.
    if most.given(settings) is None:
        high = max(low, high)
    elif least.given(settings) is None:
        low = min(low, high)
    if low > high:
        raise InvalidInput(f"{least.name}={low} is more than {most.name}={high}")
    return low, high


def without_drops(config: TableConfig, session: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session, but for those that switch off what a table has.

    They are said once for all tables, of which some have the index. It stays and is kept up.
    """
    existing = {*config.metadata_partitions}
    off = {options.METADATA_ENABLE: bool(existing), options.COLUMN_STATS: COLUMN_STATS in existing}
    off |= {options.PARTITION_STATS: PARTITION_STATS in existing}
    off |= {options.BLOOM_FILTERS: BLOOM_FILTERS in existing}
    scopes = (options.GLOBAL_RECORD_INDEX, options.PARTITIONED_RECORD_INDEX)
    off |= dict.fromkeys(scopes, RECORD_INDEX in existing)
    kept = {name for option, is_there in off.items() if is_there for name in option.names}
    return {
        name: value
        for name, value in session.items()
        if name not in kept or value.strip().lower() != "false"
    }


def zone_setting(index: str) -> str:
    """The name under which a table keeps the time zone of an expression index.

    Example:
        >>> zone_setting("expr_index_day")
        'lakedex.expression.time.zone.expr_index_day'
    """
    return f"{options.EXPRESSION_TIME_ZONE.name}.{index}"


def expression_zones(settings: Mapping[str, str]) -> dict[str, str]:
    """The time zones of expression indexes in the settings, by index."""
    start = zone_setting("")
    return {
        name.removeprefix(start): zone for name, zone in settings.items() if name.startswith(start)
    }


def _partitions(
    config: TableConfig,
    settings: Mapping[str, str],
    given: Mapping[str, str],
    scope: RecordIndexScope | None,
) -> set[str]:
    """What is to be there, by options and defaults."""
    existing = {*config.metadata_partitions}
    # A table that has a metadata table keeps what it has; defaults are for one that has none.
    source = settings if not existing else {**_said(settings), **given}

    def requested(option: FlagOption, name: str, *, default: bool) -> bool:
        flag = option.value(source) if option.given(source) is not None else default
        if name in existing and option.given(given) is not None and not option.value(given):
            raise InvalidInput(
                f"{option.name}=false would drop {name} of table {config.name}; drop the index "
                "by name instead"
            )
        return flag

    fresh = not existing
    wanted = {FILES}
    stats = requested(options.COLUMN_STATS, COLUMN_STATS, default=fresh)
    partition_default = stats and (fresh or COLUMN_STATS not in existing)
    partition_stats = requested(options.PARTITION_STATS, PARTITION_STATS, default=partition_default)
    if stats or COLUMN_STATS in existing:
        wanted |= {COLUMN_STATS} if stats else set()
        wanted |= {PARTITION_STATS} if partition_stats and config.is_partitioned else set()
    elif partition_stats and options.PARTITION_STATS.given(given) is not None:
        raise InvalidInput(f"{options.PARTITION_STATS.name}=true needs {options.COLUMN_STATS.name}")
    if requested(options.BLOOM_FILTERS, BLOOM_FILTERS, default=False):
        wanted.add(BLOOM_FILTERS)
    if scope is not None:
        wanted.add(RECORD_INDEX)
    return wanted


def _said(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings without those that say `false`: a partition made since then is there."""
    return {name: value for name, value in settings.items() if value.strip().lower() != "false"}


def _log_compact_after(settings: Mapping[str, str]) -> int | None:
    after = options.METADATA_LOG_COMPACT_AFTER.value(settings)
    # Hudi takes log compaction of the data table as a wish for the metadata table too.
    wanted = options.METADATA_LOG_COMPACT.value(settings) or options.LOG_COMPACT.value(settings)
    return after if wanted else None


def _record_index_scope(
    config: TableConfig,
    settings: Mapping[str, str],
    given: Mapping[str, str],
    index: WriteIndex | None,
    *,
    partitioned: bool | None,
) -> RecordIndexScope | None:
    wanted = _wanted_scope(settings, index)
    if RECORD_INDEX not in config.metadata_partitions:
        return wanted
    stored = RecordIndexScope.PARTITIONED if partitioned else RecordIndexScope.GLOBAL
    if partitioned is None:
        stored = wanted or RecordIndexScope.GLOBAL
    if wanted is not None and wanted is not stored:
        raise InvalidInput(
            f"the table has a {stored.value} record index, the options request a {wanted.value} one"
        )
    own = options.PARTITIONED_RECORD_INDEX
    if stored is RecordIndexScope.GLOBAL:
        own = options.GLOBAL_RECORD_INDEX
    if own.given(given) is not None and not own.value(given):
        raise InvalidInput(f"{own.name}=false would drop the record index; drop it by name instead")
    return stored


def _wanted_scope(settings: Mapping[str, str], index: WriteIndex | None) -> RecordIndexScope | None:
    requested = {
        RecordIndexScope.GLOBAL: options.GLOBAL_RECORD_INDEX.value(settings),
        RecordIndexScope.PARTITIONED: options.PARTITIONED_RECORD_INDEX.value(settings),
    }
    if index is not None and index.uses_record_index:
        own = RecordIndexScope.GLOBAL if index.is_global else RecordIndexScope.PARTITIONED
        requested[own] = True
    wanted = [scope for scope, flag in requested.items() if flag]
    if len(wanted) > 1:
        raise InvalidInput("a table has one record index, either global or per partition")
    return wanted[0] if wanted else None


def _count_options(scope: RecordIndexScope | None) -> tuple[NumberOption, NumberOption]:
    if scope is RecordIndexScope.PARTITIONED:
        return (
            options.PARTITIONED_RECORD_INDEX_LEAST_GROUPS,
            options.PARTITIONED_RECORD_INDEX_MOST_GROUPS,
        )
    return options.GLOBAL_RECORD_INDEX_LEAST_GROUPS, options.GLOBAL_RECORD_INDEX_MOST_GROUPS
