"""Rows of every type in many small files, and random SQL predicates over them."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakedex.engine import LocalEngine
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

FILES = 72
ROWS_PER_FILE = 7
UTC = dt.UTC


def _moments() -> list[dt.datetime]:
    """Around new year, and around the hours at which clocks change in Berlin and New York."""
    texts = ["1899-05-01 00:00:00", "1969-12-31 23:59:59.999999", "2020-12-31 23:30:00"]
    texts += [f"2021-03-28 0{hour}:{minute}:00" for hour in range(4) for minute in ("00", "30")]
    texts += [f"2021-10-31 0{hour}:{minute}:00" for hour in range(3) for minute in ("00", "59")]
    texts += [f"2021-11-07 0{hour}:30:00.000001" for hour in range(4, 8)]
    texts += [f"2024-0{month}-29 12:00:00" for month in range(1, 9)]
    return sorted(dt.datetime.fromisoformat(text) for text in texts)


POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.bool_(), [False, True]),
    "i": (pa.int32(), [-(2**31), *range(-30, 120, 5), 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), -5, *range(0, 2_000_000_000, 90_000_001), 2**53 + 1, 2**63 - 1]),
    "f": (pa.float32(), [-math.inf, -1.5, -0.0, 0.0, 0.5, 1.5, 2.5, 100.0, math.inf, math.nan]),
    "d": (
        pa.float64(),
        [-math.inf, -1e300, -1.5, -0.0, 0.0, 0.1, 1.5, *map(float, range(2, 30)), 1e300, math.nan],
    ),
    "s": (
        pa.string(),
        sorted(
            [*"abcAZ%_ß", "", " 12 ", "5", "5.7", "1e3", "ab", "abc", "abd", "a_b", "x" * 300]
            + [
                "2021-10-31",
                "2024-02-30",
                "2021-10-31 02:30:00",
                "true",
                "é",
                "\uffff",
                "\U0001d49c",
            ]
            + [f"city-{number:02d}" for number in range(20)]
        ),
    ),
    "y": (pa.binary(), [b"", b"\x00", b"a", b"ab", b"\x7f", b"\x80", b"\xff"]),
    "n": (pa.decimal128(10, 2), [Decimal(step) / 4 - 5 for step in range(60)]),
    "m": (pa.decimal128(30, 10), [Decimal(step) * Decimal("1.0000000001") for step in range(25)]),
    "t": (pa.date32(), [moment.date() for moment in _moments()] + [dt.date(9999, 12, 31)]),
    "z": (pa.timestamp("us", "UTC"), [moment.replace(tzinfo=UTC) for moment in _moments()]),
    "w": (pa.timestamp("us"), _moments()),
}
ADDRESS = pa.struct([("zip", pa.string()), ("no", pa.int32())])
SCHEMA = pa.schema(
    [("id", pa.int64()), ("p", pa.string())]
    + [(name, kind) for name, (kind, _) in POOLS.items()]
    + [("a", ADDRESS)]
)


def zoo_rows(seed: int = 7) -> pa.Table:
    """Rows of which each file has a narrow window of every column; some have nothing but nulls."""
    dice = random.Random(seed)
    rows = []
    for file in range(FILES):
        windows = {name: _window(dice, values) for name, (_, values) in POOLS.items()}
        zips = _window(dice, [f"{number:05d}" for number in range(0, 90_000, 1_500)])
        for _ in range(ROWS_PER_FILE):
            row: dict[str, Any] = {"id": len(rows), "p": f"{file:02d}"}
            row |= {name: dice.choice(window) for name, window in windows.items()}
            row["a"] = dice.choice([None, {"zip": dice.choice(zips), "no": dice.choice([1, None])}])
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _window(dice: random.Random, values: list[Any]) -> list[Any]:
    if dice.random() < 0.05:
        return [None]
    first = dice.randrange(len(values))
    window = values[first : first + dice.choice([1, 2, 4])]
    return [*window, None] if dice.random() < 0.3 else window


def write_zoo(path: Path, rows: pa.Table) -> str:
    """A lakedex table of the rows, one file for each value of `p`."""
    address = StorageAddress.of(str(path))
    spec = TableSpec(name="zoo", schema=SCHEMA, record_key="id", partition_by="p", ordering=())
    create_table(address.open(), spec)
    TableWriter(address, LocalEngine(2)).insert(ArrowRowSource(rows))
    return str(path)
