"""What commits write to expression indexes: ranges of files and partitions, or filters.

Tasks compute the expression over the rows that they write. A filter knows texts that are not empty:
Hudi's filters take neither null nor the empty text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import IndexUnusable, LakedexError
from lakedex.format.bloom import BloomFilter
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.bloom_filters.collect import blooms_change
from lakedex.index.kinds.column_stats.collect import ColumnRanges
from lakedex.index.kinds.column_stats.records import column_stats_change
from lakedex.index.kinds.expression.definition import (
    ExpressionTarget,
    error_rate,
    given_name,
    least_entries,
)
from lakedex.index.kinds.partition_stats.records import partition_stats_change
from lakedex.index.maintenance import (
    Collector,
    CollectTask,
    ComputedColumn,
    FileRows,
    MaintainedIndex,
    MaintainRequest,
)
from lakedex.index.metadata_table.keys import expression_partition_id
from lakedex.index.metadata_table.partitions import Change
from lakedex.index.metadata_table.stat_values import outermost, zone_note
from lakedex.index.written import BloomText, CommitChanges, ExpressionNotes, FileStatistics

_BLOOM = "bloom_filters"


@dataclass(frozen=True)
class MaintainedExpression(MaintainedIndex):
    """An expression index that writers keep up to date."""

    target: ExpressionTarget

    @property
    def name(self) -> str:
        """The full name of the index."""
        return self.target.name

    @property
    def given_name(self) -> str:
        """The name that the user gave it."""
        return given_name(self.name)

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns that it reads, without the fields inside."""
        return self.target.sources

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self.target.type

    @property
    def ranges(self) -> tuple[str, str] | None:
        """Where its ranges are; None for an index of filters."""
        if self.target.is_bloom:
            return None
        return self.name, self.target.definition.source_fields[0]

    @property
    def computed(self) -> ComputedColumn:
        """The expression."""
        return self

    def values(self, rows: pa.Table) -> pa.ChunkedArray:
        """What the expression gives for some rows.

        Raises:
            UnsupportedFeature: It is not known what Spark gives for one of them.
        """
        return self.target.values(rows)

    def is_defined_by(self, definition: IndexDefinition | None) -> bool:
        """Whether it is the index of a definition."""
        return definition == self.target.definition

    def collector(self, task: CollectTask) -> ExpressionCollector:
        """The collector of one task."""
        del task
        return ExpressionCollector(self.target)

    def joined(self, parts: Sequence[ExpressionNotes]) -> ExpressionNotes:
        """The ranges or filters of all files."""
        tables = [each.statistics for each in parts if each.statistics is not None]
        return ExpressionNotes(
            pa.concat_tables(tables) if tables else None,
            tuple(bloom for each in parts for bloom in each.blooms),
            parts[0].zone,
            parts[0].type,
            tuple(sorted({path for each in parts for path in each.open_partitions})),
        )


def maintained(name: str, request: MaintainRequest) -> MaintainedIndex:
    """An expression index as writers compute it.

    Raises:
        IndexUnusable: it cannot be computed here.
    """
    if request.definition is None:
        raise IndexUnusable(
            f"the index {name} of table {request.table} has no definition, so that it "
            "cannot be kept up to date; drop it first"
        )
    target = ExpressionTarget.of(
        request.definition, request.columns, request.zones(), request.session_zone
    )
    return MaintainedExpression(target)


class ExpressionCollector(Collector):
    """Computes an expression over the files of one task."""

    def __init__(self, target: ExpressionTarget) -> None:
        """Start without files."""
        self._target = target
        self._ranges = ColumnRanges([target.name], pa.schema([(target.name, target.type)]))
        self._open: set[str] = set()
        self._blooms: list[BloomText] = []

    def add_file(self, file: FileRows) -> None:
        """Add the values of a file."""
        target = self._target
        if target.is_bloom and file.file.startswith("."):
            return
        try:
            values = target.values(file.rows)
        except LakedexError:
            # Such as the text of a time without a day. Nothing is known of the file: it is read.
            self.lack(file.partition)
            return
        if target.is_bloom:
            code, text = _filter(values, target.definition.options)
            self._blooms.append(BloomText(file.partition, file.file, code, text))
        else:
            column = pa.table({target.name: values})
            # Nothing is left out of these ranges, which a size of values could make readers think.
            sizes = {target.name: (file.size, 0)}
            self._ranges.add(file.partition, file.file, column, sizes)

    def lack(self, partition: str) -> None:
        """Note that nothing is known of a file of a partition."""
        self._open.add(partition)

    def finish(self) -> object:
        """The ranges or filters of the files."""
        target = self._target
        if target.is_bloom:
            return ExpressionNotes(blooms=tuple(self._blooms))
        return ExpressionNotes(
            self._ranges.tables().get(target.name),
            zone=target.zone,
            type=target.type,
            open_partitions=tuple(sorted(self._open)),
        )


def _filter(values: pa.ChunkedArray, options: Mapping[str, str]) -> tuple[str, str]:
    texts = values.cast(pa.string())
    texts = texts.filter(pc.greater(pc.binary_length(texts), 0)).unique()
    bloom = BloomFilter.create_simple(max(len(texts), least_entries(options)), error_rate(options))
    bloom.add(texts)
    return bloom.type_code, bloom.encode()


def records(
    name: str, changes: CommitChanges, instant: str, definitions: Mapping[str, IndexDefinition]
) -> Change:
    """What a commit does to an expression index, of ranges or of filters."""
    definition = definitions[name]
    notes: ExpressionNotes = changes.notes.get(name, ExpressionNotes())
    if definition.index_type == _BLOOM:
        return blooms_change(notes.blooms, changes.removed, instant)
    column = definition.source_fields[0]
    statistics = {} if notes.statistics is None else {column: notes.statistics}
    note = None if notes.zone is None else zone_note(notes.zone)
    files = column_stats_change(
        statistics,
        changes.removed,
        [column],
        note=note,
        always_typed=True,
        replaced=statistics if changes.replaces_ranges else (),
    )
    if definition.is_own:
        # Other engines write files of a partition without a word to this index.
        return files
    top = column.partition(".")[0]
    partitions = partition_stats_change(
        _widened(column, notes, statistics),
        [column],
        overwritten=changes.overwritten_partitions,
        dropped=changes.dropped_partitions,
        young={column} if top in changes.young_columns else (),
        end_of=expression_partition_id,
        note=note,
    )
    return Change.joined([files, partitions])


def _widened(column: str, notes: ExpressionNotes, known: FileStatistics) -> FileStatistics:
    """The ranges of files, with one of every value where a file tells nothing."""
    if not notes.open_partitions or notes.type is None:
        return known
    low, high = outermost(notes.type)
    count = len(notes.open_partitions)
    numbers = {"value_count": 2, "null_count": 1, "total_size": 0, "total_uncompressed": 0}
    columns = {
        "partition": pa.array(notes.open_partitions, pa.string()),
        "file": pa.array(notes.open_partitions, pa.string()),
        "minimum": pa.repeat(low, count),
        "maximum": pa.repeat(high, count),
    }
    columns |= {
        name: pa.repeat(pa.scalar(value, pa.int64()), count) for name, value in numbers.items()
    }
    open_ended = pa.table(columns)
    if column not in known:
        return {column: open_ended}
    return {column: pa.concat_tables([known[column], open_ended])}
