"""One schedule of a bucket table, whose buckets are resized while it is written and read."""

from __future__ import annotations

from functools import partial

from lakedex.index.kinds.bucket.hashing_metadata import FOLDER
from lakedex.index.metadata_table import reader
from lakedex.table import Snapshot
from lakedex.txn.working_folders import HEARTBEATS, MARKERS, SPILL, WRITERS
from lakedex.upkeep import cleaning
from tests.simulation.actors import HOSTS, clean_often, new_actor
from tests.simulation.bucket_actors import (
    WAYS,
    BucketWriting,
    acts_of,
    finish_services,
    read_buckets_often,
)
from tests.simulation.bucket_tables import (
    BucketModel,
    TableShape,
    check_buckets,
    check_indexes,
    content_of,
    first_bucket_table,
    tokens_of,
)
from tests.simulation.keepers import Act, clear_away, keep_often
from tests.simulation.patches import living_in
from tests.simulation.schedule import LONG, NO_FAULTS, Broken, drawn_faults
from tests.simulation.store import Blob, Faults, SimStorage
from tests.simulation.tables import data_files, restored_of
from tests.simulation.world import Actor, World

_MOST_ACTORS = 12


def run_bucket_schedule(seed: int) -> World:
    """Run a schedule and check all that it leaves.

    Raises:
        Broken: something is lost, doubled or left over; the message ends with what happened.
    """
    world = World(seed)
    shape = TableShape.drawn(world)
    blobs, first = first_bucket_table(shape)
    schedule = _Schedule(world, shape, dict(blobs), BucketModel({first.token: first}))
    world.now = LONG
    world.trace.append(f"{shape}")
    cleaning.forget_scans(SimStorage(world, schedule.blobs, NO_FAULTS))  # type: ignore[arg-type]
    # What an earlier schedule has found out about files of the same names.
    reader._WHOLE_BASES.clear()
    reader._NOT_WRITTEN.clear()
    try:
        with living_in(world):
            schedule.play()
        after = World(seed + 1)
        after.now = world.now + LONG
        with living_in(after):
            schedule.settle(after)
        check_indexes(schedule.blobs)
    except Exception as error:
        trace = "\n".join(world.trace[-400:])
        raise Broken(f"seed {seed}: {type(error).__name__}: {error}\n{trace}") from error
    return world


class _Schedule:
    def __init__(
        self, world: World, shape: TableShape, blobs: dict[str, Blob], model: BucketModel
    ) -> None:
        self.blobs = blobs
        self._world = world
        self._shape = shape
        self._model = model
        self._is_cleaned = False

    def play(self) -> None:
        """Let all actors do their work."""
        world, dice = self._world, self._world.dice
        faults = drawn_faults(world)
        for number in range(dice.choice((1, 2, 2, 3))):
            self._add_writer(faults, f"writer-{number}", dice.choice((1, 2, 2)))
        for number in range(dice.choice((1, 1, 2))):
            self._add_services(faults, f"resizer-{number}", acts_of(self._shape), 4)
        if dice.random() < 0.2:
            self._is_cleaned = True
            self._add_services(faults, "keeper", dice.choice(WAYS), 3)
        if dice.random() < 0.3:
            self._is_cleaned = True
            storage = SimStorage(world, self.blobs, faults)
            world.add(new_actor(world, "cleaner"), partial(clean_often, world, storage, 2))
        if dice.random() < 0.6:
            # A reader's requests succeed: that of a reader which fails nobody sees anything.
            storage = SimStorage(world, self.blobs, NO_FAULTS)
            read = partial(
                read_buckets_often, world, storage, self._model, 4, is_cleaned=self._is_cleaned
            )
            world.add(new_actor(world, "reader"), read)
        world.run()

    def settle(self, world: World) -> None:
        """Two more writes without trouble, much later; then nothing is left but the table."""
        storage = SimStorage(world, self.blobs, NO_FAULTS)
        model = self._model

        def write_and_check() -> None:
            # A restore that was cut short takes plans back. What dead processes have spilled, those
            # of their own host remove.
            for host in (*HOSTS, world.actor.host):
                world.actor.host = host
                clear_away(storage)
            finish_services(storage, model, self._shape)
            before = len(model.told_conflict)
            BucketWriting(world, storage, model, self._shape).run(2)
            assert len(model.told_conflict) == before, "the table takes no more writes"
            if self._is_cleaned:
                # Cleans that were cut short are carried out by the next one.
                clean_often(world, storage, 1)
            self._check(storage)

        world.add(Actor("last", 99, "host-9"), write_and_check)
        world.run()

    def _add_writer(self, faults: Faults, name: str, writes: int) -> None:
        world = self._world
        storage = SimStorage(world, self.blobs, faults)
        writing = BucketWriting(world, storage, self._model, self._shape)

        def heir() -> None:
            if len(world.actors) < _MOST_ACTORS:
                self._add_writer(faults, f"{name}+", 1)

        world.add(new_actor(world, name), partial(writing.run, writes), heir)

    def _add_services(self, faults: Faults, name: str, acts: tuple[Act, ...], times: int) -> None:
        world = self._world
        storage = SimStorage(world, self.blobs, faults)
        work = partial(keep_often, world, storage, self._model, acts, times)

        def heir() -> None:
            if len(world.actors) < _MOST_ACTORS:
                self._add_services(faults, f"{name}+", acts, 2)

        world.add(new_actor(world, name), work, heir)

    def _check(self, storage: SimStorage) -> None:
        model, blobs = self._model, self.blobs
        snapshot = Snapshot.open(storage)  # type: ignore[arg-type]
        timeline = snapshot.timeline
        done = tokens_of(snapshot)
        assert len(set(done)) == len(done), f"written twice: {done}"
        undone = model.to_roll_back | restored_of(snapshot)
        lost = {
            token
            for token, instant in model.told_done.items()
            if token not in done and instant not in undone
        }
        assert not lost, f"lost: {lost}"
        wrong = model.told_conflict & set(done)
        assert not wrong, f"told to be in conflict, but committed: {wrong}"
        found, expected = content_of(snapshot), model.rows(done)
        different = sorted(found.items() ^ expected.items())
        assert not different, f"the table and what was written differ: {different}"
        assert not list(timeline.pending()), "something pends"
        check_buckets(snapshot, blobs, self._shape)
        named = {
            stat.path
            for instant in timeline.between(None)
            for stat in timeline.commit_metadata(instant).stats()
        }
        there = set(data_files(blobs)) | {
            path for path in blobs if ".log." in path and not path.startswith(".hoodie/")
        }
        assert there <= named, f"files that nobody committed: {there - named}"
        needed = {part.path_of(name) for part in snapshot.slices for name in part.file_names}
        assert needed <= there, f"files are gone: {needed - there}"
        listed = {
            f"{partition}/{name}"
            for partition, files in snapshot.listing.files.items()
            for name, _ in files
        }
        assert listed == there, f"the metadata table lists other files: {listed ^ there}"
        left = [p for p in blobs if p.startswith((MARKERS, SPILL, HEARTBEATS, WRITERS))]
        assert not left, f"left over: {left}"
        rings = [path for path in blobs if path.startswith(FOLDER)]
        assert self._shape.has_ring or not rings, f"rings of a fixed number of buckets: {rings}"
