"""The lock object `.hoodie/.locks/table_lock.json` (`StorageBasedLockProvider`) of object stores.

    {"expired": false, "validUntil": <epoch ms>, "owner": "<uuid>"}

It is free when absent, when expired, or when it was not renewed for a lease. How long the lease of
a lakedex is stands in its name, with its process: the lock of a killed process of this machine is
taken over at once. Others are given what the JVM takes by itself, or the own lease where that is
longer. It is never removed: giving the table back writes `expired`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lakedex.txn.lock.lease import LeasedLock
from lakedex.txn.process import ProcessId

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
        owner = _parse(data).get("owner")
        return owner if isinstance(owner, str) else None

    def _new_token(self) -> str:
        # The JVM reads no other fields than these three; a name it only compares.
        process = json.dumps(ProcessId.current().to_json()).encode().hex()
        return f"{_OWN}-{self._lease_ms}-{uuid.uuid4()}-{process}"

    def _is_given_back(self, data: bytes) -> bool:
        if _parse(data).get("expired") is True:
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
        until = _parse(data).get("validUntil")
        return until if isinstance(until, int) else None

    def _describe(self, data: bytes) -> str:
        process = self._process_of(data)
        if process is not None:
            return str(process)
        return f"the writer {str(_parse(data).get('owner', 'without a name'))[:80]}"

    def _give_back(self, data: bytes, version: str) -> str:
        until = self._valid_until(data) or 0
        freed = _record(self._token_of(data) or "", until, expired=True)
        return self._storage.replace(self.path, freed, if_version=version)


def _record(token: str, valid_until_ms: int, *, expired: bool) -> bytes:
    record = {"expired": expired, "validUntil": valid_until_ms, "owner": token}
    return json.dumps(record).encode()


@lru_cache(maxsize=32)
def _parse(data: bytes) -> Mapping[str, Any]:
    """The fields of a lock; each look at it asks for several of them."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}
