"""Bugs put into the real code, to see that the simulation finds them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from lakedex.txn.lock.lease import LeasedLock
from lakedex.txn.transaction import CommitScope, Transaction
from lakedex.write.handles.publishing import Publisher
from tests.simulation import actors


@contextlib.contextmanager
def lost_marker() -> Iterator[None]:
    """Data files are written without the note by which a rollback finds them."""
    real = Publisher._create

    def create(self: Publisher, path: str, data: bytes, *, durable: bool = True) -> bool:
        return True if ".marker." in path else real(self, path, data, durable=durable)

    with mock.patch.object(Publisher, "_create", create):
        yield


@contextlib.contextmanager
def unfenced_lock() -> Iterator[None]:
    """A holder does not look whether the lock is still its own."""
    with mock.patch.object(LeasedLock, "check", return_value=None):
        yield


@contextlib.contextmanager
def completion_before_the_metadata_commit() -> Iterator[None]:
    """A write becomes visible, and only then the metadata table learns of its files."""
    put_off: list[Callable[[], None]] = []
    real_changes, real_commit = actors.commit_changes, Transaction.commit

    def changes(*args: Any, **named: Any) -> None:
        put_off.append(lambda: real_changes(*args, **named))

    def commit(self: Transaction, prepare: Callable[[CommitScope], Any], **named: Any) -> str:
        completion = real_commit(self, prepare, **named)
        put_off.pop()()
        return completion

    with (
        mock.patch.object(actors, "commit_changes", changes),
        mock.patch.object(Transaction, "commit", commit),
    ):
        yield
