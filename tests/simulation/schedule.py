"""One schedule: everything that happens follows from its seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache, partial

from lakedex.index.metadata_table import reader
from lakedex.services.clustering.scheduling import pending_clusterings
from lakedex.table import Snapshot
from lakedex.txn.working_folders import HEARTBEATS, MARKERS, SPILL, WRITERS
from lakedex.upkeep import cleaning
from tests.simulation.actors import Writing, clean_often, new_actor, read_often
from tests.simulation.keepers import WAYS, clear_away, keep_often
from tests.simulation.patches import living_in
from tests.simulation.store import Blob, Faults, SimStorage
from tests.simulation.tables import (
    Effect,
    Model,
    completed_of,
    data_files,
    empty_table,
    restored_of,
    rows_of,
)
from tests.simulation.world import Actor, World

NO_FAULTS = Faults()
KINDS = len(fields(Faults))
_ONE_KIND = 0.3
_LONG = 1000.0
"""Seconds after which nobody takes a silent writer for alive."""


class Broken(AssertionError):
    """A schedule after which the table is not what it should be; names its seed."""


def run_schedule(seed: int) -> World:
    """Run a schedule and check all that it leaves.

    Raises:
        Broken: something is lost, doubled or left over; the message ends with what happened.
    """
    world = World(seed)
    world.now = _LONG
    blobs, model = first_table()
    cleaning.forget_scans(SimStorage(world, blobs, NO_FAULTS))  # type: ignore[arg-type]
    # What an earlier schedule has found out about files of the same names.
    reader._WHOLE_BASES.clear()
    reader._NOT_WRITTEN.clear()
    try:
        with living_in(world):
            is_cleaned = _play(world, blobs, model)
        after = World(seed + 1)
        after.now, after.actors = world.now + _LONG, []
        with living_in(after):
            _settle(after, blobs, model, is_cleaned=is_cleaned)
    except Exception as error:
        trace = "\n".join(world.trace[-400:])
        raise Broken(f"seed {seed}: {type(error).__name__}: {error}\n{trace}") from error
    return world


def first_table() -> tuple[dict[str, Blob], Model]:
    """A table with one write."""
    blobs, effects = _first_write()
    return dict(blobs), Model(dict(effects))


@cache
def _first_write() -> tuple[dict[str, Blob], dict[str, Effect]]:
    world, blobs, model = World(0), dict(empty_table()), Model()
    writing = Writing(world, SimStorage(world, blobs, NO_FAULTS), model, lambda instant, work: None)
    with living_in(world):
        world.add(Actor("first", 1, "host-9"), partial(writing.run, 1))
        world.run()
    return blobs, model.effects


def _play(world: World, blobs: dict[str, Blob], model: Model) -> bool:
    """Let all actors do their work, and answer whether one of them removed files."""
    dice = world.dice
    faults = _draw_faults(world)
    for number in range(dice.choice((2, 2, 3, 4))):
        _add_writer(world, blobs, model, faults, f"writer-{number}", dice.choice((1, 2)))
    is_cleaned = dice.random() < 0.4
    if is_cleaned:
        storage = SimStorage(world, blobs, faults)
        world.add(new_actor(world, "cleaner"), partial(clean_often, world, storage, 2))
    # Of two keepers the one may plan what the other runs, at the same time.
    acts = dice.choice(WAYS)
    for number in range(dice.choice((0, 0, 0, 0, 0, 0, 1, 1, 2))):
        is_cleaned = True
        storage = SimStorage(world, blobs, faults)
        keeper = new_actor(world, f"keeper-{number}")
        world.add(keeper, partial(keep_often, world, storage, model, acts, 4))
    if dice.random() < 0.5:
        # A reader's requests succeed: that of a reader which fails nobody sees anything.
        storage = SimStorage(world, blobs, NO_FAULTS)
        read = partial(read_often, world, storage, model, 3, is_cleaned=is_cleaned)
        world.add(new_actor(world, "reader"), read)
    world.run()
    return is_cleaned


def _draw_faults(world: World) -> Faults:
    """Some kinds of trouble and the others not, or very much of one."""
    dice = world.dice
    if dice.random() < _ONE_KIND:
        rates = [0.0] * KINDS
        rates[dice.randrange(KINDS)] = 0.1
    else:
        rates = [dice.choice((0.0, 0.0, 0.01, 0.04)) for _ in range(KINDS)]
    return Faults(*rates)


def _add_writer(
    world: World, blobs: dict[str, Blob], model: Model, faults: Faults, name: str, writes: int
) -> None:
    storage = SimStorage(world, blobs, faults)

    def spawn(instant: str, work: Callable[[], None]) -> None:
        world.add(new_actor(world, f"late-{instant[-4:]}"), work)

    def heir() -> None:
        if len(world.actors) < 12:
            _add_writer(world, blobs, model, faults, f"{name}+", 1)

    actor = new_actor(world, name)
    writing = Writing(world, storage, model, spawn)
    world.add(actor, partial(writing.run, writes), heir)


def _settle(world: World, blobs: dict[str, Blob], model: Model, *, is_cleaned: bool) -> None:
    """Two more writes without trouble, much later; then nothing is left but the table.

    The first takes a time after all that were claimed before; only then may claims go.
    """
    storage = SimStorage(world, blobs, NO_FAULTS)
    before = len(model.told_done)

    def write_and_check() -> None:
        writing = Writing(world, storage, model, lambda instant, work: None)
        # A restore that was cut short takes plans back.
        clear_away(storage)
        planned = pending_clusterings(Snapshot.open(storage).timeline)  # type: ignore[arg-type]
        for instant in planned:
            writing.cluster(instant)
        writing.run(2)
        assert len(model.told_done) == before + len(planned) + 2, "the table takes no more writes"
        if is_cleaned:
            # Cleans that were cut short are carried out by the next one.
            clean_often(world, storage, 1)
        _check(storage, blobs, model)

    world.add(Actor("last", 99, "host-9"), write_and_check)
    world.run()


def _check(storage: SimStorage, blobs: dict[str, Blob], model: Model) -> None:
    snapshot = Snapshot.open(storage)  # type: ignore[arg-type]
    done = completed_of(snapshot)
    undone = model.to_roll_back | restored_of(snapshot)
    lost = model.told_done - set(done) - undone
    assert not lost, f"lost: {lost}"
    wrong = model.told_conflict & set(done)
    assert not wrong, f"told to be in conflict, but committed: {wrong}"
    expected = model.rows(done)
    found = rows_of(snapshot)
    assert found == expected, f"the table holds {found}, not {expected}"
    assert not list(snapshot.timeline.pending()), "something pends"
    named = {
        stat.path
        for instant in snapshot.timeline.between(None)
        for stat in snapshot.timeline.commit_metadata(instant).stats()
    }
    there = set(data_files(blobs))
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
