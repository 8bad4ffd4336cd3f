"""Bugs put into the real code, to see that the simulation finds them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from lakedex.index.kinds.bucket.hashing_metadata import HashingMetadata
from lakedex.index.kinds.bucket.ring import HashRing
from lakedex.services.clustering import resizing
from lakedex.txn.lock.lease import LeasedLock
from lakedex.txn.transaction import CommitScope, Transaction
from lakedex.write import pipeline
from lakedex.write.handles.publishing import Publisher
from lakedex.write.resizing import running
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


@contextlib.contextmanager
def rows_for_old_buckets_only() -> Iterator[None]:
    """A write beside a resize says that the new buckets have its rows too, and they have not."""
    with mock.patch.object(pipeline, "copied_parts", return_value=[]):
        yield


@contextlib.contextmanager
def ring_after_completion() -> Iterator[None]:
    """A resize becomes visible, and only then its ring is stored."""
    put_off: list[tuple[HashingMetadata, HashRing]] = []
    real_store, real_mark = HashingMetadata.store, HashingMetadata.mark

    def store(self: HashingMetadata, ring: HashRing) -> None:
        put_off.append((self, ring))

    def mark(self: HashingMetadata, partition: str) -> None:
        while put_off:
            real_store(*put_off.pop())
        real_mark(self, partition)

    with (
        mock.patch.object(HashingMetadata, "store", store),
        mock.patch.object(HashingMetadata, "mark", mark),
    ):
        yield


@contextlib.contextmanager
def rows_in_any_new_bucket() -> Iterator[None]:
    """A resize gives rows to its new buckets in turn, whatever their hashes are."""

    def numbers(self: running._Children, rows: pa.Table) -> Any:
        own = [
            number
            for number in range(self.buckets.count)
            if self.outputs is None or self.buckets.file_id(number) in self.outputs
        ]
        return np.resize(np.array(own, dtype=np.int64), rows.num_rows)

    with mock.patch.object(running._Children, "numbers", numbers):
        yield


@contextlib.contextmanager
def old_buckets_that_stay() -> Iterator[None]:
    """A resize does not say that the old buckets are gone."""
    real = resizing.write_resizes

    def write(*args: Any, **named: Any) -> Any:
        return replace(real(*args, **named), replaced=())

    with mock.patch.object(resizing, "write_resizes", write):
        yield
