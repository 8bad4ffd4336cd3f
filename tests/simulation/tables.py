"""The table of a simulation: its files are counters, so that a lost update shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

from lakedex.config import keys
from lakedex.engine import LocalEngine
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.index.kinds.files.kind import files_change
from lakedex.index.metadata_table.creation import PartitionPlan, create_metadata_table
from lakedex.table import Snapshot
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.timeline import Action, PlanKind, load_table_config, read_plan, update_properties
from lakedex.txn.clocks import InstantClock
from tests.simulation.patches import living_in
from tests.simulation.store import Blob, Faults, SimStorage
from tests.simulation.world import Actor, World

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string())])
ENGINE = LocalEngine(1)
Counts = dict[str, int]


@dataclass(frozen=True)
class SimAddress:
    """Opens the store for one actor."""

    storage: SimStorage

    def open(self) -> Any:
        """The storage."""
        return self.storage


@dataclass(frozen=True)
class Effect:
    """What a write does: takes some groups, and leaves one with all their counters, one higher."""

    taken: frozenset[FileSliceId]
    left: FileSliceId
    key: str


@dataclass
class Model:
    """What every write would do, and what its writer was told."""

    effects: dict[str, Effect] = field(default_factory=dict)
    told_done: set[str] = field(default_factory=set)
    told_conflict: set[str] = field(default_factory=set)
    to_roll_back: set[str] = field(default_factory=set)
    """Completed writes that somebody was told to take back."""

    def rows(self, instants: list[str]) -> dict[FileSliceId, Counts]:
        """The table after these writes, in the order of their completion."""
        state: dict[FileSliceId, Counts] = {}
        for instant in instants:
            effect = self.effects[instant]
            before: list[Counts] = []
            for group in sorted(effect.taken):
                assert group in state, f"{instant} took {group}, which was gone: two writes of it"
                before.append(state.pop(group))
            state[effect.left] = raised(before, effect.key)
        return state


def raised(before: list[Counts], key: str) -> Counts:
    """All counters, one higher, and a new one."""
    merged = {name: count + 1 for counts in before for name, count in counts.items()}
    return {**merged, key: 1}


def encode(counts: Counts) -> bytes:
    """A data file."""
    return json.dumps(counts, sort_keys=True).encode()


def read_slice(storage: SimStorage, part: FileSlice) -> Counts:
    """The counters of a slice."""
    assert part.base is not None
    path = f"{part.partition}/{part.base.name}"
    return json.loads(storage.read(path))


def rows_of(snapshot: Snapshot) -> dict[FileSliceId, Counts]:
    """All counters of a snapshot, found through the metadata table."""
    assert snapshot.metadata is not None, snapshot.metadata_problem
    storage: Any = snapshot.storage
    return {part.id: read_slice(storage, part) for part in snapshot.slices}


def completed_of(snapshot: Snapshot) -> list[str]:
    """The completed writes in the order of their completion, archived ones too."""
    return [each.requested_time for each in snapshot.timeline.between(None)]


def restored_of(snapshot: Snapshot) -> set[str]:
    """The writes that restores took back."""
    timeline = snapshot.timeline
    found: set[str] = set()
    for each in timeline.completed():
        if each.action is Action.RESTORE:
            record = read_plan(PlanKind.RESTORE_METADATA, timeline.read(each))
            found.update(record["instantsToRollback"])
    return found


def data_files(blobs: dict[str, Blob]) -> Iterator[str]:
    """The data files that lie in the store."""
    return (p for p in blobs if not p.startswith(".hoodie/") and p.endswith(".parquet"))


@cache
def empty_table() -> dict[str, Blob]:
    """The files of a table without rows, with a metadata table that lists files."""
    world = World(0)
    blobs: dict[str, Blob] = {}
    storage = SimStorage(world, blobs, Faults())

    def make() -> None:
        create_table(storage, TableSpec("sim", SCHEMA, "id", partition_by="p"))
        config = load_table_config(storage)
        change = files_change({})
        address: Any = SimAddress(storage)
        clock = InstantClock.load(storage, config)
        plan = {"files": PartitionPlan(1, change)}
        create_metadata_table(address, ENGINE, config, plan, next_time=clock.next)
        update_properties(storage, {keys.METADATA_PARTITIONS: "files"})

    with living_in(world):
        world.add(Actor("creator", 1, "host-0"), make)
        world.run()
    return blobs
