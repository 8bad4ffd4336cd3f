"""The second half of the demo: a table that lakedex writes, looks a key up in, and checks."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lakedex import api
from lakedex.cli.hudi_rs import ask_hudi_rs
from lakedex.storage.address import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.result import WriteResult
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

_ROWS = 100_000
_CITIES = 50
_GONE = "city = 'city-07' and fare < 50"
_SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("fare", pa.float64()),
    ]
)
_SPEC = TableSpec(
    name="rides",
    schema=_SCHEMA,
    record_key="uuid",
    ordering="ts",
    partition_by="city",
    table_type="mor",
    properties={"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"},
)


@dataclass(frozen=True)
class Written:
    """What the writing half came to."""

    steps: tuple[tuple[str, str, float], ...]
    """What was done, what it came to, and its seconds."""
    total: int
    """File slices of the table."""
    left: int
    """File slices that a lookup of one key reads."""
    rows: int
    is_right: bool
    """Whether rows are as expected and every index agrees with the data."""
    hudi_rs: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "steps": [
                {"what": what, "result": told, "seconds": seconds}
                for what, told, seconds in self.steps
            ],
            "file_slices": self.total,
            "read_for_one_key": self.left,
            "rows": self.rows,
            "ok": self.is_right,
            "hudi_rs": self.hudi_rs,
        }


def write_a_table() -> Written:
    """Write a table in a folder of its own, and look at it from all sides."""
    with tempfile.TemporaryDirectory(prefix="lakedex-demo-") as folder:
        path = str(Path(folder, "rides"))
        address = StorageAddress.of(path)
        create_table(address.open(), _SPEC)
        writer = TableWriter(address)
        steps: list[tuple[str, str, float]] = []

        def step(what: str, work: Callable[[], WriteResult]) -> None:
            began = time.perf_counter()
            told = work()
            counts = (
                f"{told.inserted:,} inserted, {told.updated:,} updated, {told.deleted:,} deleted"
            )
            steps.append((what, counts, time.perf_counter() - began))

        step("load", lambda: writer.bulk_insert(_rides(np.arange(_ROWS), 1)))
        step("upsert", lambda: writer.upsert(_rides(np.arange(_ROWS - 1_000, _ROWS + 500), 2)))
        step("delete", lambda: writer.delete_where(_GONE))
        table = api.open(path)
        report = table.explain("uuid = 'ride-00000042'")
        rows = table.to_arrow(columns=["uuid"])
        left_over = table.to_arrow(_GONE, columns=["uuid"]).num_rows
        return Written(
            steps=tuple(steps),
            total=report.total,
            left=len(report.files),
            rows=rows.num_rows,
            is_right=left_over == 0 and len(report.files) == 1 and table.verify().ok,
            hudi_rs=ask_hudi_rs(table, path, {}),
        )


def _rides(numbers: np.ndarray[Any, np.dtype[np.int64]], version: int) -> ArrowRowSource:
    count = len(numbers)
    columns = [
        np.char.add("ride-", np.char.zfill(numbers.astype(str), 8)),
        np.char.add("city-", np.char.zfill((numbers % _CITIES).astype(str), 2)),
        np.full(count, version, np.int64),
        (numbers * 37 % 1_000) / 10,
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    return ArrowRowSource(pa.Table.from_arrays(arrays, schema=_SCHEMA), parallelism=2)
