"""Counts scans in memory, and writes what was counted from a thread of its own.

A query pays for a few additions. Files are written once a minute (object stores: once in ten) and
when the process ends, then never to an object store: many short processes would each write there.
A process that is killed loses what it counted since.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lakedex.errors import LakedexError
from lakedex.prune.report import NO_INDEX, Report, Step
from lakedex.prune.usage.counters import IndexUsage, PredicateUsage, TableUsage
from lakedex.prune.usage.places import keep_usage, stored_usage
from lakedex.storage import Storage
from lakedex.storage.paths import is_remote

SWITCH = "LAKEDEX_INDEX_USAGE"
"""The environment variable that switches counting off: `off`, `false` or `0`."""
_LOCAL_INTERVAL_S = 60.0
_REMOTE_INTERVAL_S = 600.0
_MOST_TABLES = 1_000


@dataclass(slots=True)
class _Pending:
    storage: Storage
    due: float
    usage: TableUsage = field(default_factory=TableUsage)


class _Recorder:
    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew: a forked process must not write what its parent counted."""
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
        """What is kept and what was counted since; who asks waits for a write that is under way."""
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
    """Count one query of a table, unless counting is switched off."""
    if report.steps and os.environ.get(SWITCH, "").lower() not in ("off", "false", "0"):
        _recorder.count(storage, report)


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
