"""How far the build of an index is, as its builder reports to other processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from lakedex.errors import StorageError
from lakedex.storage.protocol import Storage

_FOLDER: Final = ".hoodie/.lakedex/spill"
"""Beside the other files of the instant, which go when it ends."""


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """A moment of a build."""

    step: str
    """`reading`, `writing`, `waiting` (for writers that began before it) or `switching`."""
    slices_read: int
    slices: int
    round: int = 1
    """The snapshots that were read: one more for commits that did not write to the index."""

    @property
    def fraction(self) -> float:
        """The part of the data that is read, between 0 and 1.

        Example:
            >>> BuildProgress("reading", 1, 4).fraction
            0.25
        """
        return self.slices_read / self.slices if self.slices else 1.0

    def __str__(self) -> str:
        return f"{self.step}, {self.slices_read} of {self.slices} file slices read"


def write_progress(storage: Storage, instant: str, progress: BuildProgress) -> None:
    """Tell how far the build of an instant is; that is not worth failing for."""
    try:
        storage.replace(_path(instant), json.dumps(asdict(progress)).encode())
    except StorageError:
        return


def read_progress(storage: Storage, instant: str) -> BuildProgress | None:
    """How far the build of an instant is; None where no process is at work on it."""
    try:
        tree = json.loads(storage.read(_path(instant)))
        return BuildProgress(
            str(tree["step"]), int(tree["slices_read"]), int(tree["slices"]), int(tree["round"])
        )
    except (StorageError, ValueError, KeyError, TypeError):
        return None


def _path(instant: str) -> str:
    return f"{_FOLDER}/{instant}/progress.json"
