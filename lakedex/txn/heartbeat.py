"""Signs of life of the writer of an instant, and how others read them.

A writer refreshes `.hoodie/.heartbeat/<T>`, an empty file as the JVM has it, and names its process
in `.hoodie/.lakedex/writers/<T>.json`. It is dead when that process is known to have ended, or when
it missed too many beats, by the clock of this machine and by that of the store. A JVM that is set
up as the only writer keeps no heartbeat: its instant counts as alive while something of it is
young.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lakedex.errors import FileMissing, InvalidInput, StorageError
from lakedex.storage import Storage, split
from lakedex.txn.clocks import own_now_ms, store_now_ms
from lakedex.txn.process import ProcessId
from lakedex.txn.working_folders import HEARTBEATS, WRITERS, heartbeat_path, writer_path

_log = logging.getLogger("lakedex")


@dataclass(frozen=True, slots=True)
class HeartbeatOptions:
    """How often a writer gives a sign of life, and how many may be missed."""

    interval_seconds: float = 60.0
    tolerable_misses: int = 2

    def __post_init__(self) -> None:
        if self.interval_seconds <= 0 or self.tolerable_misses < 1:
            raise InvalidInput(
                f"a heartbeat needs an interval and a tolerable miss, not {self.interval_seconds} "
                f"and {self.tolerable_misses}"
            )

    @property
    def tolerance_seconds(self) -> float:
        """How old the newest sign of life of a living writer may be."""
        return self.interval_seconds * (self.tolerable_misses + 1)


class Heartbeat:
    """The signs of life of one instant of this process."""

    def __init__(
        self,
        storage: Storage,
        instant: str,
        options: HeartbeatOptions,
        *,
        keeps_plan: bool = False,
    ) -> None:
        """Write nothing yet.

        With `keeps_plan` the instant's requested file was there before this process, and stays
        when what the process does is taken back.
        """
        self._storage = storage
        self._instant = instant
        self._options = options
        self._keeps_plan = keeps_plan
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, *, is_new: bool = False) -> None:
        """Name this process as the writer, and beat until `stop`.

        Args:
            is_new: Whether the instant is to be of this process alone.

        Raises:
            AlreadyExists: a process is named as the writer of a new instant.
        """
        record = {
            "process": ProcessId.current().to_json(),
            "tolerance_seconds": self._options.tolerance_seconds,
            "keeps_plan": self._keeps_plan,
        }
        data = json.dumps(record).encode()
        if is_new:
            self._storage.create(writer_path(self._instant), data)
        else:
            self._storage.replace(writer_path(self._instant), data)
        self._storage.replace(heartbeat_path(self._instant), b"")
        self._thread = threading.Thread(target=self._beat, name="lakedex-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Beat no more, and remove the heartbeat: who is still pending now counts as dead."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._storage.delete(heartbeat_path(self._instant))

    def release(self) -> None:
        """Beat no more, and name this process no longer: the instant is nobody's, or has ended."""
        self.stop()
        self._storage.delete(writer_path(self._instant))

    def _beat(self) -> None:
        while not self._stop.wait(self._options.interval_seconds):
            try:
                self._storage.replace(heartbeat_path(self._instant), b"")
            except StorageError as error:
                _log.warning("no heartbeat of %s this time: %s", self._instant, error)


@dataclass(frozen=True)
class SignsOfLife:
    """All heartbeats of a table at one moment, in milliseconds since 1970."""

    storage: Storage
    beats: Mapping[str, int]
    writers: frozenset[str]
    """The instants that a lakedex process wrote or writes."""
    options: HeartbeatOptions
    now_ms: int

    @classmethod
    def load(cls, storage: Storage, options: HeartbeatOptions) -> SignsOfLife:
        """Read what is there now."""
        beats = {split(info.path)[1]: info.modified_ms for info in storage.list(HEARTBEATS)}
        writers = (split(info.path)[1].removesuffix(".json") for info in storage.list(WRITERS))
        return cls(storage, beats, frozenset(writers), options, own_now_ms())

    def is_alive(self, instant: str, other_signs_ms: Iterable[int] = ()) -> bool:
        """Whether the writer of a pending instant may still be at work.

        `other_signs_ms` are moments at which it must have lived, for writers without heartbeat.
        """
        tolerance = self.options.tolerance_seconds
        if instant in self.writers:
            record = self._writer(instant)
            if _has_ended(record):
                return False
            stored = record.get("tolerance_seconds")
            if isinstance(stored, int | float) and stored > 0:
                tolerance = float(stored)
            other_signs_ms = ()
        if instant in self.beats:
            return self._is_young(self.beats[instant], tolerance)
        return any(self._is_young(sign, tolerance) for sign in other_signs_ms)

    def may_go_on(self, instant: str) -> bool:
        """Whether the process that claimed an instant may go on one day, however silent it is."""
        return instant in self.writers and not _has_ended(self._writer(instant))

    def keeps_plan(self, instant: str) -> bool:
        """Whether the process of an instant was to leave its plan on the timeline."""
        return instant in self.writers and self._writer(instant).get("keeps_plan") is True

    @cached_property
    def _store_ms(self) -> int:
        return store_now_ms(self.storage)

    def _is_young(self, moment_ms: int, tolerance: float) -> bool:
        """A moment far in the future comes from a clock that says nothing.

        What looks old may do so because the clock of this machine is off: then the store is asked.
        """
        nearness = tolerance * 1000
        if abs(self.now_ms - moment_ms) <= nearness:
            return True
        return abs(self._store_ms - moment_ms) <= nearness

    def _writer(self, instant: str) -> Mapping[str, Any]:
        try:
            tree = json.loads(self.storage.read(writer_path(instant)))
        except (FileMissing, ValueError, RecursionError):
            return {}
        return tree if isinstance(tree, dict) else {}


def _has_ended(record: Mapping[str, Any]) -> bool:
    process = ProcessId.from_json(record.get("process"))
    return process is not None and process.is_surely_dead()


def is_alive(storage: Storage, instant: str, options: HeartbeatOptions | None = None) -> bool:
    """Whether an instant has a heartbeat of a writer that may still be at work."""
    return SignsOfLife.load(storage, options or HeartbeatOptions()).is_alive(instant)
