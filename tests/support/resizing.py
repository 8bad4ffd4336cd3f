"""A small table whose buckets are being split or merged, and its writers meanwhile."""

from __future__ import annotations

from pathlib import Path

from lakedex.engine import LocalEngine
from lakedex.index.kinds.bucket.resize import MiddlePolicy
from lakedex.services.clustering.resizing import schedule_resize
from lakedex.write.resizing import ResizeLimits
from lakedex.write.verbs import TableWriter
from tests.support.write_lab import Lab, row

SPLIT_ALL = ResizeLimits(1, split_above=0, merge_below=0, most=64)
MERGE_ALL = ResizeLimits.of(1 << 20, split=2.0, merge=0.5)
DUAL = {
    "hoodie.clustering.updates.strategy": (
        "org.apache.hudi.client.clustering.update.strategy."
        "SparkConsistentBucketDuplicateUpdateStrategy"
    )
}
VIRTUAL = {"lakedex.bucket.resize.writes": "virtual"}


def lab_of(tmp_path: Path, engine: str = "CONSISTENT_HASHING", **more: str) -> Lab:
    properties = {
        "hoodie.index.bucket.engine": engine,
        "hoodie.bucket.index.num.buckets": "2",
        **more,
    }
    return Lab(tmp_path, "mor", "BUCKET", properties=properties)


def rows_of(count: int, version: int, first: int = 0) -> list[dict]:
    return [row(f"k{number:03d}", "a", version, 0.5) for number in range(first, first + count)]


def beside(lab: Lab, writes: dict[str, str]) -> TableWriter:
    """A writer that goes on beside a resize."""
    return TableWriter(lab.address, LocalEngine(2), writes)


def plan_split(lab: Lab) -> str:
    instant = schedule_resize(TableWriter(lab.address), SPLIT_ALL, MiddlePolicy())
    assert instant is not None
    return instant


def plan_merge(lab: Lab) -> str:
    instant = schedule_resize(TableWriter(lab.address), MERGE_ALL)
    assert instant is not None
    return instant


def logs_of(path: str, instant: str) -> list[Path]:
    """The log files with an instant in their names."""
    return sorted(Path(path, "p=a").glob(f".*_{instant}.log.*"))
