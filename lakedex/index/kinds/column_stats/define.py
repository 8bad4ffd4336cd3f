"""What CREATE INDEX accepts for column stats, which a table has once, of several columns.

A statement about another column adds it to those that column stats cover, in all files.
"""

from __future__ import annotations

import pyarrow as pa

from lakedex.config import write_option_names as names_of
from lakedex.errors import InvalidInput
from lakedex.index.definitions import IndexDefinition
from lakedex.index.request import CreateRequest, NewIndex

_PARTITION = "column_stats"
_WHY_SYNC = (
    "Hudi takes a file without statistics for one that it need not skip, and partition_stats are "
    "made of them; create an expression index with this option instead"
)


def define(request: CreateRequest) -> NewIndex:
    """The write options that keep statistics of the columns.

    Raises:
        InvalidInput: an option is wrong.
    """
    options = request.write_options(_WHY_SYNC)
    return NewIndex({**options, **_flags(request.columns)})


def extend(request: CreateRequest) -> NewIndex | None:
    """The columns that column stats do not cover yet; None where there is nothing to add.

    That is so, too, where they are being built, or do not say what they cover.

    Raises:
        InvalidInput: there is no such column, or it has no range.
    """
    options = request.write_options(_WHY_SYNC)
    named = list(dict.fromkeys(request.column(each) for each in request.columns))
    for name in named:
        kind = request.schema.field(name).type
        if pa.types.is_nested(kind):
            raise InvalidInput(
                f"column {name!r} of type {kind} cannot be in column_stats: only columns of single "
                "values can"
            )
    definition = request.definitions.get(_PARTITION)
    if definition is None or not request.is_live(_PARTITION):
        return None
    more = tuple(name for name in named if name not in definition.source_fields)
    return NewIndex(options, more_columns=more) if more else None


def rebuild(request: CreateRequest, name: str, definition: IndexDefinition | None) -> NewIndex:
    """The write options by which statistics of the same columns are built again."""
    del request, name
    return NewIndex(_flags(definition.source_fields if definition is not None else ()))


def _flags(columns: tuple[str, ...]) -> dict[str, str]:
    return {
        names_of.COLUMN_STATS.name: "true",
        names_of.COLUMN_STATS_COLUMNS.name: ",".join(columns),
    }
