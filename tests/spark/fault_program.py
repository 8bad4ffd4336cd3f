"""Writes on two executors while attempts get stuck, executors die and zombies go on.

The executors are on two hosts of a standalone cluster, as `local-cluster` has one only, and Spark
speculates on another host than that of the first attempt. Prints what it saw.

usage: fault_program.py <folder> <python of the executors>
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import fault_workers
import pyspark

import lakedex
from lakedex.errors import LakedexError
from lakedex.spark.engine import SparkEngine
from lakedex.spark.lake import Lake
from lakedex.write import walk
from lakedex.write.handles.task import write_groups

HOSTS = ("127.0.0.1", "127.0.0.2")
ROWS, CITIES = 2400, 12
WRITES = {
    "cow": (
        ("bulk_insert", range(ROWS), "speculated"),
        ("upsert", range(1200, 3600), "killed"),
    ),
    "mor": (
        ("bulk_insert", range(ROWS), "zombie"),
        ("upsert", range(1200, 3600), "speculated"),
    ),
}
"""What is written to each table, with the version of its rows counted from 1, and what happens."""
LEFT_OVER = (".temp", ".heartbeat", ".lakedex/spill", ".lakedex/writers")
PATIENCE_S = 120


def main(folder: Path, executor_python: str) -> None:
    os.environ["PYSPARK_PYTHON"] = executor_python
    with cluster(folder) as master:
        lake = lakedex.local(
            **{
                "spark.master": master,
                "spark.executor.memory": "512m",
                "spark.executor.cores": "1",
                "spark.driver.memory": "512m",
                "spark.speculation": "true",
                "spark.speculation.interval": "50ms",
                "spark.speculation.quantile": "0.5",
                "spark.speculation.multiplier": "1.2",
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.sql.session.timeZone": "UTC",
                "spark.default.parallelism": "2",
                "spark.sql.shuffle.partitions": "2",
            }
        )
        context = lake.spark.sparkContext
        context.setLogLevel("OFF")
        context.addPyFile(fault_workers.__file__)
        told = {kind: history(lake, folder / kind) for kind in WRITES}
        print(json.dumps(told))
        lake.spark.stop()


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers; the address of the master."""
    with socket.socket() as probe:
        probe.bind((HOSTS[0], 0))
        port = probe.getsockname()[1]
    master = f"spark://{HOSTS[0]}:{port}"
    roles = [["master.Master", "--host", HOSTS[0], "--port", str(port)]]
    for host in HOSTS:
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work")]
        roles.append(["worker.Worker", "--host", host, *size, master])
    start = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = {**os.environ, "SPARK_DAEMON_MEMORY": "192m"}
    running = []
    try:
        for name, *arguments in roles:
            command = [start, f"org.apache.spark.deploy.{name}", "--webui-port", "0", *arguments]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            running.append(subprocess.Popen(command, env=environment, **quiet))
        yield master
    finally:
        for process in running:
            process.kill()
            process.wait()


def history(lake: Lake, path: Path) -> dict:
    """All writes of one table; what was seen after each."""
    table = lake.create_table(
        path.name,
        "id string, city string, v bigint",
        path=path,
        record_key="id",
        ordering="v",
        partition_by="city",
        table_type=path.name,
        properties={
            "hoodie.index.type": "RECORD_INDEX",
            "hoodie.metadata.record.index.enable": "true",
        },
    )

    def rows(ids: range, version: int):
        numbers = lake.spark.range(ids.start, ids.stop, 1, 2)
        city = f"concat('c', id % {CITIES})"
        return numbers.selectExpr("cast(id as string) id", f"{city} city", f"{version}L v")

    told: dict = {}
    for version, (verb, ids, fault) in enumerate(WRITES[path.name], 1):
        wait_until(lambda: lake.spark._jsc.sc().getExecutorMemoryStatus().size() == 3)
        notes = path.parent / f"notes-{path.name}-{fault}"
        notes.mkdir()
        write = partial(getattr(table, verb), rows(ids, version))
        told[fault] = {**under(fault, notes, write), "left": left_over(path)}
    with noted_tasks() as tasks:
        table.upsert(rows(range(300), 7))
    told["again after the commit"] = again(path, tasks)
    walk.write_groups = fault_workers.refuse_first
    try:
        with noted_tasks() as tasks:
            table.upsert(rows(range(600), 9))
    except LakedexError as error:
        told["refused"] = str(error)
    finally:
        walk.write_groups = write_groups
    told["again after the rollback"] = again(path, tasks)
    told["rows"] = table.to_df().count()
    told["problems"] = [str(problem) for problem in table.verify().problems]
    return told


def under(fault: str, notes: Path, write: Callable[[], object]) -> dict:
    """Do a write whose first attempt gets stuck, and let it go on after the commit."""
    walk.write_groups = partial(fault_workers.stuck_once, str(notes), fault == "zombie")
    killer = threading.Thread(target=kill_executor, args=(fault, notes), daemon=True)
    killer.start()
    try:
        write()
    finally:
        walk.write_groups = write_groups
    killer.join(PATIENCE_S)
    stuck = json.loads((notes / "stuck").read_text(encoding="utf-8"))
    goes_on = is_running(stuck["pid"])
    (notes / "go").touch()
    ended = notes / "end"
    wait_until(lambda: ended.exists() or not is_running(stuck["pid"]))
    return {
        "attempts": len(list(notes.glob(f"attempt-{stuck['task']}-*"))),
        "goes on": goes_on,
        "end": json.loads(ended.read_text(encoding="utf-8")) if ended.exists() else None,
    }


def kill_executor(fault: str, notes: Path) -> None:
    """Kill the JVM of the executor whose worker is stuck, and the worker unless it survives."""
    stuck = notes / "stuck"
    wait_until(stuck.exists)
    if fault == "speculated":
        return
    worker = json.loads(stuck.read_text(encoding="utf-8"))["pid"]
    executor = worker
    while "CoarseGrainedExecutorBackend" not in command_line(executor):
        executor = parent(executor)
    os.kill(executor, signal.SIGKILL)
    if fault == "killed":
        os.kill(worker, signal.SIGKILL)


@contextmanager
def noted_tasks() -> Iterator[list]:
    """The tasks of the write stage, as they are handed to Spark meanwhile."""
    tasks: list = []
    original = SparkEngine.map

    def note(self, label, worker, given):
        if label == "write the files":
            tasks.extend(given)
        return original(self, label, worker, given)

    SparkEngine.map = note
    try:
        yield tasks
    finally:
        SparkEngine.map = original


def again(path: Path, tasks: list) -> dict:
    """Run the tasks of a write that has ended once more, here."""
    before, ends = files(path), set()
    for task in tasks:
        try:
            write_groups(task)
            ends.add("done")
        except LakedexError as error:
            ends.add(type(error).__name__)
    return {"ends": sorted(ends), "is as before": files(path) == before, "left": left_over(path)}


def files(path: Path) -> dict[str, int]:
    return {str(found): found.stat().st_mtime_ns for found in path.rglob("*")}


def left_over(path: Path) -> list[str]:
    """What lies beside the table that writes must remove."""
    return [
        str(found.relative_to(path))
        for name in LEFT_OVER
        for found in (path / ".hoodie" / name).glob("*")
    ]


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return stat_of(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent(pid: int) -> int:
    return int(stat_of(pid)[1])


def stat_of(pid: int) -> list[str]:
    """State, parent and more, as proc(5) tells after the name of the program."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
