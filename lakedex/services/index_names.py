"""Indexes by the names that people give them: `idx_rider` is `secondary_index_idx_rider`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lakedex.errors import InvalidInput
from lakedex.index.builds import ForeignPlan, IndexBuild, foreign_plans
from lakedex.index.catalog import dropped_names
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index.definitions import file_index_definitions, given_name
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.registry import (
    default_kind,
    indexes_outside_metadata,
    kind_name,
    kinds_by_name,
    name_prefixes,
    reserved_names,
)
from lakedex.index.request import indexed_path as path_to_index
from lakedex.table import Snapshot
from lakedex.timeline import Action
from lakedex.write.write_schema import StoredSchema

ONCE: Final = kinds_by_name()
"""Indexes that a table has at most once, each under its own name."""
_LONGEST_NAME = 100


def existing_index(snapshot: Snapshot, *columns: str) -> str | None:
    """The live index of the default kind on these columns and no others, if there is one."""
    return default_kind().live_index_on(snapshot.config, snapshot.definitions, columns)


def find_index(snapshot: Snapshot, name: str) -> str | None:
    """The metadata partition of an index, by its own name or by the one that it was given.

    Where none is spelled so, capital and small letters are taken for the same, as in all of SQL.
    An index that another engine is building is found too. A definition alone is not an index, nor
    is one that the properties call inflight while no process builds it.
    """
    config = snapshot.config
    beside = file_index_definitions(config)
    known = {*config.metadata_partitions, *beside}
    if snapshot.timeline.pending_of(Action.INDEXING):
        known.update(config.metadata_partitions_inflight)
    # The kind of an index may be one that is not registered here.
    unregistered = (full for full, each in beside.items() if given_name(each) == name)
    return _spelled(name, known) or next(unregistered, None)


def existing_names(snapshot: Snapshot) -> list[str]:
    """The names that people give to the indexes of a table."""
    config = snapshot.config
    full = {*config.metadata_partitions, *file_index_definitions(config)}
    prefixes = sorted(name_prefixes(), key=len)
    given = {
        next((name.removeprefix(each) for each in prefixes[::-1] if name.startswith(each)), name)
        for name in full
    }
    return sorted(given)


def _spelled(name: str, known: Collection[str]) -> str | None:
    """The one of some names that a name stands for; None for no or several of them."""
    exact = next((each for each in spellings(name) if each in known), None)
    if exact is not None:
        return exact
    wanted = {each.lower() for each in spellings(name)}
    alike = [each for each in known if each.lower() in wanted]
    if not alike and kind_name(name) in known:
        return kind_name(name)
    return alike[0] if len(alike) == 1 else None


def find_outside(snapshot: Snapshot, name: str) -> MetadataIndexKind | None:
    """The kind of an index that a table has outside of its metadata table, by its name."""
    wanted = kind_name(name.lower())
    found = indexes_outside_metadata(snapshot.stored_table)
    return next((kind for info, kind in found if info.name == wanted), None)


def find_build(snapshot: Snapshot, name: str) -> IndexBuild | None:
    """The build of an index that lakedex makes, by any of its names."""
    found = find_index(snapshot, name)
    return next((each for each in snapshot.builds if found in each.names), None)


def find_plan(snapshot: Snapshot, name: str) -> ForeignPlan | None:
    """The plan of another engine to build an index, by any of its names, that has not begun."""
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
    if name.lower().startswith(name_prefixes()) or name.lower() in reserved_names():
        raise InvalidInput(f"{name!r} is no name for an index, as it means something else")


def indexed_path(snapshot: Snapshot, asked: str) -> str:
    """The column, or the field of a struct such as `home.city`, as the table spells it.

    Raises:
        InvalidInput: there is no such column or field.
    """
    return path_to_index(StoredSchema.of(snapshot).columns, snapshot.config.name, asked)


def spellings(name: str) -> tuple[str, ...]:
    """What the metadata partition of an index may be called that goes by a name.

    Example:
        >>> {"idx", "secondary_index_idx", "expr_index_idx"} <= set(spellings("idx"))
        True
    """
    return (name, *(prefix + name for prefix in name_prefixes()))
