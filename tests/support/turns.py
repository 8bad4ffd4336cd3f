"""Which part of a large set of cases a run takes: another one with every commit.

The gate takes one part; `make all` takes the whole set.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

Case = TypeVar("Case")
ROOT = Path(__file__).parents[2]


def turn(parts: int) -> int:
    """The number of the part, below `parts`; LAKEDEX_TURN chooses one."""
    return int(os.environ.get("LAKEDEX_TURN") or _commit()) % parts


def part_of(cases: Iterable[Case], parts: int) -> list[Case]:
    """Every so many of the cases, other ones with every commit; all with LAKEDEX_KILLS=all."""
    every = [*cases]
    return every if os.environ.get("LAKEDEX_KILLS") == "all" else every[turn(parts) :: parts]


@cache
def _commit() -> int:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Without git, as in an archive of the source, it is always the same part.
    return int(done.stdout[:8], 16) if done.returncode == 0 else 0
