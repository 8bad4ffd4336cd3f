"""Rows of file slices as Spark takes them; the worker of a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.filegroup import FileSlice, ReadContext, read_slice
from lakedex.schema import SchemaHistory
from lakedex.storage.address import StorageAddress


@dataclass(frozen=True)
class SliceReading:
    """What tasks know to read slices of a table at one instant."""

    address: StorageAddress
    config: TableConfig
    schema: pa.Schema
    history: SchemaHistory | None
    is_committed: Callable[[str], bool]
    shares: Sequence[Sequence[FileSlice]]
    """The slices of each task."""
    target: pa.Schema
    """The columns to read, as Spark wants them."""

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the shares whose numbers come."""
        context = ReadContext(
            self.address.open(), self.config, self.schema, self.history, self.is_committed
        )
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for file_slice in self.shares[number]:
                    for part in read_slice(context, file_slice, self.target.names):
                        yield from part.cast(self.target, safe=False).to_batches()
