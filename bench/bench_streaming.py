"""Whether memory stays flat while one large partition streams out batch by batch."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from report import Figure, reset_peak, resident_bytes, run
from rides import build

import lakedex

SETTINGS = {True: (200_000, 20), False: (4_000_000, 20)}
"""Rows and files, quick or not."""

GOAL_RATIO = 1.2


def child(path: str, rows: int) -> None:
    """Stream the table; print the peaks of the first tenth and of the rest, and the row count."""
    reset_peak()
    seen = 0
    early = 0
    for batch in lakedex.open(path).to_batches():
        seen += batch.num_rows
        del batch
        if not early and seen >= rows // 10:
            early = resident_bytes(peak=True)
            reset_peak()
    print(json.dumps([early, resident_bytes(peak=True), seen]))


def measure(quick: bool) -> Iterator[Figure]:
    rows, files = SETTINGS[quick]
    for kind in ("cow", "mor"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, kind)
            build(path, rows, files, days=1, kind=kind, indexed=False)
            command = [sys.executable, __file__, "--child", str(path), str(rows)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        early, late, seen = json.loads(done.stdout)
        if seen != rows:
            raise SystemExit(f"{kind}: {seen} of {rows} rows")
        goal = None if quick else GOAL_RATIO
        yield Figure(f"{kind} stream: peak memory, first tenth", early / 2**20, "MiB")
        yield Figure(f"{kind} stream: peak memory, the rest", late / 2**20, "MiB")
        yield Figure(f"{kind} stream: rest against first tenth", late / early, "times", goal)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]))
    else:
        run(measure)
