r"""Which file groups a secondary index covers, and whether all writers kept it up to date.

Hudi 1.2.0 keeps up only one of several secondary indexes of a merge-on-read table: an update of
the other column leaves the old entry and adds no new one. Nothing in the index shows that, but
the timelines do: a commit that changed rows and has no write to the index in its metadata
commit either left the column alone or forgot the index. On such tables the rows of these file
groups are held against the index, up to some size; what differs, or is too large to compare, is
not covered by the index. Commits of lakedex say which indexes they kept up, and need no such look.

An index with `maintenance=async` is maintained by no writer. Beside the pairs of rows it holds one
entry for each file slice that was read into it, `\c$` and a digest of the files of the slice: no
value is escaped as `\c`. A slice is covered when it has exactly the files of such an entry. Entries
are only added: a pair that is no longer true leads the record index to a file group too many, and
every pair of a covered slice is there, whatever was updated, rolled back or restored since.

Hudi would take the definition of an index on several columns (composite) for one of a nested field,
so it does not know of such an index, and does not write to it. Every commit of lakedex therefore
says which of them are right. After a commit that says nothing they are not used, until REFRESH
INDEX.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import TableType
from lakedex.config.table_config import is_own_partition
from lakedex.filegroup import RECORD_KEY, FileSlice, FileSliceId, ReadContext, read_slice
from lakedex.index.contract import IndexedTable, Mask
from lakedex.index.definitions import BUILT_AFTER, IndexDefinition
from lakedex.index.kinds.secondary.key_encoding import encoded
from lakedex.index.kinds.secondary.records import PAIR_SCHEMA, PREFIX, SecondaryTarget
from lakedex.index.metadata_table import MetadataTable
from lakedex.index.metadata_table.hashing import java_hashes, shards_of
from lakedex.index.metadata_table.keys import placed_values_of_secondary, secondary_keys
from lakedex.schema.field_paths import column_at, type_at, values_at
from lakedex.timeline import (
    CommitMetadata,
    Instant,
    Timeline,
    instant_key,
    newest_change,
    newest_note,
)

_COMPARABLE_BYTES = 64 << 20
_KEPT_UP = "lakedex.secondary.indexes"
_COVERING = "lakedex.secondary.covering"
COVERAGE_START: Final = "\\c$"
"""What the entries of covered file slices start with."""
_DIGEST_BYTES = 16
_RIGHT = "lakedex.secondary.composite"


def kept_up_note(targets: Sequence[SecondaryTarget]) -> dict[str, str]:
    """What a commit says of the secondary indexes that it kept up to date.

    Example:
        >>> kept_up_note([SecondaryTarget("secondary_index_i", ("city",), 1, 1)])
        {'lakedex.secondary.indexes': 'secondary_index_i'}
    """
    return {_KEPT_UP: ",".join(each.name for each in targets)} if targets else {}


def covering_note(
    targets: Sequence[SecondaryTarget],
    new: Sequence[SecondaryTarget],
    timeline: Timeline,
    definitions: Mapping[str, IndexDefinition],
) -> dict[str, str]:
    """What a commit says of the covering indexes whose entries all name the right file groups.

    Those are the ones that it builds, and those of which the write before said the same. Another
    engine says nothing: it may have moved rows without their entries.

    Args:
        targets: The indexes that the commit keeps up to date.
        new: Those that it builds.
        timeline: The table's timeline just before the commit.
        definitions: The table's index definitions at that time.
    """
    covering = [each.name for each in targets if each.covers]
    noted = covering_noted(timeline, definitions) if covering else frozenset()
    kept = noted.intersection(covering)
    right = sorted({*kept, *(each.name for each in new if each.covers)})
    return {_COVERING: ",".join(right)} if right else {}


def covering_noted(
    timeline: Timeline, definitions: Mapping[str, IndexDefinition]
) -> frozenset[str]:
    """The covering indexes whose entries all name the right file groups.

    The newest write says so, or the index was built after it while writers went on.
    """
    noted = (newest_note(timeline, _COVERING) or "").split(",")
    stamps = {
        name: each.options[BUILT_AFTER]
        for name, each in definitions.items()
        if each.is_covering and BUILT_AFTER in each.options
    }
    newest = newest_change(timeline) if stamps else ""
    return frozenset([*noted, *(name for name, stamp in stamps.items() if stamp == newest)])


def coverage_keys(
    columns: Sequence[str], context: ReadContext, slices: Sequence[FileSlice]
) -> pa.Array:
    """What the entries of file slices are called in an index on some columns.

    A column of another type, or another column of the same name, makes another entry.
    """
    ids = {}
    if context.history is not None:
        ids = {field.name: field.id for field in context.history.newest.record.fields}
    about = [
        f"{each}:{type_at(each, context.schema)}:{ids.get(column_at(each))}" for each in columns
    ]
    return pa.array(
        [COVERAGE_START + _digest([*about, each.partition, *_files(each)]) for each in slices],
        pa.string(),
    )


def coverage_pairs(
    target: SecondaryTarget, context: ReadContext, slices: Sequence[FileSlice]
) -> pa.Table:
    """The entries of file slices that were read into an index, in `PAIR_SCHEMA`."""
    keys = coverage_keys(target.columns, context, slices)
    placed = pa.repeat(pa.scalar(COVERAGE_START), len(keys)) if target.by_value else keys
    hashes = pa.array(java_hashes(placed), pa.int32())
    marks = pa.repeat(pa.scalar(value=False), len(keys))
    return pa.Table.from_arrays([keys, hashes, marks], schema=PAIR_SCHEMA)


def covered_slices(
    metadata: MetadataTable,
    definition: IndexDefinition,
    context: ReadContext,
    slices: Sequence[FileSlice],
) -> Mask:
    """Which file slices an index with `maintenance=async` covers."""
    groups = len(metadata.groups(definition.name))
    if not groups:
        return np.zeros(len(slices), dtype=np.bool_)
    shards = None
    if definition.is_placed_by_value:
        shards = shards_of(pa.array([COVERAGE_START]), groups).tolist()
    entries = metadata.scan_prefixes(definition.name, [COVERAGE_START], shards)
    keys = coverage_keys(definition.source_fields, context, slices)
    known = pc.is_in(keys, value_set=entries["key"].combine_chunks().cast(pa.string()))
    mask: Mask = known.to_numpy(zero_copy_only=False)
    return mask


def without_coverage(entries: pa.Table) -> pa.Table:
    """The entries of rows, without those of covered file slices."""
    return entries.filter(pc.invert(pc.starts_with(entries["key"], COVERAGE_START)))


def _files(file_slice: FileSlice) -> list[str]:
    files = [each for each in (file_slice.base, *file_slice.logs) if each is not None]
    return [f"{each.name}/{each.size_bytes}" for each in files]


def _digest(parts: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def groups_not_kept_up(table: IndexedTable, name: str) -> frozenset[FileSliceId]:
    """The file groups whose rows the index may be wrong about."""
    definition = table.definitions[name]
    if definition.is_async:
        place = f"{name}_newer"
        if place not in table.kept:
            covered = covered_slices(table.metadata, definition, table.read, table.slices)
            newer = (table.slices[at].id for at in np.flatnonzero(~covered).tolist())
            table.kept[place] = frozenset(newer)
        newer_groups: frozenset[FileSliceId] = table.kept[place]
        return newer_groups
    if is_own_partition(name):
        # Other engines do not write to it at all: it is right as a whole, or not asked.
        return frozenset()
    known = f"{name}_not_kept_up"
    if known not in table.kept:
        suspects = _find(table, name) if _may_forget(table, name) else frozenset()
        table.kept[known] = _still_suspect(table, name, suspects)
    found: frozenset[FileSliceId] = table.kept[known]
    return found


def _may_forget(table: IndexedTable, name: str) -> bool:
    config = table.read.config
    if table.metadata.has_every_row(name):
        return False
    several = [
        part
        for part in config.metadata_partitions
        if part.startswith(PREFIX) and not is_own_partition(part)
    ]
    return config.table_type is TableType.MERGE_ON_READ and len(several) > 1


def _find(table: IndexedTable, name: str) -> frozenset[FileSliceId]:
    built, told = _metadata_commits(table.metadata.timeline, name)
    forgotten: set[FileSliceId] = set()
    for instant in table.timeline.between(None):
        metadata = table.timeline.commit_metadata(instant)
        written = {
            FileSliceId(partition, stat.file_id or "")
            for partition, stats in metadata.partition_to_stats.items()
            for stat in stats
        }
        if metadata.is_clustering:
            # Clustering moves rows as they are: what was forgotten moves along.
            if not forgotten.isdisjoint(_replaced(metadata)):
                forgotten |= written
        elif not (
            metadata.compacted
            or instant.requested_time in told
            or name in metadata.extra.get(_KEPT_UP, "").split(",")
            or _is_before(instant, built)
        ):
            forgotten |= written
    return frozenset(forgotten)


def _still_suspect(
    table: IndexedTable, name: str, suspects: frozenset[FileSliceId]
) -> frozenset[FileSliceId]:
    """The suspects whose rows are not all in the index, or are too many to compare."""
    slices = [file_slice for file_slice in table.slices if file_slice.id in suspects]
    if sum(file_slice.size_bytes for file_slice in slices) > _COMPARABLE_BYTES:
        return suspects
    return frozenset(
        file_slice.id for file_slice in slices if not _is_kept_up(table, name, file_slice)
    )


def _is_kept_up(table: IndexedTable, name: str, file_slice: FileSlice) -> bool:
    """Whether every row of a slice has its entry.

    The index has as many entries as the table has rows (that is checked before), so entries
    for all rows leave no room for outdated ones.
    """
    definition = table.definitions[name]
    path = definition.source_fields[0]
    for rows in read_slice(table.read, file_slice, [RECORD_KEY, column_at(path)]):
        keys = secondary_keys([encoded(values_at(path, rows))], rows[RECORD_KEY])
        found = find_pairs(table.metadata, name, definition, keys)
        if len(found) != len(keys):
            return False
    return True


def find_pairs(
    metadata: MetadataTable, name: str, definition: IndexDefinition | None, keys: pa.Array
) -> pa.Table:
    """The records of some keys of an index, read from the file groups that their values are in."""
    groups = len(metadata.groups(name))
    shards = None
    if definition is not None and definition.is_placed_by_value and groups:
        values = placed_values_of_secondary(keys, max(1, len(definition.source_fields)))
        shards = shards_of(pc.coalesce(values, keys), groups)
    return metadata.lookup(name, keys, shards)


def _replaced(metadata: CommitMetadata) -> set[FileSliceId]:
    return {
        FileSliceId(partition, file_id)
        for partition, file_ids in metadata.replaced_file_ids.items()
        for file_id in file_ids
    }


def _metadata_commits(timeline: Timeline, name: str) -> tuple[str | None, set[str]]:
    """When the index was built, and the instants of the commits that wrote to it."""
    built: str | None = None
    told: set[str] = set()
    for instant in timeline.write_instants():
        metadata = timeline.commit_metadata(instant)
        if metadata.compacted or name not in metadata.partition_to_stats:
            continue
        told.add(instant.requested_time)
        completed = instant.completion_time
        if completed is not None and (built is None or completed < built):
            built = completed
    return built, told


def _is_before(instant: Instant, built: str | None) -> bool:
    completed = instant.completion_time
    if built is None or completed is None:
        return False
    return instant_key(completed) < instant_key(built)


def _is_stamped(definition: IndexDefinition) -> bool:
    """Whether a definition names the write that its index was built after."""
    return definition.is_composite or definition.is_covering


def stamped(definition: IndexDefinition, timeline: Callable[[], Timeline]) -> IndexDefinition:
    """The definition of an index that is about to be built from what is committed now."""
    if not _is_stamped(definition):
        return definition
    options = {**definition.options, BUILT_AFTER: newest_change(timeline())}
    return replace(definition, options=options)


def right_composites(
    timeline: Timeline, definitions: Mapping[str, IndexDefinition]
) -> frozenset[str]:
    """The indexes on several columns that every write since their build has kept up to date."""
    known = {name: each for name, each in definitions.items() if each.is_composite}
    if not known:
        return frozenset()
    noted = (newest_note(timeline, _RIGHT) or "").split(",")
    newest = newest_change(timeline)
    return frozenset(
        name
        for name, each in known.items()
        if name in noted or each.options.get(BUILT_AFTER) == newest
    )


def composites_behind(
    timeline: Timeline, definitions: Mapping[str, IndexDefinition]
) -> frozenset[str]:
    """Those that are not asked, as another engine wrote to the table and not to them."""
    known = (name for name, each in definitions.items() if each.is_composite)
    return frozenset(known) - right_composites(timeline, definitions)


def composite_note(
    targets: Sequence[SecondaryTarget],
    new: Iterable[SecondaryTarget],
    timeline: Timeline,
    definitions: Mapping[str, IndexDefinition],
) -> dict[str, str]:
    """What a commit says of the indexes on several columns that are right after it.

    Those are the ones that it builds, and those that were right before it.

    Args:
        targets: The indexes that the commit keeps up to date.
        new: Those that it builds.
        timeline: The table's timeline just before the commit.
        definitions: The table's index definitions at that time.
    """
    kept = {each.name for each in targets if is_own_partition(each.name)}
    if kept:
        kept &= right_composites(timeline, definitions)
    right = sorted(kept.union(each.name for each in new if is_own_partition(each.name)))
    return {_RIGHT: ",".join(right)} if right else {}


def kept_note(timeline: Timeline, definitions: Mapping[str, IndexDefinition]) -> dict[str, str]:
    """What a commit without rows says: those that were right before it are so after it."""
    right = sorted(right_composites(timeline, definitions))
    return {_RIGHT: ",".join(right)} if right else {}
