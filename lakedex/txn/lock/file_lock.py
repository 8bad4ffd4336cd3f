"""The lock file `.hoodie/lock` (`FileSystemBasedLockProvider`), for local disks and HDFS.

Whoever creates it holds the table; removing it gives the table back. The JVM leaves it empty or
puts a JSON text for people into it. Ours is such a text with the holder and the lease besides:
the lock of a killed process of this machine is taken over at once, that of another lakedex when
it was not renewed for its lease, and that of a JVM never, as it cannot be told from one that lives.
"""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from typing import Any

from lakedex.storage import Storage
from lakedex.txn.lock.lease import LeasedLock
from lakedex.txn.lock.protocol import LockOptions
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
