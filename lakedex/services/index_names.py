"""Indexes by the names that people give them: `idx_rider` is `secondary_index_idx_rider`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from lakedex.config.table_config import (
    ASYNC_SECONDARY_PREFIX,
    COMPOSITE_PREFIX,
    OWN_EXPRESSION_PREFIX,
)
from lakedex.errors import InvalidInput
from lakedex.filegroup import META_COLUMNS
from lakedex.index.builds import ForeignPlan, IndexBuild, foreign_plans
from lakedex.index.definitions import IndexDefinition
from lakedex.index.dropped import dropped_names
from lakedex.index.file_index.definitions import file_index_definitions, given_name, index_prefix
from lakedex.index.registry import file_index_kinds
from lakedex.schema.hudi_types import hudi_type
from lakedex.table import Snapshot
from lakedex.timeline import Action
from lakedex.write.target import StoredSchema

SECONDARY: Final = "secondary_index_"
PREFIXES: Final = (
    COMPOSITE_PREFIX,
    ASYNC_SECONDARY_PREFIX,
    SECONDARY,
    OWN_EXPRESSION_PREFIX,
    "expr_index_",
)
"""What stands before the name that an index was given, in the name of its partition."""
ONCE: Final = ("record_index", "column_stats", "bloom_filters")
"""Indexes that a table has at most once, each under its own name."""
_OTHER_KIND_NAMES: Final = {
    "col_stats": "column_stats",
    "bloom_filter": "bloom_filters",
    "record_level": "record_index",
    "record_level_index": "record_index",
}
"""How RFC-8, RFC-63 and early releases of Hudi spell kinds of indexes."""
_LONGEST_NAME = 100


def index_kind(name: str) -> str:
    """A kind of index by the name that the metadata table has for it.

    Example:
        >>> index_kind("RECORD_LEVEL"), index_kind("col_stats"), index_kind("idx_city")
        ('record_index', 'column_stats', 'idx_city')
    """
    return _OTHER_KIND_NAMES.get(name.lower(), name)


def existing_index(snapshot: Snapshot, *columns: str) -> str | None:
    """The live secondary index on these columns and no others, if there is one."""
    live = snapshot.config.metadata_partitions
    return next(
        (
            name
            for name, each in snapshot.definitions.items()
            if name in live and name.startswith(SECONDARY) and each.source_fields == columns
        ),
        None,
    )


def find_index(snapshot: Snapshot, name: str) -> str | None:
    """The metadata partition of an index, by its own name or by the one that it was given.

    Where none is spelled so, capital and small letters are taken for the same, as in all of SQL.
    An index that another engine is building is found too. A definition alone is not an index, nor
    is one that is said to be in the making while nobody makes one.
    """
    config = snapshot.config
    beside = file_index_definitions(config)
    known = {*config.metadata_partitions, *beside}
    if snapshot.timeline.pending_of(Action.INDEXING):
        known.update(config.metadata_partitions_inflight)
    # The kind of an index may be one that is not registered here.
    unregistered = (full for full, each in beside.items() if given_name(each) == name)
    return _spelled(name, known) or next(unregistered, None)


def _spelled(name: str, known: Collection[str]) -> str | None:
    """The one of some names that a name stands for; None for no or several of them."""
    exact = next((each for each in spellings(name) if each in known), None)
    if exact is not None:
        return exact
    wanted = {each.lower() for each in spellings(name)}
    alike = [each for each in known if each.lower() in wanted]
    if not alike and index_kind(name) in known:
        return index_kind(name)
    return alike[0] if len(alike) == 1 else None


def find_build(snapshot: Snapshot, name: str) -> IndexBuild | None:
    """The build of an index that lakedex makes, by any of its names."""
    found = find_index(snapshot, name)
    return next((each for each in snapshot.builds if found in each.names), None)


def find_plan(snapshot: Snapshot, name: str) -> ForeignPlan | None:
    """The plan of another engine to build an index, by any of its names, that nobody has begun."""
    wanted = {*spellings(name)}
    plans = foreign_plans(snapshot.timeline)
    return next((each for each in plans if not wanted.isdisjoint(each.names)), None)


def require_absent(snapshot: Snapshot, name: str) -> None:
    """Refuse to make an index that is there, or in the making.

    Raises:
        InvalidInput: it says which of the two.
    """
    config = snapshot.config
    if name in (*config.metadata_partitions, *file_index_definitions(config)):
        raise InvalidInput(f"table {config.name} has the index {name} already")
    if find_index(snapshot, name) is not None:
        raise InvalidInput(f"the index {name} of table {config.name} is being built already")


def find_dropped_index(snapshot: Snapshot, name: str) -> IndexDefinition | None:
    """What is left of an index that is defined and not there, by either of its names."""
    gone = dropped_names(snapshot.config, snapshot.definitions)
    found = _spelled(name, gone)
    return None if found is None else snapshot.definitions[found]


def check_index_name(name: str) -> None:
    """Refuse what cannot be the name of a new index.

    Raises:
        InvalidInput: with what a name may be.
    """
    plain = name.replace("_", "a")
    if not (plain.isascii() and plain.isalnum() and len(name) <= _LONGEST_NAME):
        raise InvalidInput(
            f"{name!r} is no name for an index: letters, digits and underscores, at most "
            f"{_LONGEST_NAME} of them"
        )
    if name.lower().startswith(prefixes()) or name.lower() in (*ONCE, "files", "partition_stats"):
        raise InvalidInput(f"{name!r} is no name for an index, as it means something else")


def indexed_column(snapshot: Snapshot, asked: str) -> str:
    """The column of a table that is to be indexed, as the table spells it.

    Raises:
        InvalidInput: there is no such column, or it is a VECTOR or a BLOB.
    """
    known = StoredSchema.of(snapshot).columns
    found = _meant(known.names, asked)
    table = snapshot.config.name
    if asked in META_COLUMNS:
        raise InvalidInput(f"the meta column {asked} of table {table} cannot be indexed")
    if len(found) != 1:
        raise InvalidInput(
            f"table {table} has no column {asked!r} to index; it has {', '.join(known.names)}"
        )
    own_type = hudi_type(known.field(found[0]))
    if own_type is not None:
        raise InvalidInput(
            f"column {found[0]!r} of table {table} is {own_type}, and there is no index of such "
            "columns yet"
        )
    return found[0]


def indexed_path(snapshot: Snapshot, asked: str) -> str:
    """The column, or the field of a struct such as `home.city`, as the table spells it.

    Raises:
        InvalidInput: there is no such column or field.
    """
    column, *fields = asked.split(".")
    path = [indexed_column(snapshot, column)]
    kind: pa.DataType = StoredSchema.of(snapshot).columns.field(path[0]).type
    for name in fields:
        found = _meant([each.name for each in kind] if pa.types.is_struct(kind) else [], name)
        if len(found) != 1:
            raise InvalidInput(f"table {snapshot.config.name} has no field {asked!r} to index")
        path += found
        kind = kind.field(found[0]).type
    return ".".join(path)


def _meant(names: Collection[str], asked: str) -> list[str]:
    """The names that are meant: the very same, else those that differ in case only."""
    same = [name for name in names if name == asked]
    return same or [name for name in names if name.lower() == asked.lower()]


def prefixes() -> tuple[str, ...]:
    """What stands before the given name in the full names of indexes, of every kind."""
    return (*PREFIXES, *map(index_prefix, file_index_kinds()))


def spellings(name: str) -> tuple[str, ...]:
    """What the metadata partition of an index may be called that goes by a name.

    Example:
        >>> {"idx", "secondary_index_idx", "expr_index_idx"} <= set(spellings("idx"))
        True
    """
    return (name, *(prefix + name for prefix in prefixes()))
