"""What a dead writer may leave behind, and what must be gone after the next write."""

from __future__ import annotations

import re
from pathlib import Path

import lakedex
from lakedex.storage.paths import is_side_file

DATA_FILE = re.compile(r".*_([0-9]{17,})(?:\.parquet|\.hfile|\.log\..*)")
RING_FILE = re.compile(r"([0-9]+)\.(?:hashing_meta|commit)")
LEFT_OVER_FOLDERS = (".temp", ".heartbeat", ".lakedex/spill", ".lakedex/writers")


def assert_nothing_left(path: Path) -> None:
    """Every data file belongs to a completed write, and no help file is left."""
    for root in (path, path / ".hoodie/metadata"):
        timeline = lakedex.open(str(root)).timeline
        done = {instant.requested_time for instant in timeline.write_instants()}
        # What is older has been archived, which takes completed writes only.
        oldest = "" if timeline.first_active is None else timeline.first_active.requested_time
        assert not timeline.pending(), f"{root}: {timeline.pending()}"
        for file in root.rglob("*"):
            inside = file.relative_to(root)
            ring = RING_FILE.fullmatch(file.name)
            if ring is not None:
                instant = ring.group(1)
                is_known = instant in done or instant < oldest or not instant.strip("0")
                assert is_known, f"{inside} is of no completed write"
            if inside.parts[0] == ".hoodie" or is_side_file(file.name) or not file.is_file():
                continue
            found = DATA_FILE.fullmatch(file.name)
            if found is None:
                assert file.name == ".hoodie_partition_metadata", inside
            else:
                is_known = found.group(1) in done or found.group(1) < oldest
                assert is_known, f"{inside} is of no completed write"
        for folder in LEFT_OVER_FOLDERS:
            left = [file for file in (root / ".hoodie" / folder).rglob("*") if file.is_file()]
            assert not left, left
