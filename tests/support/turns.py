"""Which part of a large set of cases a run takes: another one with every commit.

The gate takes one part; `make all` takes the whole set.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def turn(parts: int) -> int:
    """The number of the part, below `parts`; LAKEDEX_TURN chooses one."""
    return int(os.environ.get("LAKEDEX_TURN") or _commit()) % parts


@cache
def _commit() -> int:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Without git, as in an archive of the source, it is always the same part.
    return int(done.stdout[:8], 16) if done.returncode == 0 else 0
