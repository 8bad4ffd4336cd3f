"""What a file index that does not exist would take, from the entries of some file slices.

The entries of the sample are encoded twice, those of half of it and of all: the difference is what
one more file takes, the rest is what a run takes by itself. Of a table of up to 24 file slices with
few rows everything is read.
"""

from __future__ import annotations

import math
import time

import pyarrow as pa

from lakedex.index.file_index.kind import FileIndex, with_file_numbers
from lakedex.index.file_index.run import FILES, encode_run
from lakedex.index.sampling import rows_of_slices, spread_slices
from lakedex.index.size_estimate import SampledTable, SizeEstimate

_MOST_SLICES = 24
_MOST_ROWS = 400_000


def estimate_file_index(index: FileIndex, table: SampledTable, tasks: int) -> SizeEstimate | None:
    """What an index would take; None where the table has no rows.

    How many files a lookup reads is not estimated: it is NaN.

    Args:
        index: The index.
        table: The table.
        tasks: How many tasks would build the index, each of which writes a run.

    Raises:
        LakedexError: the index cannot be computed.
    """
    started = time.perf_counter()
    chosen = spread_slices(table.slices, _MOST_SLICES)
    parts, rows = [], 0
    for part in rows_of_slices(table.read, chosen, index.sources):
        parts.append(index.entries(part))
        rows += part.num_rows
        if rows >= _MOST_ROWS:
            break
    if not rows:
        return None
    files, count = len(table.slices) * table.growth, len(parts)
    whole, half = _run_bytes(index, parts), _run_bytes(index, parts[: count // 2])
    a_file = max(0.0, (whole - half) / (count - count // 2))
    a_run = max(0.0, whole - a_file * count)
    return SizeEstimate(
        rows=round(sum(part.num_rows for part in parts) / count * files),
        size_bytes=round(min(tasks, files) * a_run + files * a_file),
        bytes_per_change=a_file * count / rows,
        seconds=(time.perf_counter() - started) / count * files,
        files_per_value=math.nan,
        bytes_per_write=_run_bytes(index, parts[:1]),
        sampled_rows=rows,
    )


def _run_bytes(index: FileIndex, parts: list[pa.Table]) -> int:
    """The bytes of a run that describes some files."""
    if not parts:
        return 0
    names = [f"{number:064}" for number in range(len(parts))]
    files = pa.table([[""] * len(parts), names, [0] * len(parts)], schema=FILES)
    entries = with_file_numbers(parts).combine_chunks()
    encoded = index.encoded(entries, len(parts))
    return len(encode_run(encoded, files, kind=index.kind.kind, version=index.kind.version))
