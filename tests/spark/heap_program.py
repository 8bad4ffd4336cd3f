"""Load and change more rows than the driver could hold; prints what that took of the driver.

usage: heap_program.py <folder> <python of the executors>
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from functools import partial
from pathlib import Path

import fault_workers
import pyarrow as pa

import lakedex
from lakedex.spark.arrow_map import map_batches
from lakedex.spark.schemas import spark_schema

HEAP_MB = 320
ROW_BYTES = 16 << 10
LOADED = range(40_000)
CHANGED = range(30_000, 50_000)
SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("v", pa.int64()), ("payload", pa.binary())]
)
SUMS = ("count(1)", "sum(v)", "sum(octet_length(payload))", "sum(crc32(payload))")


def main(folder: Path, executor_python: str) -> None:
    os.environ["PYSPARK_PYTHON"] = executor_python
    os.environ["SPARK_WORKER_DIR"] = str(folder / "work")
    lake = lakedex.local(
        **{
            "spark.master": "local-cluster[2,1,512]",
            "spark.executor.memory": "512m",
            "spark.driver.memory": f"{HEAP_MB}m",
            # Spark refuses a heap that is smaller than 1.5 times what it keeps for itself.
            "spark.testing.reservedMemory": str(100 << 20),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.execution.arrow.maxRecordsPerBatch": str(fault_workers.ROWS_A_BATCH),
            "spark.default.parallelism": "2",
            "spark.sql.shuffle.partitions": "2",
        }
    )
    spark = lake.spark
    spark.sparkContext.setLogLevel("OFF")
    spark.sparkContext.addPyFile(fault_workers.__file__)

    def rows(ids: range, version: int):
        numbers = spark.range(ids.start, ids.stop, 1, 4)
        make = partial(fault_workers.random_payloads, version, ROW_BYTES)
        return map_batches(numbers, make, spark_schema(SCHEMA))

    def sums(frame) -> list[int]:
        return [int(value) for value in frame.selectExpr(*SUMS).collect()[0]]

    table = lake.create_table(
        "mor",
        "id string, part string, v bigint, payload binary",
        path=folder / "mor",
        record_key="id",
        ordering="v",
        partition_by="part",
        table_type="mor",
        properties={
            "hoodie.index.type": "RECORD_INDEX",
            "hoodie.metadata.record.index.enable": "true",
        },
    )
    # What a first write loads is no matter here.
    table.upsert(rows(range(100), 1))
    before = peak_bytes()
    seconds = {}
    for verb, ids, version in (("upsert", LOADED, 2), ("upsert", CHANGED, 3)):
        started = time.monotonic()
        getattr(table, verb)(rows(ids, version))
        seconds[version] = round(time.monotonic() - started, 1)
    grown = peak_bytes() - before
    started = time.monotonic()
    kept = rows(range(CHANGED.start), 2).unionAll(rows(CHANGED, 3))
    told = {
        "bytes": (len(LOADED) + len(CHANGED)) * ROW_BYTES,
        "heap": spark._jvm.java.lang.Runtime.getRuntime().maxMemory(),
        "grown": grown,
        "expected": sums(kept),
        "found": sums(table.to_df().select("v", "payload")),
        "seconds": seconds,
        "read": round(time.monotonic() - started, 1),
    }
    spark.stop()
    shutil.rmtree(folder / "mor")
    print(json.dumps(told))


def peak_bytes() -> int:
    """The most memory that this process, the Python of the driver, has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
