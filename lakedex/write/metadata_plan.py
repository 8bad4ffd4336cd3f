"""Which metadata partitions a write keeps or makes, and with how many file groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lakedex.config.metadata_options import RECORD_INDEX as _RECORD_INDEX
from lakedex.config.metadata_options import MetadataOptions, RecordIndexScope
from lakedex.errors import IndexUnusable
from lakedex.filegroup import META_COLUMNS
from lakedex.index.builds import BuildPartition, IndexBuild
from lakedex.index.definitions import IndexDefinition
from lakedex.index.maintenance import MaintainedIndex, MaintainRequest
from lakedex.index.registry import is_named_index, metadata_kind, unnamed_indexes
from lakedex.index.size_estimate import IndexedRows
from lakedex.table import Snapshot
from lakedex.write.assign import stored_rows

RECORD_INDEX = _RECORD_INDEX
_META_STAT_COLUMNS = (META_COLUMNS[0], META_COLUMNS[3], META_COLUMNS[2])
_MOST_NOTE_BUCKETS = 8
Indexes = tuple[MaintainedIndex, ...]


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
    maintained: Indexes = ()
    """The indexes that the write keeps up to date, those in the making too."""
    new: Indexes = ()
    """Those that are built of what the table has before the write."""
    new_definitions: tuple[IndexDefinition, ...] = ()
    """The definitions of indexes that this write makes."""
    building: tuple[IndexBuild, ...] = ()
    """The builds of others that this write keeps up to date."""
    refreshed: Indexes = ()
    """The indexes with `maintenance=async` that the write brings up to date."""
    built_async: Indexes = ()
    """Indexes with `maintenance=async` in the making: their builder reads the rows."""
    new_stat_columns: tuple[str, ...] = ()
    """Those of `stat_columns` that the older files have no ranges of yet."""
    widened: Indexes = ()
    """What notes the ranges of those columns."""

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

    def serving(self, names: Collection[str]) -> Indexes:
        """The maintained indexes whose notes make records of some indexes."""
        return tuple(each for each in self.maintained if not each.serves.isdisjoint(names))

    def for_build(self, build: IndexBuild) -> MetadataPlan:
        """The plan of a write that knows of a build, turned into that of the builder."""
        known = (*self.maintained, *self.built_async)
        names = {*build.names}
        return replace(
            self,
            missing={part.name: part.file_groups for part in build.partitions},
            new=tuple(each.for_build() for each in known if not each.serves.isdisjoint(names)),
            new_definitions=tuple(build.definitions.values()),
        )


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
    once = tuple(name for name in unnamed_indexes() if options.has(name) or name in there)
    lagging = _async_names(snapshot, parts)
    kept = sorted(name for name in there - lagging if is_named_index(name))
    made = {each.name: each for each in new_indexes if each.name not in there}
    partitioned = _is_partitioned(snapshot, options, parts)
    is_new = RECORD_INDEX in once and RECORD_INDEX not in there
    # All rows get an entry in an index that is new, not only those of this write.
    stored = stored_rows(snapshot) if made or (is_new and not partitioned) else 0
    stated = _stat_columns(snapshot, options, columns, parts) if has_stats(once) else ()
    size = IndexedRows(options, rows, len(stated), len(snapshot.slices), partitioned)
    with_stored = replace(size, rows=stored if made else 0, is_partitioned=False)
    of_records = size if partitioned or not is_new else replace(size, rows=rows + stored)
    shards = lookup_shards = 0
    if RECORD_INDEX in parts:
        shards = parts[RECORD_INDEX].file_groups
    elif RECORD_INDEX in once:
        shards = metadata_kind(RECORD_INDEX).first_file_groups(of_records)
    if RECORD_INDEX in present and not partitioned and snapshot.metadata is not None:
        lookup_shards = shards = max(1, len(snapshot.metadata.groups(RECORD_INDEX)))
    groups = {name: metadata_kind(name).first_file_groups(of_records) for name in once}
    groups |= {name: metadata_kind(name).first_file_groups(with_stored) for name in made}
    missing = {name: groups[name] for name in (*once, *made) if name not in there}
    planner = _Planner(snapshot, options, columns, parts, made, missing, stated)
    maintained = planner.indexes([*once, *kept])
    new_stats = _new_stat_columns(snapshot, columns, stated)
    with_stats = [name for name in once if has_stats([name])]
    return MetadataPlan(
        wanted=(*once, *kept, *made),
        missing=missing,
        stat_columns=stated,
        new_stat_columns=new_stats,
        widened=replace(planner, stat_columns=new_stats).indexes(with_stats) if new_stats else (),
        record_shards=shards,
        has_partitioned_record_index=partitioned,
        lookup_shards=lookup_shards,
        maintained=maintained,
        new=(
            *(each.for_build() for each in maintained if each.serves.intersection(missing)),
            *(each.for_build() for each in planner.indexes(made)),
        ),
        new_definitions=tuple(made.values()),
        # One that is not refreshed must not keep a writer from its work, whatever is wrong with it.
        refreshed=planner.indexes(sorted(lagging.intersection(refreshed))),
        built_async=planner.indexes(sorted(lagging & {*parts})),
        building=snapshot.builds,
    )


def plan_groups(
    snapshot: Snapshot,
    schema: pa.Schema,
    groups: Mapping[str, int],
    *,
    stat_columns: tuple[str, ...],
    partitioned: bool,
) -> MetadataPlan:
    """A plan that makes some indexes that a table has once, with these numbers of file groups.

    Args:
        snapshot: The table.
        schema: Its columns.
        groups: The numbers of file groups, by index.
        stat_columns: The columns that have ranges, if there are column stats.
        partitioned: Whether each data partition has its own file groups of the record index.
    """
    wanted = tuple(name for name in unnamed_indexes() if name in groups)
    stated = stat_columns if has_stats(wanted) else ()
    request = MaintainRequest(snapshot.config.name, None, 0, schema, stat_columns=stated)
    found = (metadata_kind(name).maintained(name, request) for name in wanted)
    indexes = {each.name: each for each in found if each is not None}
    return MetadataPlan(
        wanted=wanted,
        missing={n: groups[n] for n in wanted if n not in snapshot.config.metadata_partitions},
        stat_columns=stated,
        record_shards=groups.get(RECORD_INDEX, 0),
        has_partitioned_record_index=partitioned,
        lookup_shards=0,
        maintained=tuple(indexes.values()),
        new=tuple(indexes.values()),
    )


def has_stats(names: Collection[str]) -> bool:
    """Whether one of some indexes has ranges of columns."""
    return any(metadata_kind(name).has_stat_columns for name in names)


@dataclass(frozen=True)
class _Planner:
    """What kinds are asked with for each index."""

    snapshot: Snapshot
    options: MetadataOptions
    columns: pa.Schema
    parts: Mapping[str, BuildPartition]
    made: Mapping[str, IndexDefinition]
    missing: Mapping[str, int]
    stat_columns: tuple[str, ...]

    def indexes(self, names: Collection[str]) -> Indexes:
        """The indexes of some names as writers keep them up to date.

        Raises:
            IndexUnusable: one cannot be kept up to date.
        """
        found: dict[str, MaintainedIndex] = {}
        for name in names:
            index = metadata_kind(name).maintained(name, self._request(name))
            if index is not None:
                found.setdefault(index.name, index)
        return tuple(found.values())

    def _request(self, name: str) -> MaintainRequest:
        snapshot, options = self.snapshot, self.options
        part = self.parts.get(name)
        definition = self.made.get(name) or snapshot.definitions.get(name)
        if part is not None:
            definition = part.definition or (definition if metadata_kind(name).is_of_keys else None)
        return MaintainRequest(
            table=snapshot.config.name,
            definition=definition,
            file_groups=self._file_groups(name, part),
            columns=self.columns,
            stat_columns=self.stat_columns,
            zones=partial(self._zones, name),
            session_zone=options.session_zone,
        )

    def _zones(self, name: str) -> Mapping[str, str]:
        zones = self.options.expression_zones
        if name in self.made:
            # What is noted of the zone of a new index is of one of that name that is gone.
            return {} if self.options.session_zone else zones
        if name not in zones:
            zones = {**self.snapshot.expression_zones, **zones}  # it is younger than the options
        for build in self.snapshot.builds:
            zones = {**zones, **build.expression_zones}
        return zones

    def _file_groups(self, name: str, part: BuildPartition | None) -> int:
        if part is not None and part.definition is not None:
            return part.file_groups
        if name in self.missing:
            return self.missing[name]
        if not (metadata_kind(name).is_of_keys and is_named_index(name)):
            return 0
        if self.snapshot.metadata is None:
            raise IndexUnusable(
                f"the metadata table of {self.snapshot.config.name} cannot be read "
                f"({self.snapshot.metadata_problem}); `lakedex repair` builds it again"
            )
        return len(self.snapshot.metadata.groups(name))


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
