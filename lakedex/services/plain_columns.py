"""`USING column_stats(col)` and `USING bloom_filters(col)` without an expression.

Ranges of a column belong to the column_stats that a table has once: it covers one column more, in
all files. Its bloom_filters are of record keys, and have no room for others: filters of another
column are an index of their own, on the column as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.services.index_names import indexed_column
from lakedex.table import Snapshot
from lakedex.write.target import StoredSchema


def columns_to_add(snapshot: Snapshot, asked: Sequence[str]) -> list[str]:
    """Those of some columns that column_stats does not cover yet, as the table spells them.

    None where column_stats is being built, or does not say what it covers.

    Raises:
        InvalidInput: there is no such column, or none that has a range.
    """
    named = list(dict.fromkeys(indexed_column(snapshot, each) for each in asked))
    columns = StoredSchema.of(snapshot).columns
    for name in named:
        kind = columns.field(name).type
        if pa.types.is_nested(kind):
            raise InvalidInput(
                f"column {name!r} of type {kind} cannot be in column_stats: only columns of single "
                "values can"
            )
    known = snapshot.definitions.get("column_stats")
    if known is None or "column_stats" not in snapshot.config.metadata_partitions:
        return []
    return [name for name in named if name not in known.source_fields]


def has_other_columns(snapshot: Snapshot, asked: Sequence[str]) -> bool:
    """Whether filters of these columns are not those of the record keys."""
    named = [indexed_column(snapshot, each) for each in asked]
    return named != list(snapshot.config.record_key_fields)
