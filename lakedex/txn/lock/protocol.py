"""What a lock of a table can do, and how patient its holder is."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from lakedex.errors import InvalidInput


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
