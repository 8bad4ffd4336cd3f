"""Which values new files hold: taken in file by file, and put out as runs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakedex.errors import LakedexError
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.bitmap.definitions import folder_of
from lakedex.index.kinds.bitmap.run import FILES, encode_run
from lakedex.index.kinds.expression.target import ExpressionTarget
from lakedex.storage.protocol import Storage

_VALUES_AT_ONCE = 2_000_000


class BitmapCollector:
    """Gathers the distinct values of files for the bitmap indexes of a table."""

    def __init__(self, storage: Storage, targets: Sequence[ExpressionTarget]) -> None:
        """Name the indexes; runs are written whenever there is much, and at the end."""
        self._storage = storage
        self._targets = tuple(targets)
        self._parts: dict[str, list[tuple[tuple[str, str, int], pa.Array]]] = {
            each.name: [] for each in targets
        }
        self._count = 0

    def add(self, partition: str, file: str, rows: pa.Table, size: int) -> None:
        """Take in the rows of a file; those of a log file are its new versions of records."""
        for each in self._targets:
            self.add_to(each, partition, file, rows, size)

    def add_to(
        self, target: ExpressionTarget, partition: str, file: str, rows: pa.Table, size: int
    ) -> None:
        """Take in the rows of a file for one of the indexes."""
        try:
            values = target.values(rows).unique()
        except LakedexError:
            return  # nothing is said of the file, and it is read
        self._parts[target.name].append(((partition, file, size), values))
        self._count += len(values)
        if self._count >= _VALUES_AT_ONCE:
            self.put_out()

    def lack(self, target: ExpressionTarget, partition: str) -> None:
        """Take in that a file does not have the column: it is read."""

    def put_out(self) -> None:
        """Write the runs of what was taken in."""
        for target in self._targets:
            parts, self._parts[target.name] = self._parts[target.name], []
            if not parts:
                continue
            files = pa.table(
                [list(column) for column in zip(*(file for file, _ in parts), strict=True)],
                schema=FILES,
            )
            lengths = [len(values) for _, values in parts]
            numbers = np.repeat(np.arange(len(parts)), lengths)
            values = pa.concat_arrays([values.cast(target.type) for _, values in parts])
            write_run(self._storage, target.definition, encode_run(values, numbers, files))
        self._count = 0


def write_run(storage: Storage, definition: IndexDefinition, data: bytes) -> None:
    """Put a run where readers look; one that a crash takes away leaves files that are read."""
    path = f"{folder_of(definition)}/run-{uuid.uuid4().hex}.parquet"
    storage.create(path, data, durable=False)
