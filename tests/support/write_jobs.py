"""What children do to a table: jobs that can be sent to another process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakedex.engine import LocalEngine
from lakedex.errors import CommitConflict
from lakedex.services.inline import writer_with_services
from lakedex.storage import local
from lakedex.storage.open import StorageAddress
from tests.support.history import Commit, History, create, write_history, writer_of
from tests.support.killing import die
from tests.support.write_shapes import Shape

ATTEMPTS = 60


def make_table(shape: Shape, path: str) -> None:
    """Create the table."""
    create(shape, path)


def write_one(shape: Shape, path: str, commit: Commit, options: dict[str, str]) -> None:
    """One write."""
    commit.write(shape, writer_of(StorageAddress.of(path), options))


def write_and_serve(shape: Shape, path: str, commit: Commit, options: dict[str, str]) -> None:
    """One write, and the services that are due after it."""
    commit.write(shape, writer_with_services(StorageAddress.of(path), LocalEngine(1), options))


def write_through_temps(
    shape: Shape, path: str, commit: Commit, options: dict[str, str], die_at: int, said: str
) -> None:
    """One write as on a file system that cannot make files without a name.

    Dies when so many files have been written and the next one has not got its name; tells in the
    file `said` how many there are.
    """
    count = 0

    def counted(publish: Callable[..., None]) -> Callable[..., None]:
        def publish_or_die(*arguments: Any) -> None:
            nonlocal count
            if count == die_at:
                die()
            count += 1
            publish(*arguments)

        return publish_or_die

    local._NAMELESS = 0
    local.publish_new = counted(local.publish_new)
    local.publish_over = counted(local.publish_over)
    write_one(shape, path, commit, options)
    Path(said).write_text(str(count), encoding="utf-8")


def write_until_done(
    shape: Shape, path: str, commits: list[Commit], options: dict[str, str]
) -> None:
    """Some writes, each tried again as long as others are first."""
    writer = writer_of(StorageAddress.of(path), options)
    for commit in commits:
        for attempt in range(ATTEMPTS):
            try:
                commit.write(shape, writer)
                break
            except CommitConflict:
                if attempt == ATTEMPTS - 1:
                    raise


def try_once(shape: Shape, path: str, commit: Commit, options: dict[str, str], said: str) -> None:
    """One write; the file `said` tells the conflict that it lost, or null."""
    error = None
    try:
        commit.write(shape, writer_of(StorageAddress.of(path), options))
    except CommitConflict as problem:
        error = {"kind": type(problem).__name__, "message": str(problem)}
    Path(said).write_text(json.dumps(error), encoding="utf-8")


def write_whole_history(
    shape: Shape, path: str, rows: int, commits: int, options: dict[str, str]
) -> None:
    """A table with all its commits."""
    write_history(History(shape, rows=rows), create(shape, path), commits, options)
