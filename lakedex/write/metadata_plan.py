"""Which metadata partitions a write keeps or makes, and with how many file groups."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lakedex.config.metadata_options import RECORD_INDEX as _RECORD_INDEX
from lakedex.config.metadata_options import IndexRoom, MetadataOptions, RecordIndexScope
from lakedex.errors import IndexUnusable
from lakedex.filegroup import META_COLUMNS
from lakedex.index.builds import BuildPartition, IndexBuild
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.expression.target import PREFIX as EXPRESSION
from lakedex.index.kinds.expression.target import ExpressionTarget
from lakedex.index.kinds.secondary.pairs import PREFIX, SecondaryTarget
from lakedex.table import Snapshot
from lakedex.write.row_size import stored_rows

RECORD_INDEX = _RECORD_INDEX
_ORDER = ("files", "column_stats", "bloom_filters", RECORD_INDEX, "partition_stats")
"""In the order in which Hudi makes them."""
_META_STAT_COLUMNS = (META_COLUMNS[0], META_COLUMNS[3], META_COLUMNS[2])
_MOST_NOTE_BUCKETS = 8
_MOST_BUILD_BUCKETS = 256
"""A build has all pairs of a bucket in memory, so that each gets few shards."""
_EXPRESSION_GROUPS = 2
_STAT_GROUPS = 2
"""What Hudi gives column_stats, however large the table is."""
_COLUMNS_A_GROUP = 10
_LEAST_STATS_A_GROUP = 100_000
_MOST_STATS_A_GROUP = 1_000_000
_ENTRIES_A_SHARD = 500_000
_GROWTH = 4
_ENTRY_BYTES = 48
"""What an entry of the record index takes, by Hudi's estimate."""
_USUAL_ROOM = IndexRoom()


@dataclass(frozen=True)
class MetadataPlan:
    """The metadata table as it is to be after a write; empty `wanted` means none."""

    wanted: tuple[str, ...]
    missing: Mapping[str, int]
    """Partitions to make, with their numbers of file groups."""
    stat_columns: tuple[str, ...]
    """The columns of column_stats, none without it."""
    record_shards: int
    """File groups of the record index (of one data partition, if it is partitioned)."""
    has_partitioned_record_index: bool
    lookup_shards: int
    """File groups of a global record index that is there already; 0 where there is none."""
    secondary: tuple[SecondaryTarget, ...] = ()
    """The secondary indexes that the table has."""
    new_secondary: tuple[SecondaryTarget, ...] = ()
    """Those that this write makes."""
    new_definitions: tuple[IndexDefinition, ...] = ()
    """The definitions of indexes that this write makes."""
    expressions: tuple[ExpressionTarget, ...] = ()
    """The expression indexes that the table has."""
    new_expressions: tuple[ExpressionTarget, ...] = ()
    """Those that this write makes."""
    building: tuple[IndexBuild, ...] = ()
    """The builds of others that this write keeps up to date."""
    async_secondary: tuple[SecondaryTarget, ...] = ()
    """Secondary indexes that a refresh maintains, and no other write."""
    async_expressions: tuple[ExpressionTarget, ...] = ()
    """The same of expression indexes."""
    built_async_expressions: tuple[ExpressionTarget, ...] = ()
    """Those of them that are in the making: their builder reads the rows."""
    new_stat_columns: tuple[str, ...] = ()
    """Those of `stat_columns` that the older files have no ranges of yet."""

    def has(self, partition: str) -> bool:
        """Whether a partition will be there."""
        return partition in self.wanted

    @property
    def has_record_index(self) -> bool:
        """Whether there will be a record index."""
        return RECORD_INDEX in self.wanted

    @property
    def note_buckets(self) -> int:
        """Into how many buckets key notes are put: a task writes the shards of one."""
        return max(1, min(self.record_shards, _MOST_NOTE_BUCKETS))


def plan_metadata(
    snapshot: Snapshot,
    options: MetadataOptions,
    columns: pa.Schema,
    *,
    rows: int,
    new_indexes: Sequence[IndexDefinition] = (),
    refreshed: Collection[str] = (),
) -> MetadataPlan:
    """What the metadata table needs for a write of so many rows.

    Args:
        snapshot: The table.
        options: What its writers want of the metadata table.
        columns: The columns that the write commits.
        rows: How many rows it has.
        new_indexes: Definitions of secondary and expression indexes that the write makes.
        refreshed: Indexes with `maintenance=async` that the write brings up to date.
    """
    present = snapshot.config.metadata_partitions
    parts = {part.name: part for build in snapshot.builds for part in build.partitions}
    there = {*present, *parts}
    # The options may have been chosen before an index came.
    wanted = tuple(name for name in _ORDER if options.has(name) or name in there)
    lagging = _async_names(snapshot, parts)
    kept = sorted(name for name in there - lagging if name.startswith(PREFIX))
    computed = sorted(name for name in there - lagging if name.startswith(EXPRESSION))
    target = partial(_target, snapshot, parts)
    expression = partial(_expression, snapshot, options, columns, parts)
    # One that is not refreshed must not keep a writer from its work, whatever is wrong with it.
    refreshable = sorted(lagging.intersection(refreshed))
    made = [each for each in new_indexes if each.name not in there]
    partitioned = _is_partitioned(snapshot, options, parts)
    shards = lookup_shards = 0
    if RECORD_INDEX in parts:
        shards = parts[RECORD_INDEX].file_groups
    elif RECORD_INDEX in wanted:
        if RECORD_INDEX not in present and not partitioned:
            rows += stored_rows(snapshot)  # all of them get an entry, not only this write's
        room = options.record_index_room
        shards = shards_for(rows, *options.record_index_groups, partitioned=partitioned, room=room)
    if RECORD_INDEX in present and not partitioned and snapshot.metadata is not None:
        lookup_shards = shards = max(1, len(snapshot.metadata.groups(RECORD_INDEX)))
    has_stats = "column_stats" in wanted
    stated = _stat_columns(snapshot, options, columns, parts) if has_stats else ()
    groups = {
        "files": 1,
        "column_stats": options.column_stats_groups
        or stat_groups_for(len(stated), len(snapshot.slices)),
        "partition_stats": options.partition_stats_groups,
        "bloom_filters": options.bloom_filter_groups,
        RECORD_INDEX: shards,
    }
    if made:
        entries = stored_rows(snapshot)
        count = shards_for(
            entries,
            *options.record_index_groups,
            partitioned=False,
            room=options.record_index_room,
        )
        groups |= {
            each.name: _EXPRESSION_GROUPS if each.name.startswith(EXPRESSION) else count
            for each in made
        }
    wanted = (*wanted, *kept, *computed, *(each.name for each in made))
    return MetadataPlan(
        wanted=wanted,
        missing={name: groups[name] for name in wanted if name not in there},
        stat_columns=stated,
        new_stat_columns=_new_stat_columns(snapshot, columns, stated),
        record_shards=shards,
        has_partitioned_record_index=partitioned,
        lookup_shards=lookup_shards,
        secondary=tuple(map(target, kept)),
        async_secondary=tuple(target(name) for name in refreshable if name.startswith(PREFIX)),
        new_secondary=tuple(
            SecondaryTarget.of(each, groups[each.name], _MOST_BUILD_BUCKETS)
            for each in made
            if each.name.startswith(PREFIX)
        ),
        new_definitions=tuple(made),
        expressions=tuple(map(expression, computed)),
        async_expressions=tuple(
            expression(name) for name in refreshable if name.startswith(EXPRESSION)
        ),
        built_async_expressions=tuple(
            expression(name) for name in sorted(lagging & {*parts}) if name.startswith(EXPRESSION)
        ),
        new_expressions=tuple(
            # Who makes one says in which zone; what is noted is of one of that name that is gone.
            ExpressionTarget.of(
                each,
                columns,
                {} if options.session_zone else options.expression_zones,
                options.session_zone,
            )
            for each in made
            if each.name.startswith(EXPRESSION)
        ),
        building=snapshot.builds,
    )


def plan_of_build(plan: MetadataPlan, build: IndexBuild) -> MetadataPlan:
    """The plan of a write that knows of a build, turned into that of the builder."""
    secondary = [
        SecondaryTarget.of(part.definition, part.file_groups, _MOST_BUILD_BUCKETS)
        for part in build.partitions
        if part.definition is not None and part.name.startswith(PREFIX)
    ]
    return replace(
        plan,
        missing={part.name: part.file_groups for part in build.partitions},
        new_secondary=tuple(secondary),
        new_definitions=tuple(build.definitions.values()),
        new_expressions=tuple(
            each
            for each in (*plan.expressions, *plan.built_async_expressions)
            if each.name in build.names
        ),
    )


def _is_partitioned(
    snapshot: Snapshot, options: MetadataOptions, parts: Mapping[str, BuildPartition]
) -> bool:
    """Whether the record index goes by data partitions; one that is there says so itself."""
    if RECORD_INDEX in parts:
        definition = parts[RECORD_INDEX].definition
        return definition is not None and definition.is_partitioned
    known = snapshot.definitions.get(RECORD_INDEX)
    if known is not None and RECORD_INDEX in snapshot.config.metadata_partitions:
        return known.is_partitioned
    return options.record_index is RecordIndexScope.PARTITIONED


def _stat_columns(
    snapshot: Snapshot,
    options: MetadataOptions,
    columns: pa.Schema,
    parts: Mapping[str, BuildPartition],
) -> tuple[str, ...]:
    """The columns that have statistics, those of a build as it was begun."""
    building = parts["column_stats"].definition if "column_stats" in parts else None
    if building is None:
        return stat_columns(snapshot, options, columns)
    known = {*META_COLUMNS, *columns.names}.difference(snapshot.config.dropped_columns)
    return tuple(name for name in building.source_fields if name in known)


def _async_names(snapshot: Snapshot, parts: Mapping[str, BuildPartition]) -> set[str]:
    """The indexes, there or in the making, that writers do not maintain."""
    known = {
        name: each
        for name, each in snapshot.definitions.items()
        if name in snapshot.config.metadata_partitions
    }
    known |= {name: part.definition for name, part in parts.items() if part.definition is not None}
    return {name for name, each in known.items() if each.is_async}


def _target(snapshot: Snapshot, parts: Mapping[str, BuildPartition], name: str) -> SecondaryTarget:
    """A secondary index that is there or in the making, as writers keep it up to date.

    Raises:
        IndexUnusable: it cannot be kept up to date.
    """
    part = parts.get(name)
    if part is not None and part.definition is not None:
        return SecondaryTarget.of(part.definition, part.file_groups, _MOST_NOTE_BUCKETS)
    definition = snapshot.definitions.get(name)
    if snapshot.metadata is None:
        raise IndexUnusable(
            f"the metadata table of {snapshot.config.name} cannot be read "
            f"({snapshot.metadata_problem}); `lakedex repair` builds it anew"
        )
    if definition is None or not definition.names_columns:
        raise IndexUnusable(
            f"the index {name} of table {snapshot.config.name} has no definition that names its "
            "column, so that it cannot be kept up to date; drop it first"
        )
    groups = len(snapshot.metadata.groups(name))
    if definition.is_composite and not groups:
        raise IndexUnusable(
            f"the index {name} of table {snapshot.config.name} is gone: another engine took the "
            "metadata table away and made a new one; REFRESH INDEX or DROP INDEX first"
        )
    return SecondaryTarget.of(definition, max(1, groups), _MOST_NOTE_BUCKETS)


def _expression(
    snapshot: Snapshot,
    options: MetadataOptions,
    columns: pa.Schema,
    parts: Mapping[str, BuildPartition],
    name: str,
) -> ExpressionTarget:
    """An expression index that is there or in the making, as writers compute it.

    Raises:
        IndexUnusable: it cannot be computed here.
    """
    part = parts.get(name)
    definition = snapshot.definitions.get(name) if part is None else part.definition
    if definition is None:
        raise IndexUnusable(
            f"the index {name} of table {snapshot.config.name} has no definition, so that it "
            "cannot be kept up to date; drop it first"
        )
    zones = options.expression_zones
    if name not in zones:
        zones = {**snapshot.expression_zones, **zones}  # it is younger than the write's options
    for build in snapshot.builds:
        zones = {**zones, **build.expression_zones}
    return ExpressionTarget.of(definition, columns, zones, options.session_zone)


def stat_columns(
    snapshot: Snapshot, options: MetadataOptions, columns: pa.Schema
) -> tuple[str, ...]:
    """The columns that have statistics: three meta columns, then those named or the first ones.

    A table without meta columns has none of these three. A column that has statistics keeps them,
    whatever list a later write names: the ranges of its partitions would else leave out the new
    files.
    """
    dropped = snapshot.config.dropped_columns
    flat = [
        field.name
        for field in columns
        if not pa.types.is_nested(field.type) and field.name not in dropped
    ]
    meta = _META_STAT_COLUMNS if snapshot.config.populate_meta_fields else ()
    definition = snapshot.definitions.get("column_stats")
    is_there = definition is not None and "column_stats" in snapshot.config.metadata_partitions
    if options.stat_columns:
        before = definition.source_fields if definition is not None and is_there else ()
        named = dict.fromkeys((*before, *options.stat_columns))
        return (*meta, *(name for name in named if name in flat and name not in META_COLUMNS))
    if definition is not None and is_there:
        listed = definition.source_fields
        # A list that leaves out columns of the table was chosen; it is not widened.
        known = {field.name for field in snapshot.schema if not pa.types.is_nested(field.type)}
        is_chosen = bool(known - {*listed, *META_COLUMNS, *dropped})
        own = [name for name in listed if name in flat and name not in META_COLUMNS]
        is_chosen = is_chosen and len(listed) < options.most_stat_columns
        if is_chosen and not options.adds_stat_columns:
            return (*meta, *own)
        return (*meta, *dict.fromkeys((*own, *flat[: options.most_stat_columns])))
    return (*meta, *flat[: options.most_stat_columns])


def _new_stat_columns(
    snapshot: Snapshot, columns: pa.Schema, stated: Sequence[str]
) -> tuple[str, ...]:
    """Columns that the table had before, and that are new to its column_stats."""
    known = snapshot.definitions.get("column_stats")
    if known is None or "column_stats" not in snapshot.config.metadata_partitions:
        return ()
    before = {field.name: field.type for field in snapshot.schema}
    return tuple(
        name
        for name in stated
        if name not in known.source_fields
        and name in columns.names
        and before.get(name) == columns.field(name).type
    )


def stat_groups_for(columns: int, files: int) -> int:
    """How many file groups column_stats get for a table of so many columns and files.

    RFC-27's rule is one for every ten columns. A group more is one more file to open for every
    lookup and to write in every commit, so it has to have enough entries; and none has too many.

    Example:
        >>> stat_groups_for(35, 100), stat_groups_for(35, 20_000), stat_groups_for(23, 286_603)
        (2, 4, 7)
    """
    entries = columns * files
    by_columns = min(-(-columns // _COLUMNS_A_GROUP), entries // _LEAST_STATS_A_GROUP)
    return max(_STAT_GROUPS, by_columns, -(-entries // _MOST_STATS_A_GROUP))


def shards_for(
    rows: int, least: int, most: int, *, partitioned: bool, room: IndexRoom = _USUAL_ROOM
) -> int:
    """How many file groups an index of keys gets: room to grow a few times before they are large.

    Example:
        >>> shards_for(1_000_000, 1, 10_000, partitioned=False)
        8
        >>> shards_for(1_000_000, 1, 10_000, partitioned=False, room=IndexRoom(1.5, 4_800_000))
        15
    """
    entries = _ENTRIES_A_SHARD
    if room.group_bytes is not None:
        entries = max(1, room.group_bytes // _ENTRY_BYTES)
    growth = _GROWTH if room.growth is None else room.growth
    wanted = 1 if partitioned else math.ceil(growth * rows / entries)
    return max(least, min(most, wanted))
