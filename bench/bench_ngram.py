"""ngram indexes: finding a string in the lines of a log, beside a scan; building; size.

Lines are made of levels, services, random identifiers and addresses. A string that three of the
files contain is searched by LIKE, ILIKE and RLIKE, with the index and without, in turns.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from report import Figure, run

import lakedex
from lakedex.engine import LocalEngine
from lakedex.services.index_creating import create_index
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

SIZES = {True: (20_000, 50), False: (1_000_000, 500)}
"""Lines and files."""
NEEDLE = "payment-7F3a9C declined"
NEEDLE_FILES = 3
TRIES = 9
MOST_FILES = 6
LEAST_TIMES = 20.0
LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "WARN", "ERROR")
SERVICES = ("checkout", "inventory", "search", "gateway", "billing", "auth", "mail", "cache")
ACTIONS = (
    "request completed in",
    "connection reset by peer after",
    "retrying call to upstream, waited",
    "cache miss, loaded in",
    "user session expired after",
    "wrote batch to storage in",
)
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("message", pa.string())])
CONDITIONS = {
    "LIKE": f"message LIKE '%{NEEDLE}%'",
    "ILIKE": f"message ILIKE '%{NEEDLE.upper()}%'",
    "RLIKE": r"message RLIKE 'payment-7F[0-9]a9C declined.* ms'",
}


def log_lines(count: int, files: int) -> pa.Table:
    """Lines by day, one file each; the needle stands in one line of three of the files."""
    dice = np.random.default_rng(4711)

    def one_of(words: tuple[str, ...]) -> pa.Array:
        return pa.array(words).take(pa.array(dice.integers(0, len(words), count)))

    def numbers(most: int) -> pa.Array:
        return pa.array(dice.integers(0, most, count)).cast(pa.string())

    number = np.arange(count)
    identifiers = pa.array([f"{each:016x}" for each in dice.integers(0, 1 << 62, count)])
    address = pc.binary_join_element_wise("10", *(numbers(256) for _ in range(3)), ".")
    message = pc.binary_join_element_wise(
        one_of(LEVELS),
        one_of(SERVICES),
        identifiers,
        one_of(ACTIONS),
        numbers(9000),
        "ms",
        address,
        " ",
    )
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[[(at * files // NEEDLE_FILES) * (count // files) + 7 for at in range(NEEDLE_FILES)]] = (
        True
    )
    needle = pc.binary_join_element_wise(message, f"{NEEDLE}, 12 ms", " ")
    message = pc.if_else(pa.array(chosen), needle, message)
    day = pc.binary_join_element_wise("d", pa.array(number * files // count).cast(pa.string()), "")
    return pa.table([number, day, message], schema=SCHEMA)


def load(path: Path, count: int, files: int) -> TableWriter:
    address = StorageAddress.of(str(path))
    spec = TableSpec("logs", SCHEMA, "id", "", "day", "cow", {})
    create_table(address.open(), spec)
    writer = TableWriter(address, LocalEngine(2))
    writer.bulk_insert(ArrowRowSource(log_lines(count, files)))
    return writer


def timed(table: lakedex.Table, condition: str) -> tuple[float, int]:
    began = time.perf_counter()
    rows = table.to_arrow(condition, ["id"]).num_rows
    return time.perf_counter() - began, rows


def cold(path: Path, condition: str) -> float:
    """Seconds of a query by the index, opening the table included."""
    began = time.perf_counter()
    lakedex.open(path).to_arrow(condition, ["id"])
    return time.perf_counter() - began


def measure(quick: bool) -> Iterator[Figure]:
    count, files = SIZES[quick]
    where = f"{count:,} lines in {files} files"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "logs")
        writer = load(path, count, files)
        began = time.perf_counter()
        create_index(writer, "grams", "message", using="ngram")
        yield Figure(f"{where}: CREATE INDEX USING ngram", time.perf_counter() - began, "s")
        runs = Path(path, ".hoodie", ".lakedex", "index", "ngram").rglob("*.parquet")
        stored = sum(each.stat().st_size for each in runs)
        yield Figure(f"{where}: size of the index", stored / files, "bytes a file")
        for what, condition in CONDITIONS.items():
            yield from query_figures(path, f"{where}, {what}", condition)


def query_figures(path: Path, where: str, condition: str) -> Iterator[Figure]:
    ways = {
        "index": lakedex.open(path),
        "scan": lakedex.open(path, options=lakedex.ReadOptions(without_indexes={"all"})),
    }
    seconds: dict[str, list[float]] = {way: [] for way in (*ways, "cold")}
    for _ in range(TRIES):
        for way, table in ways.items():
            took, rows = timed(table, condition)
            if rows != NEEDLE_FILES:
                raise RuntimeError(f"{condition} by {way} found {rows} rows")
            seconds[way].append(took)
        seconds["cold"].append(cold(path, condition))
    index, scan, opened = (statistics.median(seconds[way]) for way in ("index", "scan", "cold"))
    left = len(ways["index"].explain(condition).files)
    yield Figure(f"{where}: files read", left, "", MOST_FILES)
    yield Figure(f"{where}: scan", scan * 1000, "ms")
    yield Figure(f"{where}: by index", index * 1000, "ms")
    yield Figure(f"{where}: by index, opening the table", opened * 1000, "ms")
    yield Figure(f"{where}: scan beside the index", scan / index, "x", LEAST_TIMES, at_least=True)


if __name__ == "__main__":
    run(measure)
