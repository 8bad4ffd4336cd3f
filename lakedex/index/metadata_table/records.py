"""From what a commit did to the records of each small metadata partition.

Record and secondary indexes are not among them: what they get grows with the rows, and workers
write it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.format.avro import METADATA_RECORD, encode_records
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table.bloom_records import blooms_change
from lakedex.index.metadata_table.change import Change
from lakedex.index.metadata_table.expression_records import expression_change
from lakedex.index.metadata_table.partitions import (
    ALL_PARTITIONS_KEY,
    FILES_PAYLOAD,
    NON_PARTITIONED_KEY,
    Kind,
    RecordType,
    metadata_partition,
)
from lakedex.index.metadata_table.stat_records import (
    anything_change,
    column_stats_change,
    partition_stats_change,
)
from lakedex.index.written import CommitChanges, WholeColumn

_FILES_TYPE = pa.map_(pa.string(), pa.struct([("size", pa.int64()), ("isDeleted", pa.bool_())]))
_Entry = tuple[str, dict[str, int | bool]]
_WRITABLE = (
    Kind.FILES,
    Kind.COLUMN_STATS,
    Kind.PARTITION_STATS,
    Kind.BLOOM_FILTERS,
    Kind.RECORD_INDEX,
    Kind.SECONDARY_INDEX,
    Kind.EXPRESSION_INDEX,
)


def require_writable(names: Sequence[str], definitions: Mapping[str, IndexDefinition]) -> None:
    """Refuse a table that has an index which cannot be kept up to date.

    What an expression index is about is only said by its definition.

    Raises:
        UnsupportedFeature: the index is named in it.
    """
    for name in names:
        try:
            kind = metadata_partition(name).kind
        except InvalidInput:
            kind = None
        is_undefined = kind is Kind.EXPRESSION_INDEX and name not in definitions
        if kind not in _WRITABLE or is_undefined:
            raise UnsupportedFeature(f"writing a table that has the index {name}")


@dataclass(frozen=True, slots=True)
class RecordMaker:
    """Makes the records of one commit."""

    changes: CommitChanges
    instant: str
    stat_columns: Sequence[str]
    """The columns that have ranges, also those that the commit's files lack."""
    definitions: Mapping[str, IndexDefinition] = field(default_factory=dict)
    """What expression indexes are about, by name."""

    def change_of(self, name: str) -> Change:
        """The change of a metadata partition, those of keys left aside."""
        kind = metadata_partition(name).kind
        if kind is Kind.EXPRESSION_INDEX:
            return expression_change(self.definitions[name], self.changes, self.instant)
        makers: dict[Kind, Callable[[], Change]] = {
            Kind.FILES: self._files,
            Kind.COLUMN_STATS: self._column_stats,
            Kind.PARTITION_STATS: self._partition_stats,
            Kind.BLOOM_FILTERS: self._blooms,
        }
        return makers[kind]()

    def _files(self) -> Change:
        changes = self.changes
        return files_change(changes.added, changes.removed, changes.dropped_partitions)

    def _column_stats(self) -> Change:
        changes = self.changes
        anew = changes.statistics if changes.replaces_ranges else changes.whole_columns
        return column_stats_change(
            changes.statistics, changes.removed, self.stat_columns, anew=anew
        )

    def _partition_stats(self) -> Change:
        changes = self.changes
        partitions = {*changes.known_partitions, *changes.added}
        apart = {*changes.retyped_columns, *changes.whole_columns}
        ranges = partition_stats_change(
            {column: stats for column, stats in changes.statistics.items() if column not in apart},
            [name for name in self.stat_columns if name not in apart],
            overwritten=changes.overwritten_partitions,
            dropped=changes.dropped_partitions,
            young=changes.young_columns,
        )
        retyped = {
            column: kind
            for column, kind in changes.retyped_columns.items()
            if column in self.stat_columns
        }
        whole = (self._whole(name, each) for name, each in changes.whole_columns.items())
        return Change.joined([ranges, *whole, anything_change(retyped, sorted(partitions))])

    def _whole(self, column: str, whole: WholeColumn) -> Change:
        """The ranges of all partitions, of a column that had none."""
        changes, is_open = self.changes, {*whole.open_partitions}
        told = {*changes.known_partitions, *changes.added} - is_open
        stats = changes.statistics.get(column)
        known = {}
        if stats is not None:
            is_told = pc.is_in(stats["partition"], value_set=pa.array(sorted(told), pa.string()))
            known = {column: stats.filter(is_told)}
        ranges = partition_stats_change(
            known,
            [column],
            overwritten=sorted(told),
            dropped=changes.dropped_partitions,
            young=changes.young_columns,
        )
        anything = anything_change({column: whole.type}, sorted(is_open))
        return Change.joined([ranges, anything])

    def _blooms(self) -> Change:
        return blooms_change(self.changes.blooms, self.changes.removed, self.instant)


def files_change(
    added: Mapping[str, Mapping[str, int]],
    removed: Mapping[str, Sequence[str]] | None = None,
    dropped: Sequence[str] = (),
) -> Change:
    """The listing of new and removed files, and of partitions that came and went."""
    removed = removed or {}
    maps: dict[str, list[_Entry]] = {}
    if added or dropped or not removed:
        came = [(partition_key(path), _entry(0)) for path in added]
        went = [(partition_key(path), _GONE) for path in dropped if path not in added]
        maps[ALL_PARTITIONS_KEY] = [*came, *went]
    for path in dict.fromkeys((*added, *removed)):
        files = added.get(path, {})
        entries = [(name, _entry(size)) for name, size in files.items()]
        entries += [(name, _GONE) for name in removed.get(path, ()) if name not in files]
        maps[partition_key(path)] = entries
    types = [
        RecordType.PARTITION_LIST.value if key == ALL_PARTITIONS_KEY else RecordType.FILES.value
        for key in maps
    ]
    batch = pa.record_batch(
        {
            "key": pa.repeat("", len(maps)),
            "type": pa.array(types, pa.int32()),
            FILES_PAYLOAD: pa.array(list(maps.values()), _FILES_TYPE),
        }
    )
    keys = pa.array(list(maps), pa.string())
    return Change(keys, encode_records(METADATA_RECORD, batch).as_binary())


def partition_key(path: str) -> str:
    """How the metadata table spells a partition path.

    Example:
        >>> partition_key("city=Oslo"), partition_key("")
        ('city=Oslo', '.')
    """
    return path or NON_PARTITIONED_KEY


_GONE: dict[str, int | bool] = {"size": 0, "isDeleted": True}


def _entry(size: int) -> dict[str, int | bool]:
    return {"size": size, "isDeleted": False}
