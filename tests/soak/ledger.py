"""What a process tells of itself, line by line, so that nothing is lost when it is killed."""

from __future__ import annotations

import base64
import os
import pickle
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.history import Commit


@dataclass(frozen=True)
class Intent:
    """A write that is about to begin; its commit will name stream and number."""

    stream: str
    number: int
    commit: Commit


@dataclass(frozen=True)
class Acknowledged:
    """A write that came to its end; `instant` is None where nothing had to be changed."""

    stream: str
    number: int
    instant: str | None

    @property
    def kind(self) -> str:
        return "idle" if self.instant is None else "commit"


@dataclass(frozen=True)
class Question:
    """What a reader asks: all rows, those of one value of a column, or a condition of histories."""

    column: str = ""
    value: str = ""
    condition: str = ""

    @property
    def text(self) -> str | None:
        if self.column:
            quoted = self.value.replace("'", "\\'")
            return f"{self.column} = '{quoted}'"
        return self.condition or None


@dataclass(frozen=True)
class Read:
    """Rows that a reader was given, and what it could see."""

    question: Question
    cutoff: str
    """The newest completion time of a write that the reader's timeline had."""
    as_of: str | None
    rows: list[tuple[object, ...]]


@dataclass(frozen=True)
class Served:
    """A service that did something."""

    kind: str
    what: str = ""


@dataclass(frozen=True)
class Lost:
    """An attempt that lost a conflict, or a read that came too late for its files."""

    who: str
    why: str


@dataclass(frozen=True)
class Trouble:
    """An error that must not be."""

    who: str
    trace: str


class Ledger:
    """The ledger of one process."""

    def __init__(self, folder: str, name: str) -> None:
        self._path = Path(folder, f"{name}.{os.getpid()}.ledger")

    def tell(self, entry: object) -> None:
        """Add an entry, as one line in one piece."""
        body = base64.b64encode(zlib.compress(pickle.dumps(entry), 1)).decode()
        kind = getattr(entry, "kind", type(entry).__name__.lower())
        with self._path.open("a", encoding="ascii") as file:
            file.write(f"{kind} {body}\n")


def counts(folder: str) -> Counter[str]:
    """How many entries of each kind there are, such as `commit`, `read` and `compaction`."""
    return Counter(line.partition(" ")[0] for line in _lines(folder))


def entries(folder: str) -> Iterator[Any]:
    """Every entry of every process."""
    for line in _lines(folder):
        body = line.partition(" ")[2]
        yield pickle.loads(zlib.decompress(base64.b64decode(body)))


def _lines(folder: str) -> Iterator[str]:
    for path in sorted(Path(folder).glob("*.ledger")):
        text = path.read_text(encoding="ascii")
        # The last line of a killed process may be a part of one.
        yield from text[: text.rfind("\n") + 1].splitlines()
