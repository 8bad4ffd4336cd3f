"""Notices reads outside of the folder that a case may read from.

Two eyes: Python's audit events see every file that Python opens or lists, and inotify sees every
open in the folder around the table, by whatever library; bait lies there.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_EVENTS = frozenset({"open", "os.listdir", "os.scandir"})
_IN_OPEN = 0x20
_EVENT = struct.Struct("iIII")
_SYSTEM = ("/usr/share/zoneinfo", "/proc/self", "/dev/null")


class OutsideWatch:
    """Collects what was opened outside of `folder` and of the folders of libraries."""

    def __init__(self, folder: str | None, libraries: Iterable[str]) -> None:
        """Start to watch; there is no end to it, as audit hooks cannot be removed."""
        self._inside = tuple(
            os.path.realpath(path) for path in (folder, *libraries, *_SYSTEM) if path
        )
        self._seen: list[str] = []
        self._listening = True
        self._own_name = Path(folder).name if folder else ""
        self._inotify = _watch(Path(folder).parent) if folder else None
        sys.addaudithook(self._audit)

    def violation(self) -> str:
        """What was opened outside since the last question; empty if nothing was."""
        seen, self._seen = [*self._seen, *self._opened_around()], []
        return f"outside: {seen[:5]}" if seen else ""

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event not in _EVENTS or not self._listening or not arguments:
            return
        path = arguments[0]
        if not isinstance(path, str | bytes):
            return
        self._listening = False  # looking at the path must not be seen itself
        try:
            real = os.path.realpath(os.fsdecode(path))
            if not any(real == place or real.startswith(f"{place}/") for place in self._inside):
                self._seen.append(real)
        finally:
            self._listening = True

    def _opened_around(self) -> list[str]:
        """Names that were opened next to the folder; the folder itself may be."""
        if self._inotify is None:
            return []
        try:
            data = os.read(self._inotify, 1 << 16)
        except BlockingIOError:
            return []
        names = []
        while len(data) >= _EVENT.size:
            length = _EVENT.unpack_from(data)[3]
            names.append(os.fsdecode(data[_EVENT.size : _EVENT.size + length].rstrip(b"\0")))
            data = data[_EVENT.size + length :]
        return [name for name in names if name not in ("", self._own_name)]


def _watch(folder: Path) -> int | None:
    library = ctypes.CDLL(None, use_errno=True)
    handle = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if handle < 0:
        return None
    library.inotify_add_watch(handle, os.fsencode(folder), _IN_OPEN)
    return int(handle)
