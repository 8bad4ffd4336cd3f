"""The lock object `.hoodie/.locks/table_lock.json` (`StorageBasedLockProvider`) of object stores.

    {"expired": false, "validUntil": <epoch ms>, "owner": "<uuid>"}

It is free when absent, when expired, or when the end of its lease lies further back than clocks
may differ. It is never removed: giving the table back writes `expired`.
"""

from __future__ import annotations

import json
from typing import Any

from lakedex.txn.lock.lease import ALLOWED_DRIFT_MS, LeasedLock


class StorageLock(LeasedLock):
    """The lock object of a table on an object store."""

    path = ".hoodie/.locks/table_lock.json"

    def _claim(self, token: str, valid_until_ms: int) -> bytes:
        return _record(token, valid_until_ms, expired=False)

    def _token_of(self, data: bytes) -> str | None:
        owner = _parse(data).get("owner")
        return owner if isinstance(owner, str) else None

    def _is_free(self, data: bytes, now_ms: int) -> bool:
        record = _parse(data)
        if record.get("expired") is True:
            return True
        until = record.get("validUntil")
        return isinstance(until, int) and now_ms > until + ALLOWED_DRIFT_MS

    def _describe(self, data: bytes) -> str:
        return f"the writer {str(_parse(data).get('owner', 'without a name'))[:80]}"

    def _give_back(self, version: str) -> None:
        data, _ = self._read()
        record = _parse(data)
        until = record.get("validUntil")
        until = until if isinstance(until, int) else 0
        freed = _record(self._token_of(data) or "", until, expired=True)
        self._storage.replace(self.path, freed, if_version=version)


def _record(token: str, valid_until_ms: int, *, expired: bool) -> bytes:
    record = {"expired": expired, "validUntil": valid_until_ms, "owner": token}
    return json.dumps(record).encode()


def _parse(data: bytes) -> dict[str, Any]:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}
