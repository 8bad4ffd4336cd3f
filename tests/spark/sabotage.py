"""Harm done to the executors of a cluster while a write is in the middle of writing its files.

The executors are found as processes, and halt between two files (`executor_site`); the product
knows of none of it. Python workers are stopped before one looks, so that the middle stays so.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PATIENCE_S = 60.0
_GLANCE_S = 0.002
_IDLE_S = 1.0

Deed = Callable[[int], tuple[int, ...]]
"""Gets a Python worker that halts in mid-write, and answers those that stay stopped."""


@contextmanager
def in_mid_write(table: Path, halt: Path, deed: Deed) -> Iterator[dict[str, Any]]:
    """Do a deed in the middle of the write that the `with` block does.

    Args:
        table: The folder of the table.
        halt: The folder by which the executors are told to halt.
        deed: Called when a first file is there and a worker halts at its next, with all Python
            workers stopped.

    Yields:
        What is known of that moment once it is over: `files`, how many files of the write were
        there, and `stopped`, the processes that stayed so.
    """
    seen: dict[str, Any] = {"files": 0, "stopped": ()}
    is_over = threading.Event()
    is_on = halt / "on"
    is_on.touch()

    def watch() -> None:
        while not (halted := _halted(halt)) and not is_over.wait(_GLANCE_S):
            continue
        stopped = stop(python_workers())
        seen["files"] = sum((table / path).exists() for path in _marked(table))
        if halted:
            seen["stopped"] = deed(halted[0])
        is_on.unlink()
        resume(pid for pid in stopped if pid not in seen["stopped"])

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        is_over.set()
        watcher.join(_PATIENCE_S)
        for path in halt.iterdir():
            path.unlink()


def kill_an_executor(worker: int) -> tuple[int, ...]:
    """Kill the JVM of the executor that a Python worker belongs to."""
    (jvm,) = (jvm for jvm in executors() if worker in _below(jvm))
    os.kill(jvm, signal.SIGKILL)
    return ()


def kill_all_workers(worker: int) -> tuple[int, ...]:
    """Kill the Python of all tasks."""
    for pid in python_workers():
        _send(pid, signal.SIGKILL)
    return ()


def leave_it_stopped(worker: int) -> tuple[int, ...]:
    """Let the Python worker stay stopped."""
    return (worker,)


def executors() -> list[int]:
    """The JVMs of the executors of this process' cluster."""
    backend = b"CoarseGrainedExecutorBackend"
    return [pid for pid in _below(os.getpid()) if backend in _command(pid)]


def python_workers() -> list[int]:
    """The Python processes that do the work of tasks: children of the daemons."""
    daemons = [pid for jvm in executors() for pid in _children(jvm) if b"daemon" in _command(pid)]
    return [pid for daemon in daemons for pid in _children(daemon)]


def stop(pids: list[int]) -> list[int]:
    """Stop processes, and answer those that were there."""
    return [pid for pid in pids if _send(pid, signal.SIGSTOP)]


def resume(pids: Any) -> None:
    """Let stopped processes go on."""
    for pid in pids:
        _send(pid, signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped."""
    return _stat(pid)[:1] == ["T"]


def wait_until_idle(pid: int) -> None:
    """Wait until a process has ended, or does nothing any more."""
    ends = time.monotonic() + _PATIENCE_S
    idle_since, ticks = time.monotonic(), -1
    while time.monotonic() < ends:
        state = _stat(pid)[:1]
        if state in ([], ["Z"]):
            return
        if state != ["S"] or _ticks(pid) != ticks:
            idle_since, ticks = time.monotonic(), _ticks(pid)
        elif time.monotonic() - idle_since > _IDLE_S:
            return
        time.sleep(0.02)
    raise AssertionError(f"the process {pid} does not come to rest")


def _halted(halt: Path) -> list[int]:
    """The workers that wait for leave to go on."""
    return [int(path.name) for path in halt.iterdir() if path.name != "on"]


def _marked(table: Path) -> list[str]:
    """The data files that the write that goes on has begun."""
    found = []
    for folder, _, names in os.walk(table / ".hoodie" / ".temp"):
        inner = Path(folder).relative_to(table / ".hoodie" / ".temp").parts[1:]
        found += ["/".join((*inner, name.partition(".marker.")[0])) for name in names]
    return found


def _below(root: int) -> list[int]:
    found = _children(root)
    return found + [pid for child in found for pid in _below(child)]


def _children(pid: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in path.read_text(encoding="utf-8").split()]
        except OSError:
            continue
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> list[str]:
    """State and what follows it; nothing of a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def _ticks(pid: int) -> int:
    """The processor time of a process."""
    return sum(map(int, _stat(pid)[11:13]))


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
