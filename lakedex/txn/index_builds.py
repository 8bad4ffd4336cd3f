"""Index builds: which process runs one, and how one is finished or undone.

A build in the metadata table is an instant of the timeline. An abandoned one leaves no definition,
no metadata partition and no property. Each step can be repeated, and the instant is removed last:
as long as it is there, there is more to do.

The files of a file index exist before its definition does. A process that dies in between leaves a
folder that no definition names; the next clean removes it (`remove_abandoned_indexes`).
"""

from __future__ import annotations

import json
import logging

from lakedex.config import TableConfig, keys
from lakedex.config.table_config import is_own_partition
from lakedex.errors import CorruptFile, FileMissing
from lakedex.index.builds import IndexBuild, completed_builds, pending_builds
from lakedex.index.definitions import IndexDefinition, load_definitions, write_definitions
from lakedex.index.file_index.definitions import ROOT, ROOTS, file_index_definitions, folder_of
from lakedex.index.metadata_table.creation import remove_partition_of
from lakedex.index.metadata_table.instants import MetadataStore
from lakedex.index.registry import metadata_kind
from lakedex.storage import Storage
from lakedex.timeline import Action, Timeline, load_table_config, update_properties
from lakedex.txn.clocks import own_now_ms
from lakedex.txn.heartbeat import SignsOfLife
from lakedex.txn.metadata_rollback import open_metadata_table
from lakedex.txn.process import ProcessId
from lakedex.txn.rollback import LockedTable, forget
from lakedex.txn.rollback_files import remove_instant
from lakedex.txn.working_folders import heartbeat_path, marker_folder

_log = logging.getLogger("lakedex")


def run_path(build: IndexBuild, run: str) -> str:
    """The file, in the metadata table, that is there while a run may write base files."""
    return f"{marker_folder(build.instant)}/{run}"


def name_run(table: Storage, build: IndexBuild, run: str, base: str = "") -> None:
    """Let a run write base files of a build; `base` is the instant that they are of."""
    table.sub(keys.METADATA_TABLE_FOLDER).replace(run_path(build, run), base.encode())


def is_run(table: Storage, build: IndexBuild, run: str) -> bool:
    """Whether a run may still write base files: none is in its place, and it was not dropped."""
    return table.sub(keys.METADATA_TABLE_FOLDER).exists(run_path(build, run))


def end_runs(table: Storage, build: IndexBuild) -> None:
    """Let no run of a build write any more, and take back what one had begun only."""
    if open_metadata_table(table) is None:
        return
    store = MetadataStore.at(table)
    folder = marker_folder(build.instant)
    for info in store.storage.list(folder):
        base = store.storage.read(info.path).decode("ascii", "replace")
        if base and store.timeline.is_pending(base):
            store.discard(base, Action.DELTACOMMIT)
    store.storage.delete_folder(folder)


def discard_build(table: LockedTable, build: IndexBuild) -> None:
    """Take a build back: nothing of it is left but what other engines made of the same name."""
    table.check()
    config = load_table_config(table.storage)
    others = {name for each in _other_builds(table, build) for name in each.names}
    own = [n for n in build.names if n not in config.metadata_partitions and n not in others]
    inflight = [name for name in config.metadata_partitions_inflight if name not in own]
    if len(inflight) != len(config.metadata_partitions_inflight):
        joined = ",".join(sorted(inflight))
        update_properties(table.storage, {keys.METADATA_PARTITIONS_INFLIGHT: joined})
    known = _known_definitions(table.storage, config)
    left = {name: each for name, each in known.items() if name not in own}
    if config.index_defs_path is not None and left != known:
        write_definitions(table.storage, config, left)
    _forget_own(table.storage, config, own, left)
    end_runs(table.storage, build)
    for name in own:
        remove_partition_of(table.storage, name)
    remove_instant(table.storage, table.config, build.instant, Action.INDEXING)
    _forget(table.storage, build)


def publish_build(table: LockedTable, build: IndexBuild) -> None:
    """Let the partitions of a build count: the last step, after its instant completed."""
    end_runs(table.storage, build)
    config = load_table_config(table.storage)
    inflight = {*config.metadata_partitions_inflight}.difference(build.names)
    update_properties(
        table.storage,
        {
            keys.METADATA_PARTITIONS: _joined({*config.metadata_partitions, *build.names}),
            keys.METADATA_PARTITIONS_INFLIGHT: _joined(inflight),
        },
    )
    _forget(table.storage, build)


def add_definitions(table: LockedTable, build: IndexBuild) -> None:
    """Put the definitions of a build beside those of the table.

    Every write that is there by now told the build what it changed.
    """
    config = load_table_config(table.storage)
    known = _known_definitions(table.storage, config)
    made = {
        name: metadata_kind(name).stamped(each, table.timeline)
        for name, each in build.definitions.items()
    }
    if made:
        if any(map(is_own_partition, made)) and keys.OWN_METADATA_PARTITIONS not in config.raw:
            # From here on their file is looked for, by whoever has to take this back too.
            config = update_properties(table.storage, {keys.OWN_METADATA_PARTITIONS: ""})
        path = write_definitions(table.storage, config, known | made)
        if config.index_defs_path is None:
            update_properties(table.storage, {keys.INDEX_DEFS_PATH: path})


def clear_builds(table: LockedTable, timeline: Timeline, life: SignsOfLife) -> bool:
    """Finish or take back the builds of dead processes; whether there were any.

    A build that was stopped has no process, and waits for one that takes it up (cases B39, B66).
    """
    inflight = {*table.config.metadata_partitions_inflight}
    found = False
    if inflight:
        for build in completed_builds(timeline):
            # One that was published long ago, and dropped since, has no writer any more: what is
            # inflight by its name is another build.
            if build.instant in life.writers and inflight.issuperset(build.names):
                publish_build(table, build)
                found = True
    for build in pending_builds(timeline) if timeline.pending_of(Action.INDEXING) else ():
        is_run = build.instant in life.writers or build.instant in life.beats
        is_dead = is_run and not life.is_alive(build.instant)
        if is_dead or (not is_run and not inflight.issuperset(build.names)):
            _log.warning("the build of %s is dead, taking it back", ", ".join(build.names))
            discard_build(table, build)
            found = True
    return found


def _forget(storage: Storage, build: IndexBuild) -> None:
    """Remove what lies beside the table; while the writer is named there, others go on with it."""
    storage.delete(heartbeat_path(build.instant))
    forget(storage, build.instant)


def _forget_own(
    storage: Storage, config: TableConfig, gone: list[str], left: dict[str, IndexDefinition]
) -> None:
    """Where a table has no index any more that lakedex alone knows, nothing tells of one."""
    if not any(map(is_own_partition, gone)) or config.own_metadata_partitions:
        return
    if keys.OWN_METADATA_PARTITIONS in config.raw and not any(map(is_own_partition, left)):
        storage.delete(keys.OWN_INDEX_DEFS_PATH)
        update_properties(storage, {keys.OWN_METADATA_PARTITIONS: None})


def _other_builds(table: LockedTable, build: IndexBuild) -> list[IndexBuild]:
    return [each for each in pending_builds(table.timeline()) if each.instant != build.instant]


def _known_definitions(storage: Storage, config: TableConfig) -> dict[str, IndexDefinition]:
    try:
        return load_definitions(storage, config)
    except CorruptFile:
        return {}


def _joined(found: set[str]) -> str:
    return ",".join(sorted(found))


_PATIENCE_MS = 3_600_000
"""How long a process of another machine may write nothing before it counts as dead."""
_BUILDER = ".builder"


def name_builder(storage: Storage, definition: IndexDefinition) -> None:
    """Record this process as the one that fills an index."""
    record = json.dumps(ProcessId.current().to_json()).encode()
    storage.replace(folder_of(definition) + _BUILDER, record)


def forget_builder(storage: Storage, definition: IndexDefinition) -> None:
    """Remove that record: the index is complete, or given up."""
    storage.delete(folder_of(definition) + _BUILDER)


def remove_abandoned_indexes(storage: Storage, config: TableConfig) -> None:
    """Remove the files of indexes that no process continues; the caller holds the table's lock."""
    used = {folder_of(each) for each in file_index_definitions(config).values()}
    kinds = [f"{ROOT}/{kind}" for kind in storage.folders(ROOT)]
    for parent in (*kinds, *ROOTS[1:]):
        for name in storage.folders(parent):
            folder = f"{parent}/{name}"
            if folder not in used and not _is_being_filled(storage, folder):
                storage.delete_folder(folder)
                storage.delete(folder + _BUILDER)


def _is_being_filled(storage: Storage, folder: str) -> bool:
    try:
        tree = json.loads(storage.read(folder + _BUILDER))
    except (FileMissing, ValueError, RecursionError):
        tree = None
    process = ProcessId.from_json(tree)
    if process is not None and process.is_surely_dead():
        return False
    newest = max((info.modified_ms for info in storage.list(folder)), default=0)
    return own_now_ms() - newest < _PATIENCE_MS
