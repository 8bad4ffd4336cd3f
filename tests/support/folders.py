"""Where the tables of tests lie."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

MEMORY = "/dev/shm"
ROOM = 6 << 30
"""Far more than a run needs, which keeps the folders of failed tests only."""


def room_in_memory() -> bool:
    """Whether there is a folder in memory with room, in which programs can be run as on a disk."""
    if not Path(MEMORY).is_dir() or not os.access(MEMORY, os.W_OK | os.X_OK):
        return False
    if os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return False
    told = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"))
    available = int(told[1]) << 10 if told else 0
    return min(available, shutil.disk_usage(MEMORY).free) >= ROOM
