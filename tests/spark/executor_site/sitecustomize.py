"""Loaded by every Python of the executors: on request a write halts between two of its files.

Python tells of every file before it is opened. Where a file is to be marked while the folder that
`LAKEDEX_HALT` names has a file `on`, and the write has a file already, the process says that it is
there and waits until the file is gone. So a write is in its middle for as long as a test likes.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

_PATIENCE_S = 60.0
_MARKERS = "/.hoodie/.temp/"
_FOLDER = Path(os.environ.get("LAKEDEX_HALT", "/nowhere"))


def _halt(event: str, args: tuple[object, ...]) -> None:
    path = args[0] if event == "open" else None
    if not isinstance(path, str) or _MARKERS not in path or ".marker." not in path:
        return
    is_on = _FOLDER / "on"
    if not is_on.exists() or not _has_file(path):
        return
    (_FOLDER / str(os.getpid())).touch()
    ends = time.monotonic() + _PATIENCE_S
    while is_on.exists() and time.monotonic() < ends:
        time.sleep(0.005)


def _has_file(marker: str) -> bool:
    """Whether the write of a marker has put a file into the table."""
    table, _, rest = marker.partition(_MARKERS)
    markers = Path(table + _MARKERS) / rest.partition("/")[0]
    noted = (path.relative_to(markers).as_posix() for path in markers.rglob("*.marker.*"))
    return any(Path(table, name.partition(".marker.")[0]).exists() for name in noted)


if _FOLDER.exists():
    sys.addaudithook(_halt)
