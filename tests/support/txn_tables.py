"""A small table and one write of it in plain steps, for tests of transactions.

The write may be told to die, as by kill -9, before any of its changes of the store.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakedex.filegroup import FileSliceId
from lakedex.filegroup.names import base_file_name
from lakedex.format.logfile import empty_init_block
from lakedex.storage import Storage, open_storage
from lakedex.storage.open import StorageAddress
from lakedex.timeline import (
    Action,
    CommitMetadata,
    Instant,
    State,
    WriteStat,
    encode_commit_metadata,
    load_table_config,
    write_instant,
)
from lakedex.txn.lock import LockOptions, open_lock
from lakedex.txn.markers import MarkerKind, create_marker
from lakedex.txn.transaction import CommitScope, Transaction, TransactionOptions
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema([("id", pa.string()), ("ver", pa.int32()), ("p", pa.string())])
OPTIONS = TransactionOptions(LockOptions(wait_seconds=20, poll_seconds=0.02))
NEW_FILE_ID = "0a0a0a0a-0000-0000-0000-000000000001-0"


def new_table(path: Path, *, metadata: str | None = "log", table_type: str = "cow") -> TableBuilder:
    """A table with two partitions of one file group each."""
    builder = TableBuilder(
        path,
        SCHEMA,
        record_key="id",
        partition_by="p",
        ordering="ver",
        table_type=table_type,
        metadata=metadata,
    )
    builder.commit(
        [
            (part, pa.table({"id": [f"{part}1", f"{part}2"], "ver": pa.array([1, 1], pa.int32())}))
            for part in ("a", "b")
        ]
    )
    builder.finish()
    return builder


def begin(path: Path | str, action: Action = Action.COMMIT, **kinds: str) -> Transaction:
    """A transaction on a table, begun."""
    address = StorageAddress.of(str(path))
    operation = kinds.get("operation", "UPSERT")
    return Transaction.begin(address, action=action, operation=operation, options=OPTIONS)


def write_file(storage: Storage, instant: str, partition: str = "p=a") -> WriteStat:
    """A marker, then a data file of no real content, and the stat that names it."""
    path = f"{partition}/{base_file_name(NEW_FILE_ID, '0-0-0', instant, 'parquet')}"
    create_marker(storage, instant, path, MarkerKind.CREATE)
    storage.create(path, b"rows")
    return WriteStat(
        file_id=NEW_FILE_ID, path=path, partition_path=partition, file_size_bytes=4, num_writes=1
    )


def metadata_commit(scope: CommitScope, instant: str) -> None:
    """A deltacommit of the metadata table that changes nothing, in the usual steps."""
    storage = scope.storage.sub(".hoodie/metadata")
    config = load_table_config(storage)
    for state in (State.REQUESTED, State.INFLIGHT):
        write_instant(storage, config, Instant(instant, Action.DELTACOMMIT, state), b"")
    name = f".files-0000-0_{instant}.log.1_0-0-0"
    storage.create(f"files/{name}", empty_init_block(instant))
    stat = WriteStat(file_id="files-0000-0", path=f"files/{name}", partition_path="files")
    done = Instant(instant, Action.DELTACOMMIT, State.COMPLETED, scope.next_time())
    write_instant(storage, config, done, encode_commit_metadata(CommitMetadata({"files": (stat,)})))


def whole_write(transaction: Transaction, touched: Sequence[FileSliceId] = ()) -> str:
    """All steps of a write of one file after its beginning."""
    storage = transaction._storage
    transaction.start_writing()
    stat = write_file(storage, transaction.instant)
    storage.create(f"{transaction.scratch}/keys-0", b"spilled")

    def prepare(scope: CommitScope) -> CommitMetadata:
        if scope.snapshot.config.metadata_enabled:
            metadata_commit(scope, transaction.instant)
        return CommitMetadata({"p=a": (stat,)}, operation_type="UPSERT")

    return transaction.commit(prepare, touched=touched)


class DyingStorage:
    """A storage whose process dies before one of its changes; counts them otherwise."""

    def __init__(self, inner: Storage, left: list[int]) -> None:
        """Die when `left[0]` changes were made."""
        self._inner = inner
        self._left = left

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ("create", "replace", "delete", "delete_folder"):
            return found

        def change(*args: Any, **kinds: Any) -> Any:
            if self._left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left[0] -= 1
            return found(*args, **kinds)

        return change

    def sub(self, prefix: str) -> DyingStorage:
        """The same storage deeper, with the same end."""
        return DyingStorage(self._inner.sub(prefix), self._left)


class DyingAddress:
    """An address whose storage lets its process die."""

    def __init__(self, path: str, changes: int) -> None:
        """Die after so many changes."""
        self._storage = DyingStorage(open_storage(path), [changes])

    def open(self) -> Any:
        """The storage."""
        return self._storage


def write_and_die(path: str, changes: int) -> None:
    """A whole write in a process of its own, which dies before its change number `changes`."""
    address: Any = DyingAddress(path, changes)
    whole_write(
        Transaction.begin(address, action=Action.COMMIT, operation="UPSERT", options=OPTIONS)
    )


def recover_and_die(path: str, changes: int) -> None:
    """Only the beginning of a write, in a process that ends after it or dies on the way."""
    address: Any = DyingAddress(path, changes)
    Transaction.begin(address, action=Action.COMMIT, operation="UPSERT", options=OPTIONS)


def hold_lock_forever(path: str, ready: Any) -> None:
    """Take the lock and begin an instant, and wait to be killed."""
    transaction = begin(path)
    transaction.start_writing()
    write_file(open_storage(path), transaction.instant)
    transaction._lock.acquire()
    ready.set()
    signal.pause()


def count_under_lock(path: str, rounds: int) -> None:
    """Read a number, then write the next one, under the lock: lost rounds show."""
    storage = open_storage(path)
    lock = open_lock(storage, OPTIONS.lock)
    for _ in range(rounds):
        with lock:
            number = int(Path(path, "number").read_text())
            lock.check()
            Path(path, "number").write_text(str(number + 1))
