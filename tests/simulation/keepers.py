"""Actors that keep a table: savepoints, ways back, archiving, clusterings planned apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakedex.errors import CommitConflict, InvalidInput, StorageError, UnsupportedFeature
from lakedex.index.metadata_table.compaction import compact_if_due
from lakedex.services.clustering.scheduling import pending_clusterings, schedule_clustering
from lakedex.services.restoring import restore_table
from lakedex.services.rolling_back import rollback_instant
from lakedex.table import Snapshot
from lakedex.txn.begin import locked_table
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import recover
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_metadata_table
from lakedex.upkeep.completion_order import newest_completed
from lakedex.upkeep.savepoints import create_savepoint, delete_savepoint
from lakedex.write.post_commit import _may_be_taken_back
from lakedex.write.verbs import TableWriter
from tests.simulation.actors import PATIENCE, Writing
from tests.simulation.store import SimStorage
from tests.simulation.tables import ENGINE, Model, SimAddress
from tests.simulation.world import World

_FEW = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}


def keep_often(
    world: World, storage: SimStorage, model: Model, acts: Sequence[Act], times: int
) -> None:
    """Some services, one after the other; that one is refused is part of life."""
    for _ in range(times):
        world.give_way(world.dice.uniform(0.01, 9.0))
        act = world.dice.choice(acts)
        world.note(f"begins to {act.__name__[1:]}")
        try:
            act(world, storage, model)
        except (CommitConflict, InvalidInput, UnsupportedFeature, StorageError) as error:
            world.note(f"{act.__name__[1:]} ends: {error}")


def clear_away(storage: SimStorage) -> None:
    """What dead processes left, as whoever begins a write does."""
    with open_lock(_any(storage), PATIENCE.lock) as lock:
        recover(locked_table(_any(storage), lock, PATIENCE.heartbeat))


def _save(world: World, storage: SimStorage, model: Model) -> None:
    create_savepoint(_address(storage), patience=PATIENCE)


def _unsave(world: World, storage: SimStorage, model: Model) -> None:
    saved = Snapshot.open(_any(storage)).timeline.savepoints()
    if saved:
        delete_savepoint(_address(storage), world.dice.choice(saved), patience=PATIENCE)


def _restore(world: World, storage: SimStorage, model: Model) -> None:
    timeline = Snapshot.open(_any(storage)).timeline
    times = timeline.savepoints() or [each.requested_time for each in timeline.write_instants()]
    if not times:  # a rollback of the first write left nothing to go back to
        return
    restore_table(_address(storage), world.dice.choice(times), engine=ENGINE, patience=PATIENCE)


def _roll_back(world: World, storage: SimStorage, model: Model) -> None:
    newest = newest_completed(Snapshot.open(_any(storage)).timeline)
    if newest is None:
        return
    model.to_roll_back.add(newest.requested_time)
    rollback_instant(_address(storage), newest.requested_time, engine=ENGINE, patience=PATIENCE)


def _archive(world: World, storage: SimStorage, model: Model) -> None:
    archive_table(_address(storage), _FEW, patience=PATIENCE)


def _compact_metadata(world: World, storage: SimStorage, model: Model) -> None:
    address = _address(storage)
    with open_lock(_any(storage), PATIENCE.lock) as lock:
        table = locked_table(_any(storage), lock, PATIENCE.heartbeat)
        recover(table)
        pending = any(map(_may_be_taken_back, table.timeline().pending()))
        found = compact_if_due(
            address, ENGINE, max_delta_commits=1, next_time=table.next_time, has_pending=pending
        )
        if found is not None:
            clean_metadata_table(table)


def _plan_clustering(world: World, storage: SimStorage, model: Model) -> None:
    schedule_clustering(TableWriter(_address(storage), ENGINE), "id")


def _run_clustering(world: World, storage: SimStorage, model: Model) -> None:
    for instant in pending_clusterings(Snapshot.open(_any(storage)).timeline):
        Writing(world, storage, model, lambda instant, work: None).cluster(instant)


def _any(storage: SimStorage) -> Any:
    return storage


def _address(storage: SimStorage) -> Any:
    return SimAddress(storage)


Act = Callable[[World, SimStorage, Model], None]
_OFTEN: tuple[Act, ...] = (_save, _unsave, _plan_clustering, _run_clustering)
WAYS: tuple[tuple[Act, ...], ...] = (
    (*_OFTEN, _restore, _restore, _roll_back),
    (*_OFTEN, _archive, _compact_metadata, _compact_metadata),
)
"""What the keepers of one table do. Never both: where the metadata table was compacted, a way back
builds it anew, from files of real rows."""
