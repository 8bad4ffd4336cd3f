"""Many small commits to one merge-on-read table: how many log files there are, and what reads cost.

Compaction of the table and of its metadata table keeps both bounded, as archiving does timelines.
A chart on standard error shows, as commits go by, the log files of the two, what the metadata table
makes readers read (log bytes, files of both timelines), and the milliseconds of a lookup by key.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from report import Figure, run

import lakedex
from lakedex.engine import LocalEngine
from lakedex.services.inline import writer_with_services
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import TableSpec, create_table
from lakedex.write.row_source import ArrowRowSource

COMMITS, QUICK_COMMITS = 500, 60
ROWS, BATCH = 2_000, 20
LOGS_OF_A_GROUP = 6
"""Compaction runs after so many deltacommits, the default, and one more may have come."""
METADATA_LOGS_OF_A_GROUP = 12
TIMELINE_FILES = 400
"""Of both tables: archiving leaves at most 30 commits, of three files each, and their services."""
GROWTH = 2.0
"""What the last lookups may cost in terms of the first ones."""
SCHEMA = pa.schema([("id", pa.string()), ("ver", pa.int64()), ("v", pa.string())])
OPTIONS = {
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
    "hoodie.compact.inline": "true",
}


@dataclass(frozen=True)
class Sight:
    """The table after so many commits."""

    commits: int
    logs: int
    metadata_logs: int
    metadata_kb: float
    """What lies in log files of the metadata table."""
    timeline_files: int
    """The files of both active timelines, which everybody lists."""
    lookup_ms: float
    commit_ms: float


def rows(first: int, count: int, ver: int) -> pa.Table:
    numbers = [(first + at) % ROWS for at in range(count)]
    columns = [[f"k{n:05d}" for n in numbers], [ver] * count, [f"{n}-{ver}" for n in numbers]]
    return pa.table(columns, schema=SCHEMA)


def history(path: str, commits: int) -> Iterator[Sight]:
    """Write so many commits, and look from time to time."""
    address = StorageAddress.of(path)
    spec = TableSpec("t", SCHEMA, "id", "ver", table_type="mor", properties=OPTIONS)
    create_table(address.open(), spec)
    writer = writer_with_services(address, LocalEngine(1), OPTIONS)
    writer.bulk_insert(ArrowRowSource(rows(0, ROWS, 0)))
    taken: list[float] = []
    # Compactions come after 5 and after 10 commits: the sights fall on all places between them.
    step = commits // 20 | 1
    step -= 2 if step % 5 == 0 else 0
    for number in range(1, commits + 1):
        begun = time.perf_counter()
        writer.upsert(ArrowRowSource(rows(number * BATCH, BATCH, number)))
        taken.append(time.perf_counter() - begun)
        if number % step == 0:
            yield sight(path, number, 1000 * statistics.median(taken[-10:]))


def sight(path: str, commits: int, commit_ms: float) -> Sight:
    snapshot = lakedex.open(path).snapshot
    metadata = snapshot.metadata
    names = snapshot.config.metadata_partitions
    logs = [group.logs for name in names for group in metadata.groups(name)]
    folders = [".hoodie/timeline", ".hoodie/metadata/.hoodie/timeline"]
    lookups = []
    for number in range(3):
        begun = time.perf_counter()
        found = lakedex.open(path).to_arrow(f"id = 'k{number:05d}'")
        lookups.append(time.perf_counter() - begun)
        assert found.num_rows == 1
    return Sight(
        commits,
        logs=max(len(each.logs) for each in snapshot.slices),
        metadata_logs=max(map(len, logs)),
        metadata_kb=sum(log.size_bytes for each in logs for log in each) / 1000,
        timeline_files=sum(len(snapshot.storage.list(folder)) for folder in folders),
        lookup_ms=1000 * min(lookups),
        commit_ms=commit_ms,
    )


def chart(sights: list[Sight]) -> str:
    lines = [
        "commits  logs a group  metadata logs a group  metadata kB  timelines  lookup ms  commit ms"
    ]
    for each in sights:
        bars = f"{'#' * each.logs:12} {'#' * each.metadata_logs:22}"
        reads = f"{each.metadata_kb:11.1f} {each.timeline_files:10}"
        times = f"{each.lookup_ms:9.1f} {each.commit_ms:10.1f}"
        lines.append(f"{each.commits:7}  {bars} {reads}  {times}")
    return "\n".join(lines)


def measure(quick: bool) -> Iterator[Figure]:
    commits = QUICK_COMMITS if quick else COMMITS
    with tempfile.TemporaryDirectory() as folder:
        sights = list(history(str(Path(folder, "t")), commits))
    print(chart(sights), file=sys.stderr)
    what = f"{commits} commits of {BATCH} rows"
    logs, inner = (max(getattr(s, n) for s in sights) for n in ("logs", "metadata_logs"))
    yield Figure(f"{what}: most log files of a group", logs, "files", LOGS_OF_A_GROUP)
    goal = METADATA_LOGS_OF_A_GROUP
    yield Figure(f"{what}: most log files of a metadata group", inner, "files", goal)
    files = max(each.timeline_files for each in sights)
    yield Figure(f"{what}: most files of both timelines", files, "files", TIMELINE_FILES)
    third = max(1, len(sights) // 3)
    first, last = ([s.metadata_kb for s in part] for part in (sights[:third], sights[-third:]))
    growth = max(last) / max(first)
    yield Figure(f"{what}: metadata logs, last third to first third", growth, "times", GROWTH)
    for name, unit, most in (("lookup_ms", "lookup", GROWTH), ("commit_ms", "commit", GROWTH)):
        first = statistics.median(getattr(each, name) for each in sights[:third])
        last = statistics.median(getattr(each, name) for each in sights[-third:])
        yield Figure(f"{what}: {unit}, at the end", last, "ms")
        yield Figure(f"{what}: {unit}, last third to first third", last / first, "times", most)


if __name__ == "__main__":
    run(measure)
