"""Files of random rows with statistics as Hudi writes them, quirks included."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math

import numpy as np
import pyarrow as pa

from lakedex.expr.bounds import ColumnBounds
from lakedex.expr.tree import (
    And,
    Not,
    Or,
    Unknown,
)
from tests.support.predicate_zoo import (
    POOLS,
    UTC,
    WRITES_ZERO,
    column,
    random_rows,
    table_of,
)
from tests.support.spark_reference import order_key


def java_key(name):
    """How the JVM compares values when it merges statistics or reads a log."""
    if name == "s":
        return lambda value: value.encode("utf-16-be")
    if name == "y":
        return lambda value: [byte - 256 if byte > 127 else byte for byte in value]
    return order_key


def chunk_bounds(name, values, writer):
    """Minimum and maximum of one row group or log file, quirks included."""
    present = [value for value in values if value is not None]
    numbers = [value for value in present if not (isinstance(value, float) and math.isnan(value))]
    if not present:
        zero = {"b": False, "t": dt.date(1970, 1, 1)}.get(name, 0.0 if name in "fd" else 0)
        if name in "zw":
            zero = dt.datetime(1970, 1, 1, tzinfo=UTC if name == "z" else None)
        return (zero, zero) if name in WRITES_ZERO and writer == "java" else (None, None)
    if len(numbers) < len(present) and writer == "java":
        return 0.0, 0.0
    if writer == "arrow":
        present = numbers
    key = java_key(name) if writer == "log" else order_key
    return min(present, key=key, default=None), max(present, key=key, default=None)


@dataclasses.dataclass(frozen=True)
class Files:
    """The rows of all files with the number of their file, and every column's bounds."""

    table: pa.Table
    count: int
    bounds: dict

    def __repr__(self):
        return repr(self.table.to_pylist())


def random_files(dice, count=None):
    """Files of random rows from different writers, and the bounds that those write."""
    files = [random_rows(dice) for _ in range(count or dice.randint(1, 12))]
    stats = {name: [] for name in POOLS}
    for rows in files:
        writer = dice.choice(["java", "log", "arrow"])
        cut = dice.choice([0, len(rows) // 2])
        chunks = [rows[:cut], rows[cut:]] if cut and writer == "java" else [rows]
        for name in POOLS:
            stats[name].append(file_stats(dice, name, chunks, writer))
    numbers = [number for number, rows in enumerate(files) for _ in rows]
    table = table_of([row for rows in files for row in rows])
    table = table.append_column("file", pa.array(numbers, pa.int64()))
    bounds = {column(name): bounds_of(name, entries) for name, entries in stats.items()}
    return Files(table, len(files), bounds)


def file_stats(dice, name, chunks, writer):
    values = [[row[name] for row in rows] for rows in chunks]
    pairs = [chunk_bounds(name, part, writer) for part in values]
    pairs = [pair for pair in pairs if pair[0] is not None]
    key = java_key(name)
    low = min((pair[0] for pair in pairs), key=key) if pairs else None
    high = max((pair[1] for pair in pairs), key=key) if pairs else None
    every = [value for part in values for value in part]
    nulls = sum(value is None for value in every)
    lost = dice.choice([*[""] * 8, "min", "max", "nulls", "count", "all"])
    return (
        None if lost in ("min", "all") else low,
        None if lost in ("max", "all") else high,
        -1 if lost in ("nulls", "all") else nulls,
        -1 if lost in ("count", "all") else len(every),
        lost != "all",
    )


def bounds_of(name, entries):
    kind = POOLS[name][0]
    low, high, nulls, counts, known = zip(*entries, strict=True)
    return ColumnBounds(
        kind,
        pa.array(low, kind),
        pa.array(high, kind),
        np.array(nulls, np.int64),
        np.array(counts, np.int64),
        np.array(known, np.bool_),
    )


# ---------------------------------------------------------------- the properties


UNKNOWN = Unknown("?")


def expression_bounds(kind, entries):
    low, high, arrays = zip(*entries, strict=True)
    return ColumnBounds(
        kind,
        pa.array(low, kind),
        pa.array(high, kind),
        np.array([array.null_count for array in arrays], np.int64),
        np.array([len(array) for array in arrays], np.int64),
        np.ones(len(arrays), np.bool_),
    )


def replaced(expr, literal_value):
    match expr:
        case Unknown():
            return literal_value
        case And(children):
            return And(tuple(replaced(child, literal_value) for child in children))
        case Or(children):
            return Or(tuple(replaced(child, literal_value) for child in children))
        case Not(child):
            return Not(replaced(child, literal_value))
    return expr
