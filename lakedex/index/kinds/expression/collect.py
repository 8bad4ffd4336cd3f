"""What the files of a commit hold of indexed expressions: ranges, or bloom filters of the values.

A filter knows texts that are not empty: Hudi's filters take neither null nor the empty text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.format.bloom import BloomFilter
from lakedex.index.column_ranges import ColumnRanges
from lakedex.index.kinds.expression.filter_options import error_rate, least_entries
from lakedex.index.kinds.expression.target import ExpressionTarget
from lakedex.index.written import BloomText, ExpressionNotes


class ExpressionCollector:
    """Computes the expressions of a table over its new files, one after the other."""

    def __init__(self, targets: Sequence[ExpressionTarget]) -> None:
        """Name the indexes."""
        self._targets = tuple(targets)
        self._ranges = {
            each.name: ColumnRanges([each.name], pa.schema([(each.name, each.type)]))
            for each in targets
            if not each.is_bloom
        }
        self._open: dict[str, set[str]] = {each.name: set() for each in targets}
        self._blooms: dict[str, list[BloomText]] = {
            each.name: [] for each in targets if each.is_bloom
        }

    def add(self, partition: str, file: str, rows: pa.Table, size: int) -> None:
        """Take in the rows of a file; those of a log file are its new versions of records."""
        for each in self._targets:
            self.add_to(each, partition, file, rows, size)

    def add_to(
        self, target: ExpressionTarget, partition: str, file: str, rows: pa.Table, size: int
    ) -> None:
        """Take in the rows of a file for one of the indexes."""
        if target.is_bloom and file.startswith("."):
            return
        try:
            values = target.values(rows)
        except LakedexError:
            # Such as the text of a time without a day. Nothing is said of the file, and it is read.
            self.lack(target, partition)
            return
        if target.is_bloom:
            code, text = _filter(values, target.definition.options)
            self._blooms[target.name].append(BloomText(partition, file, code, text))
        else:
            column = pa.table({target.name: values})
            # Nothing is left out of these ranges, which a size of values could make readers think.
            self._ranges[target.name].add(partition, file, column, {target.name: (size, 0)})

    def lack(self, target: ExpressionTarget, partition: str) -> None:
        """Take in that nothing can be said of a file of a partition."""
        self._open[target.name].add(partition)

    def notes(self) -> dict[str, ExpressionNotes]:
        """What was found, by index."""
        found = {}
        for each in self._targets:
            if each.is_bloom:
                found[each.name] = ExpressionNotes(blooms=tuple(self._blooms[each.name]))
            else:
                table = self._ranges[each.name].tables().get(each.name)
                found[each.name] = ExpressionNotes(
                    table,
                    zone=each.zone,
                    type=each.type,
                    open_partitions=tuple(sorted(self._open[each.name])),
                )
        return found


def _filter(values: pa.ChunkedArray, options: Mapping[str, str]) -> tuple[str, str]:
    texts = values.cast(pa.string())
    texts = texts.filter(pc.greater(pc.binary_length(texts), 0)).unique()
    bloom = BloomFilter.create_simple(max(len(texts), least_entries(options)), error_rate(options))
    bloom.add(texts)
    return bloom.type_code, bloom.encode()
