"""A lock as one small file that is written by conditional writes, with a lease that is renewed.

The file names its holder and says until when it is held. It is created if absent, taken over if it
was given back or has not been renewed for a lease, and renewed by a thread as long as the holder
lives. Every such write has one winner. A holder trusts its lease by its own two clocks and by what
the file says, so one that was stopped for too long finds out before it changes anything. Others
never compare the times in the file with their own clock: what a holder wrote about the end of its
lease is a time of its own clock, and those of two machines may be further apart than any lease. So
whether a lease ran out is decided by two moments of one clock (`Watch`): the store's, which stamps
the lock file and a file that is written now, or the own one, for as long as the file is watched.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Protocol, Self

from lakedex.errors import (
    AlreadyExists,
    CommitConflict,
    FileMissing,
    InvalidInput,
    StorageError,
    VersionMismatch,
)
from lakedex.storage import Storage
from lakedex.storage.paths import split
from lakedex.txn.clocks import store_stamp_ms


@dataclass(frozen=True, slots=True)
class LockOptions:
    """How long to wait for a lock, and how long it is held without a sign of life.

    A lock whose holder gives no sign of life for `lease_seconds` may be taken by others, so
    these are shorter than the wait: whoever comes after a crash gets through.

    Example:
        >>> LockOptions(lease_seconds=10, renew_seconds=10)
        Traceback (most recent call last):
        lakedex.errors.InvalidInput: a lock is renewed more than once within its lease...
    """

    wait_seconds: float = 60.0
    lease_seconds: float = 30.0
    renew_seconds: float = 10.0
    poll_seconds: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.renew_seconds <= self.lease_seconds / 2:
            raise InvalidInput(
                "a lock is renewed more than once within its lease: "
                f"renew_seconds={self.renew_seconds}, lease_seconds={self.lease_seconds}"
            )
        if self.wait_seconds < 0 or self.poll_seconds <= 0:
            raise InvalidInput(
                f"a lock cannot be waited for: wait_seconds={self.wait_seconds}, "
                f"poll_seconds={self.poll_seconds}"
            )


class TableLock(Protocol):
    """Keeps all other writers of a table out; held by one thread of one process at a time.

    `with lock:` acquires and releases. A lock object can be acquired again after its release,
    and not while it is held.
    """

    def acquire(self) -> None:
        """Take the lock, waiting for it.

        Raises:
            CommitConflict: others held it all the time; the message names the file.
        """

    def release(self) -> None:
        """Give the lock back; one that was lost meanwhile is left to its new holder."""

    def check(self) -> None:
        """Make sure that the lock is still held, and will be for at least half a lease.

        Raises:
            CommitConflict: it was lost: the holder was stopped for too long.
        """

    def check_lease(self) -> None:
        """Make sure by the own clocks alone that half a lease is left; it is renewed where not.

        No process takes over a lock whose lease has not expired, so this is enough for steps that
        another `check` follows before anybody sees them.

        Raises:
            CommitConflict: it was lost.
        """

    def __enter__(self) -> Self:
        """Acquire."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release."""


_MARGIN_S = 0.5
"""Clocks of two machines may go at a slightly different pace."""
_FIRST_LOOK = 0.1
"""The part of a lease after which the store is asked for the age of a lock."""
_log = logging.getLogger("lakedex")


class Watch:
    """A lock file that others hold, looked at again and again."""

    def __init__(self, storage: Storage, path: str) -> None:
        """Nothing was seen yet."""
        self._storage = storage
        self._path = path
        self._version: str | None = None
        self._since = 0.0
        self._age_then: float | None = None

    def age(self, version: str) -> float:
        """For how many seconds the file has had that version at least, as far as is known."""
        now = time.monotonic()
        if version != self._version:
            self._version, self._since, self._age_then = version, now, None
        return now - self._since + (self._age_then or 0.0)

    def age_in_store(self, version: str) -> float:
        """The same, by the clock of the store too; that is asked once for a version."""
        watched = self.age(version)
        if self._age_then is None:
            self._age_then = max(0.0, self._stamped_age() - watched)
        return self.age(version)

    def _stamped_age(self) -> float:
        """How old the file is at least by its stamp; 0 where the store does not tell."""
        try:
            listed = self._storage.list(split(self._path)[0])
            stamps = [info.modified_ms for info in listed if info.path == self._path]
            now_ms = store_stamp_ms(self._storage) if stamps else None
        except StorageError:
            return 0.0
        if now_ms is None:
            return 0.0
        # Most stores cut their stamps to whole seconds.
        is_cut = now_ms % 1000 == 0 or stamps[0] % 1000 == 0
        return (now_ms - stamps[0]) / 1000 - (1.0 if is_cut else 0.0)


@dataclass(slots=True)
class _Lease:
    """A lock that is held: the file and its version, and the clocks at its last renewal."""

    token: str
    data: bytes
    version: str | None
    """None until the file that this process created is looked at for the first time."""
    taken_ms: int
    taken_monotonic: float


class LeasedLock(ABC):
    """What lock files have in common; children say where the file lies and how it looks."""

    path: str
    is_free_when_absent = False
    """Whether there is no file while the lock is free, and only one creator can win."""

    def __init__(self, storage: Storage, options: LockOptions) -> None:
        """Take nothing yet."""
        self._storage = storage
        self._options = options
        self._lease: _Lease | None = None
        self._freed: str | None = None
        """The version of the file as this lock gave it back, where it stays."""
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._renewer: threading.Thread | None = None

    @abstractmethod
    def _claim(self, token: str, valid_until_ms: int) -> bytes:
        """The content of the file while it is held."""

    @abstractmethod
    def _token_of(self, data: bytes) -> str | None:
        """The holder that a content names; None when it is not of this form."""

    @abstractmethod
    def _is_given_back(self, data: bytes) -> bool:
        """Whether a file with this content may be taken over at once."""

    @abstractmethod
    def _lease_of(self, data: bytes) -> float | None:
        """After how many seconds without a renewal it may be taken over; None for never."""

    @abstractmethod
    def _valid_until(self, data: bytes) -> int | None:
        """The end of the lease by the clock of the holder, if the content says so."""

    @abstractmethod
    def _describe(self, data: bytes) -> str:
        """The holder, for people."""

    @abstractmethod
    def _give_back(self, data: bytes, version: str) -> str | None:
        """Free the file of that version, which holds `data`; returns its new version, if any."""

    def acquire(self) -> None:
        """Take the lock, waiting for it."""
        if self._lease is not None:
            raise RuntimeError(f"{self._storage.root}/{self.path} is held already")
        token = self._new_token()
        watch = Watch(self._storage, self.path)
        deadline = time.monotonic() + self._options.wait_seconds
        while True:
            is_last = time.monotonic() >= deadline
            lease, found = self._try(token, watch, is_last=is_last)
            if lease is not None:
                break
            if is_last:
                raise CommitConflict(
                    f"{self._storage.root}/{self.path} is held by {self._describe(found)}; waited "
                    f"{self._options.wait_seconds:g} s. Retry, or remove the file if no writer runs"
                )
            time.sleep(self._options.poll_seconds)
        self._lease = lease
        self._stop = threading.Event()
        self._renewer = threading.Thread(
            target=self._renew_often, args=(self._stop,), name="lakedex-lock", daemon=True
        )
        self._renewer.start()

    def release(self) -> None:
        """Give the lock back."""
        lease, renewer = self._lease, self._renewer
        if lease is None:
            return
        self._stop.set()
        if renewer is not None:
            renewer.join()
        self._lease, self._renewer = None, None
        try:
            self._freed = self._give_back(lease.data, self._version_of(lease))
        except (CommitConflict, VersionMismatch):
            _log.warning("the lock %s/%s was lost while held", self._storage.root, self.path)
        except StorageError as error:
            # Its lease runs out by itself; what was done under it stands.
            _log.warning("the lock was not given back: %s", error)

    def check(self) -> None:
        """Make sure that the lock is still held, and will be for at least half a lease."""
        lease = self._lease
        if lease is None:
            raise CommitConflict(f"{self._storage.root}/{self.path} is not held")
        with self._guard:
            if self._left_seconds(lease) < self._options.lease_seconds / 2:
                self._renew(lease)
            elif lease.version is None:
                self._version_of(lease)
            elif self._read()[1] != lease.version:
                self._lost(lease)

    def check_lease(self) -> None:
        """Make sure by the own clocks that half a lease is left; it is renewed where not."""
        lease = self._lease
        if lease is None or self._left_seconds(lease) < self._options.lease_seconds / 2:
            self.check()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _new_token(self) -> str:
        return str(uuid.uuid4())

    def _try(self, token: str, watch: Watch, *, is_last: bool) -> tuple[_Lease | None, bytes]:
        """The lease if the lock could be taken, else the content that stands in the way."""
        lease = self._try_at_once(token)
        if lease is not None:
            return lease, b""
        found, version = self._read()
        begun_ms, begun_monotonic = _now_ms(), time.monotonic()
        data = self._claim(token, begun_ms + self._lease_ms)
        try:
            if version is None:
                self._storage.create(self.path, data)
                found, version = self._read()
            elif self._token_of(found) == token:
                # The answer to our own write was lost, and the write repeated.
                return _Lease(token, found, version, begun_ms, begun_monotonic), b""
            elif self._may_be_taken(found, version, watch, is_last=is_last):
                begun_ms, begun_monotonic = _now_ms(), time.monotonic()
                data = self._claim(token, begun_ms + self._lease_ms)
                version = self._storage.replace(self.path, data, if_version=version)
                found = data
            else:
                return None, found
        except (AlreadyExists, VersionMismatch):
            return None, found
        if version is None or self._token_of(found) != token:
            return None, found
        return _Lease(token, found, version, begun_ms, begun_monotonic), b""

    def _try_at_once(self, token: str) -> _Lease | None:
        """The lease of a lock that is free, without a look at its file before."""
        begun_ms, begun_monotonic = _now_ms(), time.monotonic()
        data = self._claim(token, begun_ms + self._lease_ms)
        freed, self._freed = self._freed, None
        version = None
        try:
            if self.is_free_when_absent:
                self._storage.create(self.path, data)
            elif freed is not None:
                # Its version changes when another process takes it.
                version = self._storage.replace(self.path, data, if_version=freed)
            else:
                return None
        except (AlreadyExists, VersionMismatch):
            return None
        return _Lease(token, data, version, begun_ms, begun_monotonic)

    def _version_of(self, lease: _Lease) -> str:
        """The version of the file, which is read where it is not known yet."""
        if lease.version is None:
            found, lease.version = self._read()
            if lease.version is None or self._token_of(found) != lease.token:
                self._lost(lease)
        return lease.version

    def _may_be_taken(self, found: bytes, version: str, watch: Watch, *, is_last: bool) -> bool:
        """Whether a lock was given back, or its lease ran out by a clock that can be trusted."""
        if self._is_given_back(found):
            return True
        lease = self._lease_of(found)
        if lease is None:
            return False
        age = watch.age(version)
        until = self._valid_until(found)
        looks_old = until is None or _now_ms() > until
        if age <= lease + _MARGIN_S and (looks_old or is_last or age > lease * _FIRST_LOOK):
            age = watch.age_in_store(version)
        return age > lease + _MARGIN_S

    def _read(self) -> tuple[bytes, str | None]:
        try:
            return self._storage.read_with_version(self.path)
        except FileMissing:
            return b"", None

    def _renew_often(self, stop: threading.Event) -> None:
        while not stop.wait(self._options.renew_seconds):
            lease = self._lease
            if lease is None:
                return
            try:
                with self._guard:
                    self._renew(lease)
            except CommitConflict:
                return
            except StorageError as error:
                _log.warning("the lock could not be renewed, trying again: %s", error)

    def _renew(self, lease: _Lease) -> None:
        if self._left_seconds(lease) <= 0:
            self._lost(lease)
        begun_ms, begun_monotonic = _now_ms(), time.monotonic()
        data = self._claim(lease.token, begun_ms + self._lease_ms)
        try:
            known = self._version_of(lease)
            lease.version = self._storage.replace(self.path, data, if_version=known)
        except VersionMismatch:
            found, version = self._read()
            if version is None or found != data:
                self._lost(lease)
            lease.version = version
        lease.data, lease.taken_ms, lease.taken_monotonic = data, begun_ms, begun_monotonic

    def _lost(self, lease: _Lease) -> NoReturn:
        lease.taken_monotonic = float("-inf")
        raise CommitConflict(
            f"the lock {self._storage.root}/{self.path} was lost: this process gave no sign of "
            f"life for {self._options.lease_seconds:g} s, or the file was changed by others"
        )

    @property
    def _lease_ms(self) -> int:
        return int(self._options.lease_seconds * 1000)

    def _left_seconds(self, lease: _Lease) -> float:
        """What is left of a lease by the clock that says less: one stands while asleep."""
        passed = max(time.monotonic() - lease.taken_monotonic, (_now_ms() - lease.taken_ms) / 1000)
        return self._options.lease_seconds - passed


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
