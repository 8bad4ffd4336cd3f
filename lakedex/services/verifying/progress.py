"""How far a verification has come, for whoever waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

Listener: TypeAlias = "Callable[[int, int], None]"
"""Told how many steps are done, and how many there are."""


class Progress:
    """Counts steps, in any thread.

    Example:
        >>> told = []
        >>> progress = Progress(2, lambda done, total: told.append(f"{done} of {total}"))
        >>> progress.step(), progress.step(), told
        (None, None, ['0 of 2', '1 of 2', '2 of 2'])
    """

    def __init__(self, total: int, listener: Listener | None = None) -> None:
        """Begin with no step done."""
        self._total = total
        self._done = 0
        self._listener = listener
        self._guard = threading.Lock()
        self._tell()

    def step(self) -> None:
        """One more is done."""
        with self._guard:
            self._done += 1
            self._tell()

    def _tell(self) -> None:
        if self._listener is not None:
            self._listener(self._done, self._total)
