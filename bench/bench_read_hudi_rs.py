"""Side by side with hudi-rs: full and selective reads of the same tables.

Two of the tables come from no known writer, so that lakedex counts their indexes before it trusts
them; the third is written by lakedex, which notes that they are whole.

Each engine reads in a process of its own, opens the table anew for every read, and its best of
three counts; the page cache is warm. Both must find the same rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hudi
import pyarrow as pa
import pyarrow.compute as pc
from report import Figure, best, run
from rides import build, write

import lakedex

TRIES = 3
WARM = "warm"
OWN = "mor written by lakedex"
WARM_KEYS = 10
SETTINGS = {True: (20_000, 20, 4), False: (1_000_000, 200, 20)}
"""Rows, files and days, quick or not."""

LIMITS = {"full": 1.0, "record key": 3.0, "secondary": 3.0, "range": 1.0, "partition": 1.0}
"""How many times faster than hudi-rs lakedex must be at least."""

Conditions = list[tuple[str, str, str]]
Query = dict[str, Conditions]


def queries(rows: pa.Table) -> Query:
    """The conditions of each query, in the terms of both engines."""
    middle = rows.slice(rows.num_rows // 2, 1).to_pylist()[0]
    low = middle["seq"] + 10
    return {
        "full": [],
        "record key": [("id", "=", middle["id"])],
        "secondary": [("rider", "=", middle["rider"])],
        "range": [("seq", ">=", str(low)), ("seq", "<=", str(low + 800))],
        "partition": [("day", "=", middle["day"])],
    }


def read_lakedex(path: str, conditions: Conditions) -> pa.Table:
    parts = [
        f"{name} {sign} {value if name == 'seq' else repr(value)}"
        for name, sign, value in conditions
    ]
    return lakedex.open(path).to_arrow(" AND ".join(parts) or None)


def read_hudi_rs(path: str, conditions: Conditions) -> pa.Table:
    table = hudi.HudiTableBuilder.from_base_uri(path).build()
    filters = [tuple(condition) for condition in conditions]
    options = hudi.HudiReadOptions(filters=filters) if filters else None
    batches = table.read(options)
    return pa.Table.from_batches(batches) if batches else pa.table({})


ENGINES: dict[str, Callable[..., pa.Table]] = {"lakedex": read_lakedex, "hudi-rs": read_hudi_rs}


def child(engine: str, path: str, asked: Query) -> None:
    """Read everything that is asked; print seconds, row count and checksums."""
    read = ENGINES[engine]
    read(path, [])
    for name, conditions in asked.items():
        rows = read(path, conditions)
        sums = [pc.sum(rows[column]).as_py() for column in ("seq", "ver")]
        lengths = pc.sum(pc.binary_length(rows["_hoodie_file_name"])).as_py()
        seconds = best(lambda c=conditions: read(path, c), TRIES)
        print(json.dumps([name, seconds, [rows.num_rows, *sums, lengths]]))
    if engine == "lakedex":
        print(json.dumps([WARM, warm_seconds(path), []]))


def warm_seconds(path: str) -> float:
    """For another key of a table that has answered for one already."""
    table = lakedex.open(path)
    keys = table.to_arrow(f"seq < {WARM_KEYS}", ["id"])["id"].to_pylist()
    conditions = iter([f"id = {key!r}" for key in keys])
    table.to_arrow(next(conditions))
    return best(lambda: table.to_arrow(next(conditions)), WARM_KEYS - 1)


def asked_of(engine: str, path: str, asked: Query) -> dict[str, tuple[float, list[int]]]:
    command = [sys.executable, __file__, "--child", engine, path, json.dumps(asked)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = map(json.loads, done.stdout.splitlines())
    return {name: (seconds, found) for name, seconds, found in lines}


def measure(quick: bool) -> Iterator[Figure]:
    rows, files, days = SETTINGS[quick]
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("cow", "mor", OWN):
            path = Path(folder, kind)
            if kind == OWN:
                asked = queries(write(path, rows, files))
            else:
                asked = queries(build(path, rows, files, days=days, kind=kind).rows())
            ours = asked_of("lakedex", str(path), asked)
            theirs = asked_of("hudi-rs", str(path), asked)
            for name in asked:
                if ours[name][1] != theirs[name][1]:
                    raise SystemExit(f"{kind} {name}: {ours[name][1]} and {theirs[name][1]}")
                yield Figure(f"{kind}: {name} read", ours[name][0] * 1e3, "ms")
                ratio = theirs[name][0] / ours[name][0]
                goal = None if quick else LIMITS[name]
                what = f"{kind}: {name} read, times faster than hudi-rs"
                yield Figure(what, ratio, "x", goal, at_least=True)
            yield Figure(f"{kind}: record key read, same table again", ours[WARM][0] * 1e3, "ms")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
    else:
        run(measure)
