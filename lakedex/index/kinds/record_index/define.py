"""What CREATE INDEX accepts for a record index: over the whole table, or for each partition."""

from __future__ import annotations

from dataclasses import replace

from lakedex.config import write_option_names as names_of
from lakedex.errors import InvalidInput
from lakedex.index.definitions import IndexDefinition
from lakedex.index.request import PARTITIONED, CreateRequest, NewIndex

_WHY_SYNC = "writers find records by it, and secondary indexes lead through it"


def define(request: CreateRequest) -> NewIndex:
    """The write options that keep a record index.

    Raises:
        InvalidInput: the columns are not the record key, or an option is wrong.
    """
    options = dict(request.options)
    by_partition = _by_partition(options)
    options = replace(request, options=options).write_options(_WHY_SYNC)
    _check_key(request)
    return NewIndex({**options, names_of.GLOBAL_RECORD_INDEX.name: "true", **by_partition})


def extend(request: CreateRequest) -> None:
    """Check a statement about the record index that the table has: nothing can be added to it."""
    define(request)


def rebuild(request: CreateRequest, name: str, definition: IndexDefinition | None) -> NewIndex:
    """The write options by which the same index is built again."""
    del request, name
    if definition is not None and definition.is_partitioned:
        return NewIndex({names_of.PARTITIONED_RECORD_INDEX.name: "true"})
    return NewIndex({names_of.GLOBAL_RECORD_INDEX.name: "true"})


def _by_partition(options: dict[str, str]) -> dict[str, str]:
    """Take the option out that says whether there is an index for each partition."""
    value = options.pop(PARTITIONED, None)
    if value is None:
        return {}
    if value.lower() not in ("true", "false"):
        raise InvalidInput(f"{PARTITIONED}={value!r}: a record_index has it, true or false")
    return {
        names_of.PARTITIONED_RECORD_INDEX.name: value.lower(),
        names_of.GLOBAL_RECORD_INDEX.name: "false" if value.lower() == "true" else "true",
    }


def _check_key(request: CreateRequest) -> None:
    keys = request.config.record_key_fields
    if request.columns != tuple(keys):
        raise InvalidInput(
            f"the record index of table {request.table} is on its key ({', '.join(keys)}), not on "
            f"{', '.join(request.columns)}"
        )
