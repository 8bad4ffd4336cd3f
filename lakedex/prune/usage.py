"""How often each index was consulted and what it saved: counted in memory, kept in a file."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import random
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from lakedex.config import keys
from lakedex.errors import (
    AlreadyExists,
    CorruptFile,
    FileMissing,
    InvalidInput,
    LakedexError,
    VersionMismatch,
)
from lakedex.prune.report import NO_INDEX, Report, Step
from lakedex.storage import Storage, open_storage
from lakedex.storage.paths import is_remote
from lakedex.table.own_properties import OWN_PROPERTIES_PATH
from lakedex.timeline.properties_file import PROPERTIES_PATH

_VERSION = 1
_MOST_PREDICATES = 1_000
_MOST_INDEXES = 1_000
_Key = TypeVar("_Key")
USAGE_PATH = f"{keys.META_FOLDER}/.lakedex/usage.json"
_ATTEMPTS = 8
_PAUSE_S = 0.01
_MOST_BYTES = 4 << 20
SWITCH = "LAKEDEX_INDEX_USAGE"
"""The environment variable that switches counting off."""
_ON, _OFF = ("", "on", "true", "1"), ("off", "false", "0")
_LOCAL_INTERVAL_S = 60.0
_REMOTE_INTERVAL_S = 600.0
_MOST_TABLES = 1_000


@dataclass(slots=True)
class IndexUsage:
    """What one index did for queries."""

    scans: int = 0
    """Queries that consulted it and got an answer."""
    offered: int = 0
    """Queries of the table while it had this index, whether they consulted it or not."""
    files_asked: int = 0
    """File slices for which it was consulted."""
    files_pruned: int = 0
    bytes_saved: int = 0
    seconds: float = 0.0
    """The time of its lookups."""
    last_used: str = ""
    """UTC, such as `2026-01-02T03:04:05Z`."""


@dataclass(slots=True)
class PredicateUsage:
    """How often a column was compared in one way, and what was read then."""

    scans: int = 0
    files_total: int = 0
    files_read: int = 0
    values: int = 0
    """Constants that it was compared with, in all scans together; which ones is not kept."""
    unanswered: int = 0
    """Scans in which no index left out a file."""
    files_unanswered: int = 0
    """Files that were read in those."""
    last_used: str = ""


_Counters = TypeVar("_Counters", IndexUsage, PredicateUsage)


@dataclass(slots=True)
class TableUsage:
    """What is counted of one table."""

    indexes: dict[str, IndexUsage] = field(default_factory=dict)
    predicates: dict[tuple[str, str, str], PredicateUsage] = field(default_factory=dict)
    """By column, operator and the expression that is compared, if it is not the bare column."""
    scans: int = 0
    """Queries with a predicate."""
    since: str = ""
    """When the first of them was counted, in UTC."""

    def add(self, other: TableUsage) -> None:
        """Count what another has counted as well."""
        for name, usage in other.indexes.items():
            _add(self.indexes.setdefault(name, IndexUsage()), usage)
        for shape, seen in other.predicates.items():
            _add(self.predicates.setdefault(shape, PredicateUsage()), seen)
        _forget_oldest(self.indexes, _MOST_INDEXES)
        _forget_oldest(self.predicates, _MOST_PREDICATES)
        self.scans += other.scans
        self.since = min(filter(None, (self.since, other.since)), default="")

    def encode(self) -> bytes:
        """The counters as JSON.

        Example:
            >>> usage = TableUsage(indexes={"record_index": IndexUsage(scans=2)})
            >>> TableUsage.decode(usage.encode(), path="usage.json") == usage
            True
        """
        predicates = [
            {"column": column, "operator": operator, "expression": expression, **asdict(seen)}
            for (column, operator, expression), seen in sorted(self.predicates.items())
        ]
        indexes = {name: asdict(usage) for name, usage in sorted(self.indexes.items())}
        record = {"version": _VERSION, "scans": self.scans, "since": self.since}
        record |= {"indexes": indexes, "predicates": predicates}
        return json.dumps(record, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> Self:
        """The counters in a file.

        Raises:
            CorruptFile: It is none of ours.
        """
        try:
            record = json.loads(data)
            if record["version"] != _VERSION:
                raise CorruptFile(path, 0, expected=f"version {_VERSION}", actual=record["version"])
            indexes = {
                str(name): _read(IndexUsage(), each) for name, each in record["indexes"].items()
            }
            predicates = {
                (str(each["column"]), str(each["operator"]), str(each["expression"])): _read(
                    PredicateUsage(), each
                )
                for each in record["predicates"][:_MOST_PREDICATES]
            }
            scans, since = int(record.get("scans", 0)), str(record.get("since", ""))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptFile(path, 0, expected="counters of index usage", actual=error) from error
        return cls(indexes, predicates, scans, since)


def _forget_oldest(counters: dict[_Key, _Counters], most: int) -> None:
    if len(counters) > most:
        oldest = sorted(counters, key=lambda key: counters[key].last_used)
        for key in oldest[: len(counters) - most]:
            del counters[key]


def _read(into: _Counters, record: Mapping[str, Any]) -> _Counters:
    for each in fields(into):
        default = getattr(into, each.name)
        setattr(into, each.name, type(default)(record.get(each.name, default)))
    return into


def _add(into: _Counters, more: _Counters) -> None:
    for each in fields(into):
        ours, theirs = getattr(into, each.name), getattr(more, each.name)
        setattr(into, each.name, max(ours, theirs) if isinstance(ours, str) else ours + theirs)


def stored_usage(table: Storage) -> TableUsage:
    """What is kept of a table, in both places; what cannot be read counts as nothing."""
    usage = TableUsage()
    for storage, path in ((table, USAGE_PATH), _own_location(table)):
        if storage is not None:
            with suppress(LakedexError, OSError):
                usage.add(_read_file(storage, path)[0])
    return usage


def keep_usage(table: Storage, counted: TableUsage, *, beside_table: bool = True) -> bool:
    """Add to what is kept; False when others were always faster, or there is no place for it.

    Args:
        table: The table.
        counted: What was counted since.
        beside_table: Whether to write to the table's own store, and not to the user's folder.
    """
    if beside_table and not table.exists(PROPERTIES_PATH):
        return True  # The table is gone, and its counters with it.
    if beside_table and table.exists(OWN_PROPERTIES_PATH):
        try:
            return _add_to_file(table, USAGE_PATH, counted)
        except (LakedexError, OSError):
            pass  # It may not be written.
    storage, path = _own_location(table, make=True)
    return storage is not None and _add_to_file(storage, path, counted)


def _own_location(table: Storage, *, make: bool = False) -> tuple[Storage | None, str]:
    """The user's state folder, unless there is none, and the name of the table's file in it."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    folder = Path(base).expanduser() / "lakedex" / "usage"
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        storage = open_storage(str(folder)) if folder.is_dir() else None
    except (LakedexError, OSError):
        storage = None
    return storage, f"{hashlib.sha256(table.root.encode()).hexdigest()[:32]}.json"


def _read_file(storage: Storage, path: str) -> tuple[TableUsage, str | None]:
    """The kept counters and the version of their file; None where there is none.

    A file that holds no counters counts as nothing, and is replaced by the next to write.
    """
    try:
        data, version = storage.read_with_version(path)
    except FileMissing:
        return TableUsage(), None
    try:
        if len(data) <= _MOST_BYTES:
            return TableUsage.decode(data, path=path), version
    except CorruptFile:
        pass
    return TableUsage(), version


def _add_to_file(storage: Storage, path: str, counted: TableUsage) -> bool:
    for attempt in range(_ATTEMPTS):
        usage, version = _read_file(storage, path)
        usage.add(counted)
        try:
            if version is None:
                storage.create(path, usage.encode(), durable=False)
            else:
                storage.replace(path, usage.encode(), if_version=version)
        except (AlreadyExists, VersionMismatch):
            time.sleep(random.random() * _PAUSE_S * (attempt + 1))
        else:
            return True
    return False


@dataclass(slots=True)
class _Pending:
    storage: Storage
    due: float
    usage: TableUsage = field(default_factory=TableUsage)


class _Recorder:
    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start from zero: a forked process must not write what its parent counted."""
        self._pending: dict[str, _Pending] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None

    def count(self, storage: Storage, report: Report) -> None:
        with self._lock:
            found = self._pending.get(storage.root)
            if found is None:
                if len(self._pending) >= _MOST_TABLES:
                    return
                interval = _REMOTE_INTERVAL_S if is_remote(storage.root) else _LOCAL_INTERVAL_S
                found = _Pending(storage, time.monotonic() + interval)
                self._pending[storage.root] = found
            _count(found.usage, report)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._write_now_and_then, name="lakedex-index-usage", daemon=True
                )
                self._thread.start()

    def usage(self, storage: Storage) -> TableUsage:
        """What is stored and what was counted since; the call waits for a write in progress."""
        with self._writing:
            usage = stored_usage(storage)
            with self._lock:
                if storage.root in self._pending:
                    usage.add(self._pending[storage.root].usage)
            return usage

    def flush(self, *, now: float | None = None) -> None:
        """Write what is due, or all."""
        with self._lock:
            due = [root for root, each in self._pending.items() if now is None or each.due <= now]
        for root in due:
            with self._writing:
                self._write(root, beside_table=now is not None or not is_remote(root))

    def _write(self, root: str, *, beside_table: bool) -> None:
        with self._lock:
            ready = self._pending.pop(root, None)
        if ready is None:
            return
        try:
            kept = keep_usage(ready.storage, ready.usage, beside_table=beside_table)
        except (LakedexError, OSError):
            return  # Counting must never be in the way.
        if not kept:
            self._count_again(ready)

    def _count_again(self, lost: _Pending) -> None:
        with self._lock:
            later = time.monotonic() + _LOCAL_INTERVAL_S
            again = self._pending.setdefault(lost.storage.root, _Pending(lost.storage, later))
            again.usage.add(lost.usage)

    def _write_now_and_then(self) -> None:
        while True:
            time.sleep(_LOCAL_INTERVAL_S / 2)
            self.flush(now=time.monotonic())


_recorder = _Recorder()
os.register_at_fork(after_in_child=_recorder.forget)
atexit.register(_recorder.flush)


def count_scan(storage: Storage, report: Report) -> None:
    """Count one query of a table, unless counting is switched off.

    Raises:
        InvalidInput: The environment variable has another value than those that it may have.
    """
    if report.steps and _is_on(os.environ.get(SWITCH, "")):
        _recorder.count(storage, report)


def _is_on(said: str) -> bool:
    value = said.strip().lower()
    if value not in _ON and value not in _OFF:
        raise InvalidInput(f"the environment variable {SWITCH} is on or off, not {said!r}")
    return value in _ON


def usage_of(storage: Storage) -> TableUsage:
    """All that is known of a table's use: what is kept, and what this process has counted since."""
    return _recorder.usage(storage)


def flush() -> None:
    """Write all that was counted now."""
    _recorder.flush()


def _count(usage: TableUsage, report: Report) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    indexes = {
        step.index: _index_usage(step, now)
        for step in report.steps
        if step.used or step.kind not in NO_INDEX
    }
    read = len(report.files)
    unanswered = not any(
        step.after < step.before for step in report.steps if step.kind not in NO_INDEX
    )
    seen = {
        (shape.column, shape.operator, shape.expression): PredicateUsage(
            scans=1,
            files_total=report.total,
            files_read=read,
            values=shape.values,
            unanswered=int(unanswered),
            files_unanswered=read if unanswered else 0,
            last_used=now,
        )
        for shape in report.shapes
    }
    usage.add(TableUsage(indexes, seen, scans=1, since=now))


def _index_usage(step: Step, now: str) -> IndexUsage:
    if not step.used:
        return IndexUsage(offered=1)
    return IndexUsage(
        scans=1,
        offered=1,
        files_asked=step.before,
        files_pruned=step.before - step.after,
        bytes_saved=step.bytes_saved,
        seconds=step.seconds,
        last_used=now,
    )
