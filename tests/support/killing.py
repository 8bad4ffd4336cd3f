"""Processes that are killed, or held, at a chosen change of a table's files.

Children run real writes in processes of their own, forked from a server that has lakedex loaded
already. Every change of a file passes a `Watch`, which counts it, and at a chosen one kills its
own process with SIGKILL or waits for the other children.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from lakedex.storage import open
from lakedex.storage.open import open_storage
from lakedex.storage.protocol import Storage

PATIENCE_S = 60.0
Job = Callable[..., None]


@dataclass
class Watch:
    """Sees every change of a file before and after it is done."""

    kill_at: int = -1
    """The number of the change to die at; negative for none."""
    kill_after: bool = False
    """Whether the change is still made."""
    hold_at: str = ""
    """Wait for the others before the first change of a path with this text in it."""
    barrier: Any = None
    seen: list[str] = field(default_factory=list)

    @contextmanager
    def change(self, verb: str, path: str) -> Iterator[None]:
        """Around one change."""
        number = len(self.seen)
        self.seen.append(f"{verb} {path}")
        if self.barrier is not None and self.hold_at in path:
            barrier, self.barrier = self.barrier, None
            barrier.wait(PATIENCE_S)
        if number == self.kill_at and not self.kill_after:
            die()
        try:
            yield
        finally:
            if number == self.kill_at:
                die()


@dataclass
class DieAt(Watch):
    """Dies at a change with a text in it, however many others come before.

    How many those are is not the same each time: locks are renewed, and the names of files decide
    how many shards of an index are told of them.
    """

    text: str = ""
    is_after: bool = False
    skip: int = 0
    """How many changes with that text are let pass."""

    @contextmanager
    def change(self, verb: str, path: str) -> Iterator[None]:
        """Around one change."""
        is_meant = self.text in f"{verb} {path}"
        self.skip -= is_meant
        is_meant = is_meant and self.skip < 0
        if is_meant and not self.is_after:
            die()
        yield
        if is_meant:
            die()


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


class WatchedStorage:
    """A storage whose changes are watched."""

    def __init__(self, inner: Storage, watch: Watch, prefix: str = "") -> None:
        self._inner = inner
        self._watch = watch
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create(self, path: str, data: bytes, **how: Any) -> None:
        with self._watch.change("create", self._prefix + path):
            self._inner.create(path, data, **how)

    def replace(self, path: str, data: bytes, **how: Any) -> str:
        with self._watch.change("replace", self._prefix + path):
            return self._inner.replace(path, data, **how)

    def delete(self, path: str, **how: Any) -> None:
        with self._watch.change("delete", self._prefix + path):
            self._inner.delete(path, **how)

    def delete_folder(self, prefix: str) -> None:
        with self._watch.change("delete_folder", self._prefix + prefix):
            self._inner.delete_folder(prefix)

    def sub(self, prefix: str) -> WatchedStorage:
        return WatchedStorage(self._inner.sub(prefix), self._watch, f"{self._prefix}{prefix}/")


def watch_this_process(watch: Watch) -> None:
    """From now on every storage that this process opens by an address is watched."""
    open.open_storage = lambda url, options: WatchedStorage(open_storage(url, options), watch)
    open._opened.cache_clear()


@cache
def server() -> ForkServerContext:
    """Where children come from, with what they need loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.write_jobs"])
    return context


def start(job: Job, *arguments: object, watch: Watch | None = None, result: str = "") -> Any:
    """A child that runs a job; what it saw, or the error it met, goes to the file `result`."""
    child = server().Process(target=_run, args=(job, arguments, watch or Watch(), result))
    child.start()
    return child


def finish(child: Any) -> int:
    """Wait for a child, and give its exit code: -9 when it was killed."""
    child.join(PATIENCE_S)
    if child.exitcode is None:
        child.kill()
        child.join()
        raise AssertionError("a child did not end by itself")
    code: int = child.exitcode
    child.close()
    return code


def finish_killed(job: Job, *arguments: object, at: int, after: bool, result: Path) -> None:
    """Run a job in a child that dies at a change by its number.

    A run that makes fewer changes than the one that was counted may end before its death: the
    names of files decide how many shards of an index are told of them.
    """
    code = finish(start(job, *arguments, watch=Watch(at, after), result=str(result)))
    if code == 0:
        made = len(json.loads(result.read_text(encoding="utf-8")))
        assert made <= at, f"change {at} of {made} was made, and the child lives"
    else:
        assert code == -9, f"the job ended with {code}"


def _run(job: Job, arguments: tuple[object, ...], watch: Watch, result: str) -> None:
    watch_this_process(watch)
    job(*arguments)
    if result:
        Path(result).write_text(json.dumps(watch.seen), encoding="utf-8")


def changes_of(job: Job, *arguments: object, result: Path) -> list[str]:
    """Every change that a job makes, in order, by letting it run to its end."""
    code = finish(start(job, *arguments, result=str(result)))
    assert code == 0, f"the job ended with {code}"
    seen: list[str] = json.loads(result.read_text(encoding="utf-8"))
    return seen
