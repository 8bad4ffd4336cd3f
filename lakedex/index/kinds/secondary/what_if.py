"""A secondary index that does not exist: which file slices it would leave for a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import TableConfig
from lakedex.errors import InvalidInput
from lakedex.expr.evaluate import evaluate
from lakedex.expr.normal_form import restrict_to_columns
from lakedex.filegroup import FileSlice
from lakedex.index.contract import NEWEST_ONLY
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.secondary.key_encoding import is_indexable
from lakedex.index.kinds.secondary.key_predicate import Asked as KeyPredicate
from lakedex.index.kinds.secondary.key_predicate import asked_keys
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.sampling import Ints, files_per_value, files_with_any, rows_of_slices
from lakedex.index.what_if import HypotheticalIndex, Sampled, WhatIfQuery
from lakedex.schema.field_paths import column_at, type_at, values_at

_RECORD_INDEX = "record_index"


def what_if(
    kind: MetadataIndexKind, columns: tuple[str, ...], schema: pa.Schema
) -> HypotheticalIndex:
    """An index on some columns.

    Raises:
        InvalidInput: one cannot be indexed.
    """
    for column in columns:
        value_type = type_at(column, schema)
        if not is_indexable(value_type):
            raise InvalidInput(f"column {column} ({value_type}) cannot have a secondary index")
    return HypotheticalSecondary(columns, kind.live_index_on)


@dataclass(frozen=True, slots=True)
class HypotheticalSecondary:
    """A secondary index on a column, or on several."""

    columns: tuple[str, ...]
    live_index_on: Callable[
        [TableConfig, Mapping[str, IndexDefinition], tuple[str, ...]], str | None
    ]
    """Which index of the table is on some columns already."""
    kind: str = "secondary_index"
    lookups: int = 2
    """Its own, and one of the record index."""

    @property
    def name(self) -> str:
        """The kind and the columns."""
        return f"secondary index on {', '.join(self.columns)}"

    def why_not(self, query: WhatIfQuery) -> str | None:
        """It answers what the real one would, on the newest snapshot."""
        there = self.live_index_on(query.read.config, query.definitions, self.columns)
        if there is not None:
            return f"the table has {there} already"
        key_predicate = self._key_predicate(query)
        if isinstance(key_predicate, str):
            return key_predicate
        return None if query.is_latest else NEWEST_ONLY

    def sample(self, query: WhatIfQuery, slices: Sequence[FileSlice], share: float) -> Sampled:
        """The slices that hold a row with one of the values."""
        own = restrict_to_columns(
            query.predicate, *(tuple(column.split(".")) for column in self.columns)
        )
        names = list(dict.fromkeys(map(column_at, self.columns)))
        keep = np.zeros(len(slices), dtype=np.bool_)
        seen: list[pa.Table] = []
        rows = 0
        for number, of_slice in enumerate(rows_of_slices(query.read, slices, names)):
            values = _distinct(pa.table({each: values_at(each, of_slice) for each in self.columns}))
            # Structs stay as they are: a predicate on a field has the path through them.
            keep[number] = any(
                pc.any(evaluate(own, batch, time_zone=query.time_zone)).as_py()
                for batch in (values if names == [*self.columns] else of_slice).to_batches()
            )
            rows += len(of_slice)
            if share < 1:
                seen.append(values)
        key_predicate = self._key_predicate(query)
        values_asked = None if isinstance(key_predicate, str) else key_predicate.starts
        typical = None
        if seen and values_asked is not None:
            files = round(len(slices) / share)
            per_value = files_per_value(_times_seen(seen), len(slices), files)
            typical = files_with_any(len(values_asked), per_value, files)
        what = "a range" if values_asked is None else f"{len(values_asked)} values"
        reason = f"{what} asked, {rows:,} rows of {len(slices)} file slices read"
        if not query.is_live(_RECORD_INDEX):
            reason += "; it needs the record index, which has to be built first"
        return Sampled(keep, typical, reason)

    def _key_predicate(self, query: WhatIfQuery) -> KeyPredicate | str:
        definition = IndexDefinition(self.name, self.kind, "identity", self.columns, {}, 2)
        return asked_keys(definition, query.predicate, query.read.schema)


def _times_seen(parts: Sequence[pa.Table]) -> Ints:
    """In how many of some tables each row is, none of which has a row twice."""
    rows = pa.concat_tables(parts)
    counted = rows.group_by(rows.column_names).aggregate([([], "count_all")])
    counts: Ints = counted["count_all"].to_numpy()
    return counts


def _distinct(rows: pa.Table) -> pa.Table:
    """Rows that are alike only once."""
    return rows.group_by(rows.column_names).aggregate([])
