"""What indexes a built table has: their metadata partitions, group counts and definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.index.definitions import IndexDefinition

META_STAT_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")
PLAIN_INDEXES = ("column_stats", "bloom_filters", "record_index", "partition_stats")
_MAX_STAT_COLUMNS = 32
_GROUPS = {"files": 1, "column_stats": 2, "bloom_filters": 4, "record_index": 4}
_GROUPS |= {"partition_stats": 1, "secondary_index": 4, "expr_index": 2}
_STRFTIME = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


@dataclass(frozen=True, slots=True)
class SecondaryIndex:
    """A secondary index called `secondary_index_<name>` on one column."""

    name: str
    column: str

    @property
    def partition(self) -> str:
        """The metadata partition that holds it."""
        return f"secondary_index_{self.name}"

    def definition(self) -> IndexDefinition:
        """Its entry in the index definitions."""
        return IndexDefinition(
            self.partition, "secondary_index", "identity", (self.column,), {}, version=2
        )


@dataclass(frozen=True, slots=True)
class ExpressionIndex:
    """An expression index called `expr_index_<name>`, by statistics of a function's results."""

    name: str
    column: str
    function: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def partition(self) -> str:
        """The metadata partition that holds it."""
        return f"expr_index_{self.name}"

    def definition(self) -> IndexDefinition:
        """Its entry in the index definitions."""
        options = {"expr": self.function, **self.options}
        return IndexDefinition(
            self.partition, "column_stats", self.function, (self.column,), options, version=2
        )

    def evaluate(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """The function's results for values of the column, times taken in UTC."""
        if self.function in ("upper", "lower"):
            return getattr(pc, f"utf8_{self.function}")(values)
        if self.function == "from_unixtime":
            values = values.cast(pa.int64()).cast(pa.timestamp("s"))
        elif self.function != "date_format":
            return getattr(pc, self.function)(values).cast(pa.int32())
        form = self.options.get("format", "yyyy-MM-dd HH:mm:ss")
        for java, c in _STRFTIME.items():
            form = form.replace(java, c)
        # Arrow writes fractions of a second for %S unless the unit is a whole second.
        whole = pc.floor_temporal(values, unit="second").cast(pa.timestamp("s"))
        return pc.strftime(whole, format=form)


Index = str | SecondaryIndex | ExpressionIndex


@dataclass(frozen=True)
class IndexPlan:
    """The indexes of a table, in the order in which their partitions are initialised."""

    indexes: tuple[Index, ...]
    groups: Mapping[str, int]
    stat_columns: tuple[str, ...]

    @classmethod
    def of(
        cls,
        indexes: Sequence[Index],
        schema: pa.Schema,
        groups: Mapping[str, int],
        *,
        partitioned: bool,
    ) -> IndexPlan:
        """Check the indexes and find the columns that have statistics."""
        for index in indexes:
            if isinstance(index, str) and index not in PLAIN_INDEXES:
                raise ValueError(f"no index is called {index!r}")
        plain = [name for name in PLAIN_INDEXES if name in indexes]
        if not partitioned:
            plain = [name for name in plain if name != "partition_stats"]
        named = [index for index in indexes if not isinstance(index, str)]
        flat = [column.name for column in schema if not pa.types.is_nested(column.type)]
        columns = (*META_STAT_COLUMNS, *flat[:_MAX_STAT_COLUMNS])
        return cls((*plain, *named), dict(groups), columns)

    def has(self, name: str) -> bool:
        """Whether the plain index of that name is there."""
        return name in self.indexes

    @property
    def secondaries(self) -> list[SecondaryIndex]:
        """The secondary indexes."""
        return [index for index in self.indexes if isinstance(index, SecondaryIndex)]

    @property
    def expressions(self) -> list[ExpressionIndex]:
        """The expression indexes."""
        return [index for index in self.indexes if isinstance(index, ExpressionIndex)]

    def partitions(self) -> dict[str, int]:
        """The metadata partitions with the number of file groups of each."""
        names = ["files"] + [
            index if isinstance(index, str) else index.partition for index in self.indexes
        ]
        return {name: self._group_count(name) for name in names}

    def definitions(self) -> dict[str, IndexDefinition]:
        """The content of `index.json`."""
        found: dict[str, IndexDefinition] = {}
        for index in self.indexes:
            if not isinstance(index, str):
                found[index.partition] = index.definition()
        if self.has("record_index"):
            options = {"isPartitioned": "false"}
            found["record_index"] = IndexDefinition(
                "record_index", "record_index", "", (), options, version=1
            )
        if self.has("column_stats"):
            found["column_stats"] = IndexDefinition(
                "column_stats", "column_stats", "column_stats", self.stat_columns, {}, version=2
            )
        return found

    def _group_count(self, name: str) -> int:
        if name in self.groups:
            return self.groups[name]
        kind = name if name in _GROUPS else "_".join(name.split("_")[:2])
        return self.groups.get(kind, _GROUPS[kind])
