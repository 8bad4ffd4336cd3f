"""What CREATE INDEX accepts for bloom filters of record keys.

Filters of another column are an expression index on the column as it is.
"""

from __future__ import annotations

from lakedex.config import write_option_names as names_of
from lakedex.errors import InvalidInput
from lakedex.index.definitions import IndexDefinition
from lakedex.index.request import CreateRequest, NewIndex

_WHY_SYNC = (
    "upserts may find records by it; create one USING bloom_filters on an expression, or USING "
    "bitmap, instead"
)


def define(request: CreateRequest) -> NewIndex:
    """The write options that keep bloom filters.

    Raises:
        InvalidInput: the columns are not the record key, or an option is wrong.
    """
    options = request.write_options(_WHY_SYNC)
    keys = request.config.record_key_fields
    if request.columns and request.columns != tuple(keys):
        raise InvalidInput(
            f"the index bloom_filters of table {request.table} is on its key ({', '.join(keys)}), "
            f"not on {', '.join(request.columns)}"
        )
    return NewIndex({**options, names_of.BLOOM_FILTERS.name: "true"})


def extend(request: CreateRequest) -> None:
    """Check a statement about the filters that the table has: nothing can be added to them."""
    define(request)


def rebuild(request: CreateRequest, name: str, definition: IndexDefinition | None) -> NewIndex:
    """The write option by which they are built again."""
    del request, name, definition
    return NewIndex({names_of.BLOOM_FILTERS.name: "true"})
