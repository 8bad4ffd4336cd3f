"""Writes on a two-executor Spark on which things go wrong; prints what it saw.

usage: faults_program.py <folder> <python of the executors> <rows> <bytes a row> <step> ...
"""

from __future__ import annotations

import json
import re
import sys
import time
from functools import partial
from pathlib import Path

import lakedex
from lakedex.spark.engine import map_batches
from tests.spark import sabotage
from tests.spark.two_hosts import SPECULATION, two_hosts, wait_for_executors

PARTS = 4
INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
}
COLUMNS = "id string, ver bigint, p string, payload binary, crc bigint"
SMALL_ROWS, SMALL_WIDTH = 30_000, 200
SMALL_FILES = {"hoodie.parquet.max.file.size": "150000", "hoodie.parquet.small.file.limit": "0"}
LARGE_FILES = {"hoodie.parquet.max.file.size": str(24 << 20)}
PATIENCE_S, HANGS_ON_S = 60, 3


def main(folder: Path, executor_python: str, rows: int, width: int, *steps: str) -> None:
    settings = SPECULATION | {
        # Whatever is more than metadata shall not fit.
        "spark.driver.maxResultSize": "16m",
        # Spark kills the Python of an attempt that lost, but not always in time.
        "spark.python.task.killTimeout": "10m",
        "spark.executorEnv.LAKEDEX_HALT": str(folder / "halt"),
    }
    (folder / "halt").mkdir()
    spark = two_hosts(folder, executor_python, settings)
    lake = lakedex.attach(spark)
    told = {}
    for step in steps:
        spark.sparkContext.setJobGroup(step, step)
        warm_up(spark)
        started = time.monotonic()
        told[step] = STEPS[step](lake, folder, rows, width)
        told[step]["seconds"] = round(time.monotonic() - started, 1)
    print(json.dumps(told))
    spark.stop()


def warm_up(spark):
    """Let both executors be there, with a Python that has the package loaded."""
    wait_for_executors(spark)

    def load_package(_task):
        import lakedex.write.handles  # noqa: F401, PLC0415 - runs on an executor

        time.sleep(0.3)

    spark.sparkContext.parallelize(range(2), 2).foreach(load_package)


def load(lake, folder, rows, width):
    """A first load; the JVM of one executor is killed."""
    table = create(lake, folder / "load", "cow")
    frame = generated(lake.spark, rows, width)
    with sabotage.in_mid_write(folder / "load", folder / "halt", sabotage.kill_an_executor) as seen:
        done = table.bulk_insert(frame, options=LARGE_FILES)
    heap = lake.spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20
    return answer(done, seen) | {"driver_mb": peak_mb(), "heap_mb": heap}


def peak_mb() -> int:
    """The most that this process ever held; `ru_maxrss` begins with what its parent held."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) // 1024


def upsert(lake, folder, rows, width):
    """An upsert into log files; the JVM of one executor is killed."""
    table = create(lake, folder / "mor", "mor")
    table.bulk_insert(small(lake.spark, 0, SMALL_ROWS, 1), options=SMALL_FILES)
    warm_up(lake.spark)
    changes = small(lake.spark, SMALL_ROWS // 2, SMALL_ROWS + 1000, 2)
    with sabotage.in_mid_write(folder / "mor", folder / "halt", sabotage.kill_an_executor) as seen:
        return answer(table.upsert(changes), seen)


def delete(lake, folder, rows, width):
    """A delete; the Python of all tasks is killed."""
    table = lake.table(str(folder / "mor"))
    gone = small(lake.spark, 0, SMALL_ROWS // 3, 3)
    with sabotage.in_mid_write(folder / "mor", folder / "halt", sabotage.kill_all_workers) as seen:
        return answer(table.delete(gone), seen)


def slow(lake, folder, rows, width):
    """A load whose input has one attempt that hangs."""
    table = create(lake, folder / "cow", "cow")
    numbers = lake.spark.sparkContext.parallelize(range(SMALL_ROWS), PARTS)
    hanging = numbers.mapPartitionsWithIndex(partial(first_attempt_hangs, str(folder / "through")))
    frame = lake.spark.createDataFrame(hanging.map(lambda number: (number,)), "n bigint")
    done = table.bulk_insert(small_of(frame, 1), options=SMALL_FILES)
    return answer(done, {})


def zombie(lake, folder, rows, width):
    """An upsert with a task whose first attempt stops, and goes on after the commit."""
    root = folder / "cow"
    table = lake.table(str(root))
    changes = small(lake.spark, SMALL_ROWS // 2, SMALL_ROWS + 1000, 2)
    with sabotage.in_mid_write(root, folder / "halt", sabotage.leave_it_stopped) as seen:
        done = table.upsert(changes)
    (pid,) = seen["stopped"]
    was_stopped = sabotage.is_stopped(pid)
    before = files_of(root)
    sabotage.resume([pid])
    sabotage.wait_until_idle(pid)
    after = files_of(root)
    return answer(done, seen) | {"was_stopped": was_stopped, "came": sorted(before ^ after)}


def answer(done, seen):
    return {
        "instant": done.instant,
        "inserted": done.inserted,
        "updated": done.updated,
        "deleted": done.deleted,
        "files": done.files,
        "files_then": seen.get("files"),
    }


def create(lake, path, table_type):
    return lake.create_table(
        path.name,
        COLUMNS,
        path=path,
        record_key="id",
        ordering="ver",
        partition_by="p",
        table_type=table_type,
        properties=INDEX,
    )


def generated(spark, rows, width):
    """Rows whose payload cannot be packed, made on the executors."""

    def payloads(batches):
        import zlib  # noqa: PLC0415 - runs on an executor

        import numpy as np  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        for batch in batches:
            numbers = batch.column(0).to_pylist()
            data = np.random.default_rng(numbers[0]).bytes(width * len(numbers))
            cut = [data[at : at + width] for at in range(0, len(data), width)]
            columns = [
                pa.array([f"k{number:08}" for number in numbers]),
                pa.array([1] * len(numbers), pa.int64()),
                pa.array([f"p{number % 3}" for number in numbers]),
                pa.array(cut, pa.binary()),
                pa.array([zlib.crc32(payload) for payload in cut], pa.int64()),
            ]
            names = ["id", "ver", "p", "payload", "crc"]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    numbers = spark.range(0, rows, 1, PARTS)
    return map_batches(numbers, payloads, spark.createDataFrame([], COLUMNS).schema)


def small(spark, first, last, ver):
    return small_of(spark.range(first, last, 1, PARTS).selectExpr("id n"), ver)


def small_of(frame, ver):
    payload = f"encode(repeat(md5(cast(n as string)), {SMALL_WIDTH // 32}), 'utf-8')"
    named = frame.selectExpr("n", f"{payload} payload")
    return named.selectExpr(
        "concat('k', lpad(n, 8, '0')) id",
        f"{ver}L ver",
        "concat('p', n % 3) p",
        "payload",
        "crc32(payload) crc",
    )


def first_attempt_hangs(flag, number, part):
    """One part whose first attempt goes on some time after the second is through."""
    from pyspark import TaskContext  # noqa: PLC0415 - runs on an executor

    attempt = TaskContext.get().attemptNumber() if number == 1 else None
    ends = time.monotonic() + PATIENCE_S
    while attempt == 0 and not Path(flag).exists() and time.monotonic() < ends:
        time.sleep(0.1)
    if attempt == 0:
        time.sleep(HANGS_ON_S)
    yield from part
    if attempt:
        Path(flag).touch()


def files_of(root):
    spill = root / ".hoodie" / ".lakedex" / "spill"
    return {
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and spill not in path.parents
    }


STEPS = {"load": load, "upsert": upsert, "delete": delete, "slow": slow, "zombie": zombie}

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
