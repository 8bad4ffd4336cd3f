"""Runs the schedules of some seeds: `python -m tests.simulation [buckets] FIRST LAST`.

The last is left out; with `buckets` the schedules are those of bucket tables.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from tests.simulation.bucket_schedule import run_bucket_schedule
from tests.simulation.schedule import Broken, run_schedule

_BUCKETS = "buckets"


def main(run: Callable[[int], object], first: int, last: int) -> int:
    """Stop at the first schedule that leaves a table broken, and tell what happened in it."""
    # Thousands of writers die here, and each successor would tell of it.
    logging.getLogger("lakedex").setLevel(logging.CRITICAL)
    for seed in range(first, last):
        try:
            run(seed)
        except Broken as broken:
            sys.stdout.write(f"{broken}\n")
            return 1
    return 0


if __name__ == "__main__":
    is_of_buckets = sys.argv[1] == _BUCKETS
    chosen = run_bucket_schedule if is_of_buckets else run_schedule
    sys.exit(main(chosen, *map(int, sys.argv[-2:])))
