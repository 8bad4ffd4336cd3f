"""What the actors of a bucket table do: write rows, plan and run resizes, read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict, FileMissing, StorageError
from lakedex.index.kinds.bucket.resize import MiddlePolicy
from lakedex.services.clustering.resizing import pending_resizes, run_resize, schedule_resize
from lakedex.services.compaction import compact_table, schedule_compaction
from lakedex.services.compaction.runner import run_pending_compactions
from lakedex.services.rescaling import rescale_buckets
from lakedex.services.rolling_back import rollback_instant
from lakedex.table import Snapshot
from lakedex.write.resizing import ResizeLimits
from lakedex.write.verbs import TableWriter
from tests.simulation.actors import PATIENCE
from tests.simulation.bucket_tables import (
    KEYS,
    PARTITIONS,
    TOKEN,
    BucketEffect,
    BucketModel,
    TableShape,
    content_of,
    source_of,
    tokens_of,
)
from tests.simulation.keepers import (
    Act,
    archive,
    compact_metadata,
    restore,
    roll_back,
    save,
    unsave,
)
from tests.simulation.store import SimStorage
from tests.simulation.tables import SimAddress
from tests.simulation.world import World

_DUAL = {
    "hoodie.clustering.updates.strategy": (
        "org.apache.hudi.client.clustering.update.strategy."
        "SparkConsistentBucketDuplicateUpdateStrategy"
    )
}
_PATIENT = {"hoodie.write.lock.wait_time_ms_between_retry": "2000"}
"""Each look at a lock costs the simulation time."""
_SPLITS = ResizeLimits(1, split_above=0, merge_below=0, most=8)
_MERGES = ResizeLimits.of(1 << 20, split=2.0, merge=0.5)
_MOST_KEYS = 8


def writer_of(storage: SimStorage, **options: str) -> TableWriter:
    """A writer of the table, as one of its actors has it."""
    address: Any = SimAddress(storage)
    return TableWriter(address, LocalEngine(1), _PATIENT | options)


@dataclass
class BucketWriting:
    """One writer: where it writes, and what it is to be told about."""

    world: World
    storage: SimStorage
    model: BucketModel
    shape: TableShape

    def run(self, writes: int) -> None:
        """Some writes, one after the other; conflicts and broken stores are part of life."""
        for _ in range(writes):
            # As long as what others do takes, so that some of it pends in between.
            self.world.give_way(self.world.dice.uniform(0.0, 12.0))
            effect = self._drawn()
            self.model.effects[effect.token] = effect
            try:
                result = getattr(self._writer(effect), effect.verb)(source_of(effect))
            except CommitConflict as error:
                self.world.note(f"conflict: {error}")
                self.model.told_conflict.add(effect.token)
            except StorageError as error:
                self.world.note(f"gives up: {error}")
            else:
                if result.instant is not None:
                    self.world.note(f"has written {effect.token}")
                    self.model.told_done[effect.token] = result.instant

    def _writer(self, effect: BucketEffect) -> TableWriter:
        dice, options = self.world.dice, {TOKEN: effect.token}
        if self.shape.kind == "mor" and self.shape.has_ring and dice.random() < 0.7:
            self.world.note("writes to old and new buckets")
            options |= _DUAL
        if dice.random() < 0.3:
            options["hoodie.write.num.retries.on.conflict.failures"] = "2"
        return writer_of(self.storage, **options)

    def _drawn(self) -> BucketEffect:
        dice = self.world.dice
        verb = dice.choice((*("upsert",) * 7, "delete", "delete", "insert_overwrite"))
        partitions = PARTITIONS if dice.random() < 0.3 else (dice.choice(PARTITIONS),)
        places = frozenset(
            (each, key)
            for each in partitions
            for key in dice.sample(KEYS, dice.randrange(1, _MOST_KEYS))
        )
        token = f"{self.world.actor.name}-{len(self.model.effects)}"
        return BucketEffect(verb, places, token)


def read_buckets_often(
    world: World, storage: SimStorage, model: BucketModel, times: int, *, is_cleaned: bool
) -> None:
    """Every read shows the writes that were complete, all of them, and nothing else."""
    for _ in range(times):
        world.give_way(world.dice.uniform(0.01, 3.0))
        try:
            snapshot = Snapshot.open(storage)  # type: ignore[arg-type]
            found = content_of(snapshot)
            expected = model.rows(tokens_of(snapshot))
        except FileMissing:
            if not is_cleaned:
                raise
            continue
        assert found == expected, f"a reader saw {sorted(found.items() ^ expected.items())}"


def acts_of(shape: TableShape) -> tuple[Act, ...]:
    """What those who resize the buckets of a table do; compactions are in their way."""
    compactions: tuple[Act, ...] = (_plan_compaction, _compact) if shape.kind == "mor" else ()
    if not shape.has_ring:
        return (_rescale, _rescale, *compactions)
    return (*(_split, _split, _merge) * 2, *(_run_resizes,) * 5, _take_back, *compactions)


WAYS: tuple[tuple[Act, ...], ...] = (
    (save, unsave, restore, roll_back, roll_back),
    (save, unsave, archive, archive, compact_metadata),
)
"""What the keepers of one table do."""


def finish_services(storage: SimStorage, model: BucketModel, shape: TableShape) -> None:
    """Run what pends; a plan that suits the table no longer is taken back."""
    if shape.kind == "mor":
        run_pending_compactions(writer_of(storage))
    for instant in pending_resizes(_timeline(storage)):
        try:
            run_resize(writer_of(storage), instant)
        except CommitConflict:
            address: Any = SimAddress(storage)
            rollback_instant(address, instant, engine=LocalEngine(1), patience=PATIENCE)


def _split(world: World, storage: SimStorage, model: BucketModel) -> None:
    policy = MiddlePolicy() if world.dice.random() < 0.5 else None
    schedule_resize(_some(world, storage), _SPLITS, policy)


def _merge(world: World, storage: SimStorage, model: BucketModel) -> None:
    schedule_resize(_some(world, storage), _MERGES)


def _some(world: World, storage: SimStorage) -> TableWriter:
    """A writer that plans for one partition, so that several resizes pend, or for all."""
    chosen = world.dice.choice((*PARTITIONS, ""))
    name = "hoodie.clustering.plan.strategy.partition.selected"
    return writer_of(storage, **({name: chosen} if chosen else {}))


def _run_resizes(world: World, storage: SimStorage, model: BucketModel) -> None:
    instants = list(pending_resizes(_timeline(storage)))
    world.dice.shuffle(instants)
    for instant in instants:
        run_resize(writer_of(storage), instant)
        world.note(f"has resized {instant}")
        model.resizes += 1


def _take_back(world: World, storage: SimStorage, model: BucketModel) -> None:
    instants = pending_resizes(_timeline(storage))
    if instants:
        address: Any = SimAddress(storage)
        chosen = world.dice.choice(instants)
        rollback_instant(address, chosen, engine=LocalEngine(1), patience=PATIENCE)


def _rescale(world: World, storage: SimStorage, model: BucketModel) -> None:
    rescale_buckets(writer_of(storage), world.dice.choice((1, 2, 3, 4)))
    world.note("has rescaled")
    model.resizes += 1


def _plan_compaction(world: World, storage: SimStorage, model: BucketModel) -> None:
    schedule_compaction(writer_of(storage))


def _compact(world: World, storage: SimStorage, model: BucketModel) -> None:
    compact_table(writer_of(storage))


def _timeline(storage: SimStorage) -> Any:
    return Snapshot.open(storage).timeline  # type: ignore[arg-type]
