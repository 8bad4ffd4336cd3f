"""The queries of the demo, each with indexes and without: files read, time, equality of the rows.

The keys of the rows are compared with those that hudi-rs reads. It runs in a process of its own,
because it ends a process with a panic where it meets something that it does not know.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.api import Filter, ReadOptions, Table, open
from lakedex.cli.console import json_line, plain_rows
from lakedex.filegroup.context import META_COLUMNS, RECORD_KEY
from lakedex.prune import Report

_NO_INDEXES = frozenset(["all"])


@dataclass(frozen=True, slots=True)
class Query:
    """A query of the demo."""

    what: str
    condition: Filter

    @property
    def text(self) -> str:
        """The condition as people write it."""
        return str(self.condition)


@dataclass(frozen=True, slots=True)
class Run:
    """One read of the rows of a query; the bytes of indexes are not counted."""

    report: Report
    rows: pa.Table
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The run as plain values, for JSON."""
        return {
            "file_slices": len(self.report.files),
            "data_bytes": self.report.bytes_left,
            "seconds": round(self.seconds, 6),
            "rows": self.rows.num_rows,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same query with indexes and without."""

    query: Query
    pruned: Run
    full: Run

    @property
    def same_rows(self) -> bool:
        """Whether both found the same rows, whatever the number of each."""
        return _counted(self.pruned.rows) == _counted(self.full.rows)

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain values, for JSON."""
        return {
            "query": self.query.text,
            "with_indexes": self.pruned.as_dict(),
            "without_indexes": self.full.as_dict(),
            "same_rows": self.same_rows,
        }


def compare(path: str, options: Mapping[str, str], query: Query) -> Comparison:
    """Read the rows of a query twice, each time from a table that was just opened."""
    return Comparison(
        query=query,
        pruned=_run(path, options, query.condition, frozenset()),
        full=_run(path, options, query.condition, _NO_INDEXES),
    )


def queries_for(table: Table) -> list[Query]:
    """Questions that fit any table, about the values of one of its rows."""
    batch = next(table.to_batches(), None)
    if batch is None:
        return []
    keys = [name for name in table.snapshot.config.record_key_fields if name in table.schema.names]
    row = {name: batch.column(position)[0] for position, name in enumerate(batch.schema.names)}
    queries = []
    if keys:
        condition = pc.field(keys[0]) == row[keys[0]]
        for name in keys[1:]:
            condition &= pc.field(name) == row[name]
        queries.append(Query("one record key", condition))
    for index in table.indexes():
        column = index.columns[0] if index.columns else ""
        if index.kind == "secondary_index" and column in row and row[column].is_valid:
            queries.append(Query(f"one {column}", pc.field(column) == row[column]))
    number = next((name for name, value in row.items() if _is_ranged(name, value)), None)
    if number is not None:
        queries.append(Query(f"a range of {number}", pc.field(number) > row[number]))
    return queries


def _run(path: str, options: Mapping[str, str], condition: Filter, without: frozenset[str]) -> Run:
    started = time.perf_counter()
    # The table is so small that no index would be consulted; the demo shows them.
    chosen = ReadOptions(without_indexes=without, weighs_cost=False, counts_usage=False)
    table = open(path, storage_options=options, options=chosen)
    rows = table.to_arrow(condition)
    seconds = time.perf_counter() - started
    return Run(table.explain(condition), rows, seconds)


def _counted(rows: pa.Table) -> Counter[str]:
    return Counter(json_line(row) for row in plain_rows(rows))


def _is_ranged(name: str, value: pa.Scalar) -> bool:
    number = pa.types.is_integer(value.type) or pa.types.is_floating(value.type)
    return bool(number and value.is_valid and name not in META_COLUMNS)


_LONGEST_WAIT_SECONDS = 60
_CHILD = """
import json, sys
import hudi, pyarrow
path, options, key = json.load(sys.stdin)
builder = hudi.HudiTableBuilder.from_base_uri(path)
table = builder.with_storage_options(options).build() if options else builder.build()
keys = [pyarrow.array(batch.column(key)).to_pylist() for batch in table.read()]
json.dump(sorted(key for part in keys for key in part), sys.stdout)
"""


def ask_hudi_rs(table: Table, path: str, options: Mapping[str, str]) -> dict[str, Any]:
    """How many rows hudi-rs reads, and whether they have the record keys that lakedex reads.

    `installed` says whether it could be run; `problem` why it gave no result. What it says
    about its problem is not repeated: it may quote the options of the store.
    """
    if find_spec("hudi") is None or RECORD_KEY not in table.schema.names:
        return {"installed": find_spec("hudi") is not None}
    # hudi-rs takes no path that begins where the process happens to be.
    place = str(Path(path).absolute()) if Path(path).is_dir() else path
    question = json.dumps([place, dict(options), RECORD_KEY])
    command = [sys.executable, "-c", _CHILD]
    try:
        child = subprocess.run(
            command,
            input=question,
            capture_output=True,
            text=True,
            timeout=_LONGEST_WAIT_SECONDS,
            check=True,
        )
        theirs = json.loads(child.stdout)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        return {"installed": True, "problem": type(error).__name__}
    ours = sorted(table.to_arrow(columns=[RECORD_KEY])[RECORD_KEY].to_pylist())
    return {"installed": True, "rows": len(theirs), "same_keys": theirs == ours}
