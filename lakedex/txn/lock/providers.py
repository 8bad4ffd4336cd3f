"""Hudi's two lock providers that need no service: a lock file, and a lock object.

`FileLock` is `FileSystemBasedLockProvider`, for local disks and HDFS: the file `.hoodie/lock`. The
writer that creates it holds the table, and removing it releases the lock. The JVM leaves it empty
or writes a JSON text for people. Ours is such a text with holder and lease: the lock of a killed
process of this machine is taken over at once, that of another lakedex when it was not renewed for
its lease, and that of a JVM never, because a live one cannot be told from a dead one.

`StorageLock` is `StorageBasedLockProvider`, for object stores: `.hoodie/.locks/table_lock.json`.

    {"expired": false, "validUntil": <epoch ms>, "owner": "<uuid>"}

It is free if absent, if expired, or if it was not renewed for a lease. The owner's name contains
the lease of a lakedex and its process: the lock of a killed process of this machine is taken over
at once. Other owners get the JVM's default lease, or our own where that is longer. The object is
never removed: releasing the lock writes `expired`.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from lakedex.storage import Storage
from lakedex.txn.lock.lease import LeasedLock, LockOptions
from lakedex.txn.process import ProcessId

_TOKEN = "lakedexOwner"
_VALID_UNTIL = "lakedexValidUntil"
_LEASE = "lakedexLeaseMs"
_PROCESS = "lakedexProcess"


class FileLock(LeasedLock):
    """The lock file of a table on a file system."""

    path = ".hoodie/lock"

    def __init__(self, storage: Storage, options: LockOptions) -> None:
        """Take nothing yet."""
        super().__init__(storage, options)
        self._process = ProcessId.current()
        # pyarrow cannot create exclusively on HDFS: there the winner reads what it wrote.
        self.is_free_when_absent = storage.root.startswith("/")

    def _claim(self, token: str, valid_until_ms: int) -> bytes:
        record = {
            "lockCreateTime": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3],
            "lockThreadName": threading.current_thread().name,
            "lockStacksInfo": [],
            _TOKEN: token,
            _VALID_UNTIL: valid_until_ms,
            _LEASE: self._lease_ms,
            _PROCESS: self._process.to_json(),
        }
        return json.dumps(record).encode()

    def _token_of(self, data: bytes) -> str | None:
        token = _parse(data).get(_TOKEN)
        return token if isinstance(token, str) else None

    def _is_given_back(self, data: bytes) -> bool:
        if self._token_of(data) is None:
            return False
        process = ProcessId.from_json(_parse(data).get(_PROCESS))
        return process is not None and process.is_surely_dead()

    def _lease_of(self, data: bytes) -> float | None:
        if self._token_of(data) is None:
            return None
        lease_ms = _parse(data).get(_LEASE)
        if isinstance(lease_ms, int) and lease_ms > 0:
            return lease_ms / 1000
        return self._options.lease_seconds

    def _valid_until(self, data: bytes) -> int | None:
        until = _parse(data).get(_VALID_UNTIL)
        return until if isinstance(until, int) else None

    def _describe(self, data: bytes) -> str:
        record = _parse(data)
        process = ProcessId.from_json(record.get(_PROCESS))
        if process is not None:
            return str(process)
        since = record.get("lockCreateTime")
        return "another engine" + (f" since {since}" if isinstance(since, str) else "")

    def _give_back(self, data: bytes, version: str) -> None:
        del data  # the file goes
        self._storage.delete(self.path, if_version=version)


def _parse(data: bytes) -> dict[str, Any]:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}


_OWN = "lakedex"
_MOST_DIGITS = 12
_LONGEST_TOKEN = 4096
_LEASE_OF_OTHERS_S = 300.0
"""What the JVM's lock is valid for, unless set up otherwise."""


class StorageLock(LeasedLock):
    """The lock object of a table on an object store."""

    path = ".hoodie/.locks/table_lock.json"

    def _claim(self, token: str, valid_until_ms: int) -> bytes:
        return _record(token, valid_until_ms, expired=False)

    def _token_of(self, data: bytes) -> str | None:
        owner = _parse_object(data).get("owner")
        return owner if isinstance(owner, str) else None

    def _new_token(self) -> str:
        # The JVM reads no other fields than these three; a name it only compares.
        process = json.dumps(ProcessId.current().to_json()).encode().hex()
        return f"{_OWN}-{self._lease_ms}-{uuid.uuid4()}-{process}"

    def _is_given_back(self, data: bytes) -> bool:
        if _parse_object(data).get("expired") is True:
            return True
        process = self._process_of(data)
        return process is not None and process.is_surely_dead()

    def _process_of(self, data: bytes) -> ProcessId | None:
        """The process of a lakedex that holds the lock."""
        token = self._token_of(data) or ""
        if not token.startswith(f"{_OWN}-") or len(token) > _LONGEST_TOKEN:
            return None
        try:
            return ProcessId.from_json(json.loads(bytes.fromhex(token.rpartition("-")[2])))
        except (ValueError, RecursionError):
            return None

    def _lease_of(self, data: bytes) -> float | None:
        if self._valid_until(data) is None:
            return None
        name, _, rest = (self._token_of(data) or "").partition("-")
        milliseconds = rest.partition("-")[0]
        is_number = milliseconds.isascii() and milliseconds.isdigit()
        if name == _OWN and is_number and len(milliseconds) <= _MOST_DIGITS:
            return int(milliseconds) / 1000
        return max(_LEASE_OF_OTHERS_S, self._options.lease_seconds)

    def _valid_until(self, data: bytes) -> int | None:
        until = _parse_object(data).get("validUntil")
        return until if isinstance(until, int) else None

    def _describe(self, data: bytes) -> str:
        process = self._process_of(data)
        if process is not None:
            return str(process)
        return f"the writer {str(_parse_object(data).get('owner', 'without a name'))[:80]}"

    def _give_back(self, data: bytes, version: str) -> str:
        until = self._valid_until(data) or 0
        freed = _record(self._token_of(data) or "", until, expired=True)
        return self._storage.replace(self.path, freed, if_version=version)


def _record(token: str, valid_until_ms: int, *, expired: bool) -> bytes:
    record = {"expired": expired, "validUntil": valid_until_ms, "owner": token}
    return json.dumps(record).encode()


@lru_cache(maxsize=32)
def _parse_object(data: bytes) -> Mapping[str, Any]:
    """The fields of a lock; each look at it asks for several of them."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}
