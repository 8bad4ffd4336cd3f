"""Puts the clock, the threads and the processes of a world in the place of the real ones."""

from __future__ import annotations

import contextlib
import random
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from typing import Any
from unittest import mock

from lakedex.timeline import properties_file
from lakedex.txn import clocks, heartbeat, restoring, rollback, rollback_files
from lakedex.txn.lock import lease
from lakedex.txn.process import ProcessId
from lakedex.upkeep import archiving, cleaning, savepoints
from tests.simulation import remembering
from tests.simulation.world import SimThread, World

_POLL = 0.005


@contextlib.contextmanager
def living_in(world: World) -> Iterator[None]:
    """Let the code of transactions live in a world."""
    clock, threads = _Clock(world), _Threads(world)
    names = random.Random(world.seed)
    stand_ins: list[tuple[Any, str, Any]] = [
        *((module, "time", clock) for module in (lease, clocks)),
        *((module, "threading", threads) for module in (lease, heartbeat, clocks)),
        *((module, "time", clock) for module in (rollback, restoring, properties_file)),
        *((module, "time", clock) for module in (cleaning, archiving)),
        (savepoints, "time", clock),
        (rollback_files, "ThreadPoolExecutor", _OneByOne),
        (uuid, "uuid4", lambda: uuid.UUID(int=names.getrandbits(128), version=4)),
        (ProcessId, "current", lambda: _process(world)),
        (ProcessId, "is_surely_dead", lambda of: _is_surely_dead(world, of)),
        *remembering.stand_ins(),
    ]
    if sys.version_info < (3, 12):
        # There all objects of a class share one lock for each cached property, and a thread that
        # gives way while it computes one would stop all others.
        stand_ins += [(each, "lock", contextlib.nullcontext()) for each in _cached_properties()]
    with contextlib.ExitStack() as stack:
        for owner, name, stand_in in stand_ins:
            stack.enter_context(mock.patch.object(owner, name, stand_in))
        yield


@cache
def _cached_properties() -> tuple[Any, ...]:
    modules = [module for name, module in sys.modules.items() if name.startswith("lakedex.")]
    kinds = {each for m in modules for each in vars(m).values() if isinstance(each, type)}
    return tuple(
        each for kind in kinds for each in vars(kind).values() if isinstance(each, cached_property)
    )


def _process(world: World) -> ProcessId:
    actor = world.actor
    return ProcessId(actor.host, actor.host, actor.number, "0")


def _is_surely_dead(world: World, process: ProcessId) -> bool:
    """Known of processes of the own host only."""
    if process.host != world.actor.host:
        return False
    return all(a.is_dead for a in world.actors if a.number == process.number)


class _Clock:
    """What is used of `time`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def time_ns(self) -> int:
        """The clock on the wall of the running actor."""
        return self._world.wall_ms() * 1_000_000

    def monotonic(self) -> float:
        """One that is never off."""
        return self._world.now

    def sleep(self, seconds: float) -> None:
        """Let others go on."""
        self._world.give_way(seconds)


class _Threads:
    """What is used of `threading`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def Thread(  # noqa: N802 - named as the one that it stands for
        self, *, target: Callable[..., None], args: tuple[Any, ...] = (), **_: Any
    ) -> _Thread:
        """A thread of the running actor."""
        return _Thread(self._world, lambda: target(*args))

    def Event(self) -> _Event:  # noqa: N802
        """A flag to wait for."""
        return _Event(self._world)

    def Lock(self) -> _Lock:  # noqa: N802
        """A lock between threads of an actor."""
        return _Lock(self._world)


class _Thread:
    def __init__(self, world: World, work: Callable[[], None]) -> None:
        self._world = world
        self._thread = SimThread(world, world.actor, work)

    def start(self) -> None:
        self._thread.wake_at = self._world.now
        self._thread.start()

    def join(self) -> None:
        while not self._thread.is_done:
            self._world.give_way(_POLL)


class _Event:
    def __init__(self, world: World) -> None:
        self._world = world
        self._is_set = False
        self._waiting: list[SimThread] = []

    def set(self) -> None:
        self._is_set = True
        for thread in self._waiting:
            thread.wake_at = self._world.now

    def wait(self, seconds: float) -> bool:
        end = self._world.now + seconds
        mine = self._world.current
        assert mine is not None
        self._waiting.append(mine)
        while not self._is_set and self._world.now < end:
            self._world.give_way(end - self._world.now)
        self._waiting.remove(mine)
        return self._is_set


class _Lock:
    def __init__(self, world: World) -> None:
        self._world = world
        self._is_held = False

    def __enter__(self) -> None:
        while self._is_held:
            self._world.give_way(_POLL)
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False


class _OneByOne:
    """A pool of one thread, the caller's."""

    def __init__(self, workers: int) -> None:
        del workers

    def __enter__(self) -> _OneByOne:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing runs."""

    def map(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
        """All of it, in order."""
        return [work(task) for task in tasks]
