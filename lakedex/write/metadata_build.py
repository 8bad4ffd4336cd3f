"""Makes the metadata partitions that a table lacks: empty ones, or from the data that is there.

The order of steps lets a kill at any point leave a whole table:

1. what earlier attempts left half made is removed; no reader looks at it;
2. the data is read, and the partitions are made;
3. the index definitions are written; without step 4 they are of no use to anybody;
4. the properties name the new partitions, which is when they begin to count.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakedex.config import TableConfig, keys
from lakedex.engine import Engine
from lakedex.errors import CommitConflict, InvalidInput, LakedexError
from lakedex.filegroup import BaseFile, LogFile, parse_data_file
from lakedex.format.logfile import read_blocks
from lakedex.index.commit_changes import CommitChanges
from lakedex.index.definitions import DEFAULT_PATH, IndexDefinition, write_definitions
from lakedex.index.metadata_table import metadata_partition
from lakedex.index.metadata_table.creation import (
    PartitionPlan,
    create_metadata_table,
    remove_partition,
)
from lakedex.index.metadata_table.shard_writer import NotedRecords
from lakedex.index.registry import is_named_index, metadata_kind, unnamed_indexes
from lakedex.storage import Storage, join
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties
from lakedex.timeline import Action, load_table_config, update_properties
from lakedex.timeline.timeline import CommittedInstants
from lakedex.txn.metadata_rollback import GIVEN_UP
from lakedex.write.build_survey import Survey, SurveyWants, survey
from lakedex.write.context import WriteContext
from lakedex.write.metadata_plan import RECORD_INDEX, MetadataPlan

_FILES = "files"
_BEFORE_ALL = "00000000000000000"
log = logging.getLogger("lakedex")


@dataclass(frozen=True, slots=True)
class EnsuredIndexes:
    """What was done so that a table has the metadata partitions that a plan wants."""

    exact: frozenset[str] = frozenset()
    """The indexes of keys that were made and have the entry of every row."""
    is_table_changed: bool = False
    """Whether properties, definitions or the metadata table are others than before."""


def ensure_metadata(
    engine: Engine,
    facts: WriteContext,
    snapshot: Snapshot,
    plan: MetadataPlan,
    *,
    next_time: Callable[[], str],
) -> EnsuredIndexes:
    """Make the metadata partitions that a plan wants and the table lacks.

    The caller holds the table's lock. Files of instants that are not completed are left out. Where
    a key stands in the data more than once, the record index names one of its places.

    Args:
        engine: Runs the workers that read the data and write the record index.
        facts: The table as the running write sees it; its folder for spill files is used.
        snapshot: The table before the running write, as it is now.
        plan: The partitions that are wanted.
        next_time: Gives times that grow.

    Raises:
        CommitConflict: another engine is building one of the partitions.
    """
    missing = {
        name: groups
        for name, groups in plan.missing.items()
        if name not in snapshot.config.metadata_partitions
    }
    definitions = index_definitions(snapshot, plan, missing)
    _check_builders(snapshot, missing)
    _remove_leftovers(facts, snapshot)
    if not missing:
        if definitions != snapshot.definitions:
            _write_definitions(snapshot.storage, snapshot.config, definitions)
            return EnsuredIndexes(is_table_changed=True)
        return EnsuredIndexes()
    try:
        exact = _build(engine, facts, snapshot, plan, missing, definitions, next_time)
        return EnsuredIndexes(exact, is_table_changed=True)
    except CommitConflict:
        # The lock may be another writer's by now: what is left is for the next one to remove.
        raise
    except Exception:
        _take_back(facts, snapshot, missing)
        raise


def _build(
    engine: Engine,
    facts: WriteContext,
    snapshot: Snapshot,
    plan: MetadataPlan,
    missing: Mapping[str, int],
    definitions: Mapping[str, IndexDefinition],
    next_time: Callable[[], str],
) -> frozenset[str]:
    seen = replace(facts, committed=CommittedInstants.of(snapshot.timeline))
    found = survey(engine, seen, snapshot.history, snapshot.slices, survey_wants(plan, missing))
    entries = create_metadata_table(
        facts.address,
        engine,
        snapshot.config,
        partition_plans(snapshot, plan, missing, found),
        next_time=next_time,
    )
    if definitions:
        _write_definitions(snapshot.storage, snapshot.config, definitions)
    _name_partitions(snapshot, missing, has_definitions=bool(definitions))
    exact = {each.name for each in plan.new if each.row_columns}.intersection(missing)
    rows = sum(note.segment.rows for note in found.notes)
    if RECORD_INDEX in missing and _are_unique(snapshot.config.name, entries[RECORD_INDEX], rows):
        exact.add(RECORD_INDEX)
    return frozenset(exact)


def _take_back(facts: WriteContext, snapshot: Snapshot, missing: Mapping[str, int]) -> None:
    """Leave no trace of a build that failed; what cannot be removed the next writer removes."""
    try:
        named = load_table_config(snapshot.storage)
        if not set(missing).isdisjoint(named.metadata_partitions) or not named.metadata_enabled:
            return
        if named.index_defs_path is not None:
            write_definitions(snapshot.storage, named, snapshot.definitions)
        for name in missing:
            remove_partition(facts.address, name)
    except LakedexError as error:
        log.warning("left over from indexes that were not built: %s", error)


def _check_builders(snapshot: Snapshot, missing: Mapping[str, int]) -> None:
    pending = snapshot.timeline.pending_of(Action.INDEXING)
    for name in snapshot.config.metadata_partitions_inflight:
        if pending and name in missing:
            raise CommitConflict(
                f"the index {name} is being built by the pending indexing "
                f"{pending[0].requested_time}; write again when it is done"
            )


def _remove_leftovers(facts: WriteContext, snapshot: Snapshot) -> None:
    """Remove partitions that no properties name: attempts that were cut short left them."""
    config = snapshot.config
    if not config.metadata_enabled:
        return
    known = {*config.metadata_partitions, *config.metadata_partitions_inflight, keys.META_FOLDER}
    listed = None if snapshot.metadata is None else snapshot.metadata.listed
    for name in listed or snapshot.storage.folders(keys.METADATA_TABLE_FOLDER):
        if name not in known and _is_partition(name):
            remove_partition(facts.address, name)


def _is_partition(name: str) -> bool:
    try:
        metadata_partition(name)
    except InvalidInput:
        return False
    return True


def survey_wants(plan: MetadataPlan, missing: Mapping[str, int]) -> SurveyWants:
    """What has to be known of the data for some partitions that a plan makes."""
    return SurveyWants(
        tuple(each for each in plan.new if not each.serves.isdisjoint(missing)),
        shards=missing.get(RECORD_INDEX, 0),
        buckets=plan.note_buckets,
    )


def partition_plans(
    snapshot: Snapshot, plan: MetadataPlan, missing: Mapping[str, int], found: Survey
) -> dict[str, PartitionPlan]:
    """What each new partition starts with, in the order of the plan."""
    newest = snapshot.timeline.last_completed
    instant = newest.requested_time if newest is not None else _BEFORE_ALL
    changes = CommitChanges(
        added=_listing(snapshot) if _FILES in missing else {},
        overwritten_partitions=tuple({each.partition: None for each in snapshot.slices}),
        key_notes=found.notes,
        note_buckets=plan.note_buckets,
        notes=found.index_notes,
    )
    definitions = index_definitions(snapshot, plan, missing)
    data_partitions = tuple(dict.fromkeys(each.partition for each in snapshot.slices))
    plans: dict[str, PartitionPlan] = {}
    for name, groups in missing.items():
        records = metadata_kind(name).records(name, changes, instant, definitions)
        if isinstance(records, NotedRecords):
            records = replace(records, time=None if newest is None else instant)
        is_partitioned = name in definitions and definitions[name].is_partitioned
        plans[name] = PartitionPlan(
            groups,
            records,
            is_partitioned=is_partitioned,
            data_partitions=data_partitions if is_partitioned else (),
        )
    return plans


def _listing(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """All files of completed writes, those of older slices too: a clean removes them later."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    pending = {each.requested_time for each in snapshot.timeline.pending_of(Action.CLUSTERING)}
    for partition, files in snapshot.listing.files.items():
        for name, size in files:
            parsed = parse_data_file(name, size)
            if parsed is None:
                continue
            is_written = snapshot.timeline.is_committed_write(parsed.instant_time)
            if not is_written and parsed.instant_time in pending:
                is_written = _is_for_resize(snapshot, partition, parsed)
            if is_written:
                found[partition][name] = size
    return found


def _is_for_resize(snapshot: Snapshot, partition: str, file: BaseFile | LogFile) -> bool:
    """Whether a completed write gave a log file to a bucket that a pending resize makes."""
    if not isinstance(file, LogFile):
        return False
    source = snapshot.storage.source(join(partition, file.name), file.size_bytes)
    times = {block.instant_time for block in read_blocks(source) if block.kind.holds_records}
    return bool(times) and all(map(snapshot.timeline.is_committed_write, times))


def index_definitions(
    snapshot: Snapshot, plan: MetadataPlan, missing: Mapping[str, int]
) -> dict[str, IndexDefinition]:
    """The index definitions as they are to be."""
    live = {*snapshot.config.metadata_partitions, *snapshot.config.metadata_partitions_inflight}
    # A definition alone is what a build left that was cut short, and other engines stumble over it.
    # That of an index that was there once is kept, so that it can be built again.
    live.update(snapshot.dropped_indexes)
    if not snapshot.config.metadata_enabled:
        live.update(read_own_properties(snapshot.storage).get(GIVEN_UP, "").split(","))
    found = {
        name: each
        for name, each in snapshot.definitions.items()
        if name in live or each.is_own or not is_named_index(name)
    }
    found |= {
        each.name: metadata_kind(each.name).stamped(each, lambda: snapshot.timeline)
        for each in plan.new_definitions
        if each.name in missing
    }
    # Columns that older files have no ranges of yet are named when they are there.
    stated = tuple(name for name in plan.stat_columns if name not in plan.new_stat_columns)
    for name in unnamed_indexes():
        if name in missing or name in snapshot.config.metadata_partitions:
            definition = metadata_kind(name).definition_of_table(
                found.get(name),
                is_new=name in missing,
                stat_columns=stated,
                is_partitioned=plan.has_partitioned_record_index,
            )
            if definition is not None:
                found[name] = definition
    return found


def _write_definitions(
    storage: Storage, config: TableConfig, definitions: Mapping[str, IndexDefinition]
) -> None:
    path = write_definitions(storage, config, definitions)
    if config.metadata_enabled and config.index_defs_path is None:
        update_properties(storage, {keys.INDEX_DEFS_PATH: path})


def _name_partitions(
    snapshot: Snapshot, missing: Mapping[str, int], *, has_definitions: bool
) -> None:
    """The step that makes the new partitions count."""
    config = snapshot.config
    building = [name for name in config.metadata_partitions_inflight if name not in missing]
    changes: dict[str, str | None] = {
        keys.METADATA_PARTITIONS: _joined([*config.metadata_partitions, *missing]),
        keys.METADATA_PARTITIONS_INFLIGHT: _joined(building),
    }
    if has_definitions:
        changes[keys.INDEX_DEFS_PATH] = config.index_defs_path or DEFAULT_PATH
    update_properties(snapshot.storage, changes)


def _joined(names: Sequence[str]) -> str:
    return ",".join(sorted(names))


def _are_unique(table: str, entries: int, rows: int) -> bool:
    """Whether every key is unique; if not, a warning is logged, as lookups by key do not prune.

    This is case B24.
    """
    if entries != rows:
        log.warning(
            "the record index of %s has %d entries for %d rows: some keys stand more than once, "
            "and the index names one place of each",
            table,
            entries,
            rows,
        )
    return entries == rows
