"""The world of a simulation: one clock, one dice, actors whose threads run one at a time.

A thread gives way at each request to the store and whenever it waits; which one goes on is drawn
from the seed. Time passes only here, so an hour of leases and heartbeats takes no time at all.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

_START_MS = 1_790_000_000_000
_STAYS = 0.6
"""How often a thread goes on although others could: switches are what costs."""


class Killed(BaseException):
    """The process of a thread has ended; not an `Exception`, so that nothing handles it."""


@dataclass(eq=False)
class Actor:
    """A process of the simulation."""

    name: str
    number: int
    host: str
    skew_ms: int = 0
    """How far its clock on the wall is off."""
    is_dead: bool = False
    paused_until: float = 0.0
    log: list[str] = field(default_factory=list)


class SimThread:
    """A thread of an actor; a real one, which waits until it is its turn."""

    def __init__(
        self,
        world: World,
        actor: Actor,
        work: Callable[[], None],
        heir: Callable[[], None] | None = None,
    ) -> None:
        self.actor = actor
        self.heir = heir
        self.world = world
        self.is_done = False
        self.wake_at = world.now
        self.error: BaseException | None = None
        self._work = work
        # A bare lock that is taken already: the quickest thing that a thread can wait for.
        self._turn = threading.Lock()
        self._turn.acquire()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Be one of those who may go on."""
        self._thread.start()
        self.world.threads.append(self)

    def resume(self) -> None:
        """Let it go on; who calls this waits next."""
        self._turn.release()

    def wait_for_turn(self) -> None:
        """Until others let it go on."""
        self._turn.acquire()

    def ready_at(self) -> float:
        """When it may go on; the dead stand still no longer than they wait."""
        actor = self.actor
        is_held = actor.paused_until > self.wake_at and not actor.is_dead
        return actor.paused_until if is_held else self.wake_at

    def _run(self) -> None:
        self.wait_for_turn()
        try:
            if not self.actor.is_dead:
                self._work()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - told by the world
            self.error = error
        self.is_done = True
        self.world.finished(self)


class World:
    """Everything that a seed decides."""

    def __init__(self, seed: int) -> None:
        """At the beginning of time, with nobody in it."""
        self.seed = seed
        self.dice = random.Random(seed)
        self.now = 0.0
        self.threads: list[SimThread] = []
        self.actors: list[Actor] = []
        self.current: SimThread | None = None
        self.trace: list[str] = []
        self._mains: list[SimThread] = []
        self._over = threading.Semaphore(0)
        self._is_ending = False

    @property
    def actor(self) -> Actor:
        """Whose thread runs."""
        assert self.current is not None
        return self.current.actor

    def add(
        self, actor: Actor, work: Callable[[], None], heir: Callable[[], None] | None = None
    ) -> None:
        """Let an actor do its work from now on; the world ends when all have.

        `heir` is called when the actor was killed on the way, and may add another one.
        """
        if actor not in self.actors:
            self.actors.append(actor)
        thread = SimThread(self, actor, work, heir)
        self._mains.append(thread)
        thread.start()

    def wall_ms(self) -> int:
        """The time as the clock of the running actor shows it."""
        return _START_MS + int(self.now * 1000) + self.actor.skew_ms

    def store_ms(self) -> int:
        """The time as the store stamps it."""
        return _START_MS + int(self.now * 1000)

    def run(self) -> None:
        """Until every actor's work is done; raises what a thread raised."""
        first = self._next()
        assert first is not None
        self.current = first
        first.resume()
        self._over.acquire()
        self._is_ending = True
        for thread in list(self.threads):
            if not thread.is_done:
                thread.actor.is_dead = True
                thread.resume()
                thread._thread.join()
        for thread in self.threads:
            if thread.error is not None:
                raise thread.error

    def note(self, text: str) -> None:
        """Keep a line for whoever replays the seed."""
        self.trace.append(f"{self.now:9.3f} {self.actor.name:<9} {text}")

    def give_way(self, seconds: float = 0.0) -> None:
        """Let others go on, and go on oneself no sooner than in so many seconds."""
        mine = self.current
        assert mine is not None
        if mine.actor.is_dead:
            raise Killed
        mine.wake_at = self.now + seconds
        chosen = self._next()
        if chosen is not mine and chosen is not None:
            self.current = chosen
            chosen.resume()
            mine.wait_for_turn()
        if mine.actor.is_dead:
            raise Killed

    def kill(self, actor: Actor) -> None:
        """End a process at once, all its threads with it."""
        actor.is_dead = True
        if self.current is not None and self.current.actor is actor:
            raise Killed

    def finished(self, thread: SimThread) -> None:
        """A thread has ended: somebody else goes on, or the world is over."""
        if self._is_ending:
            return
        if thread.actor.is_dead and thread.heir is not None:
            thread.heir()
        chosen = None if all(main.is_done for main in self._mains) else self._next()
        if chosen is None:
            self._over.release()
            return
        self.current = chosen
        chosen.resume()

    def _next(self) -> SimThread | None:
        """Who goes on; time passes when nobody can yet."""
        # Threads of the dead go on too: they find out, and end.
        alive = [thread for thread in self.threads if not thread.is_done]
        if not alive:
            return None
        if len(alive) < len(self.threads) // 2:
            self.threads = [t for t in self.threads if not t.is_done or t.error is not None]
        able = [thread for thread in alive if thread.ready_at() <= self.now]
        if not able:
            self.now = min(thread.ready_at() for thread in alive)
            able = [thread for thread in alive if thread.ready_at() <= self.now]
        if len(able) == 1:
            return able[0]
        if self.current in able and self.dice.random() < _STAYS:
            return self.current
        return able[self.dice.randrange(len(able))]
