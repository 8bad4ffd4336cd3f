"""Runs the schedules of some seeds: `python -m tests.simulation FIRST LAST`, the last left out."""

from __future__ import annotations

import logging
import sys

from tests.simulation.schedule import Broken, run_schedule


def main(first: int, last: int) -> int:
    """Stop at the first schedule that leaves a table broken, and tell what happened in it."""
    # Thousands of writers die here, and each successor would tell of it.
    logging.getLogger("lakedex").setLevel(logging.CRITICAL)
    for seed in range(first, last):
        try:
            run_schedule(seed)
        except Broken as broken:
            sys.stdout.write(f"{broken}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
