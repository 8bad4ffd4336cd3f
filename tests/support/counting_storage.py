"""A storage that records every call of a real one: the operation, the path, and who called."""

from __future__ import annotations

import threading
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CALLS = (
    "list",
    "list_recursive",
    "folders",
    "exists",
    "size",
    "read",
    "read_with_version",
    "create",
    "make_durable",
    "replace",
    "delete",
    "delete_folder",
    "remove_leftovers",
    "open_parquet_input",
)
_PACKAGE = "/lakedex/"
_CALLERS = 4


@dataclass(frozen=True)
class Call:
    """One call of the store."""

    operation: str
    path: str
    callers: tuple[str, ...]
    """The functions of lakedex that made it, innermost first."""

    def __str__(self) -> str:
        return f"{self.operation:18} {self.path:90} {' < '.join(self.callers)}"


@dataclass
class CallLog:
    """The calls of a storage and of all that are rooted deeper, in order."""

    calls: list[Call] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, operation: str, path: str) -> None:
        """Note a call."""
        call = Call(operation, path, _callers())
        with self._guard:
            self.calls.append(call)

    def clear(self) -> None:
        """Forget the calls that were made so far."""
        with self._guard:
            self.calls.clear()

    def by_operation(self) -> Counter[str]:
        """How often each operation was called."""
        return Counter(call.operation for call in self.calls)

    def report(self) -> str:
        """All calls, for a failed assertion."""
        lines = [f"{len(self.calls)} calls: {dict(self.by_operation())}", *map(str, self.calls)]
        return "\n".join(lines)


class CountingStorage:
    """A storage whose calls are recorded."""

    def __init__(self, inner: Any, log: CallLog, folder: str = "") -> None:
        """Wrap a storage that is rooted at `folder` of the one that is counted."""
        self._inner = inner
        self._log = log
        self._folder = folder

    def sub(self, prefix: str) -> CountingStorage:
        """The same log, rooted deeper."""
        return CountingStorage(self._inner.sub(prefix), self._log, f"{self._folder}{prefix}/")

    def source(self, path: str, size: int | None = None) -> _CountingSource:
        """Ranged reads, each of which is a call."""
        if size is None:
            self._log.add("size", self._folder + path)
        return _CountingSource(self._inner.source(path, size), self._log, self._folder + path)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in _CALLS:
            return found

        def call(*args: Any, **named: Any) -> Any:
            path = args[0] if args and isinstance(args[0], str) else ""
            self._log.add(name, self._folder + path)
            return found(*args, **named)

        return call


class _CountingSource:
    def __init__(self, inner: Any, log: CallLog, path: str) -> None:
        self._inner = inner
        self._log = log
        self._path = path

    def read(self, start: int, length: int) -> bytes:
        self._log.add("read_range", self._path)
        data: bytes = self._inner.read(start, length)
        return data

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self._log.add("read_range", self._path)
        parts: list[bytes] = self._inner.read_many(ranges)
        return parts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class CountingAddress:
    """An address that opens a counting storage, in this process only."""

    def __init__(self, address: Any, log: CallLog) -> None:
        """Wrap an address."""
        self._storage = CountingStorage(address.open(), log)

    def open(self) -> CountingStorage:
        """The storage."""
        return self._storage


def _callers() -> tuple[str, ...]:
    frames = [f for f in traceback.extract_stack() if _PACKAGE in f.filename]
    inner = [f for f in frames if "/storage/" not in f.filename]
    named = [f"{Path(f.filename).stem}.{f.name}" for f in reversed(inner)]
    return tuple(named[:_CALLERS])
