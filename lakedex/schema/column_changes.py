"""Columns renamed, dropped, added, retyped and moved, those of structs too.

Every change takes numbered columns and gives numbered columns; a renamed or moved column keeps its
id. A path names a field inside of structs; `element`, `key` and `value` lead into lists and maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.schema.conversions import is_convertible

Path = Sequence[str]
Fields = list[pa.Field]
_WIDER = (pa.int32(), pa.int64(), pa.float32(), pa.float64())


@dataclass(frozen=True)
class ColumnPosition:
    """Where among its siblings a column stands: first, or after one of them."""

    after: str | None = None


def rename_column(columns: pa.Schema, path: Path, name: str) -> pa.Schema:
    """The columns with one under another name.

    Example:
        >>> rename_column(pa.schema([("a", pa.int32())]), ["a"], "b").names
        ['b']
    """

    def change(fields: Fields) -> Fields:
        _check_free(fields, path, name)
        at = _find(fields, path)
        return [*fields[:at], fields[at].with_name(name), *fields[at + 1 :]]

    return _at(columns, path, change)


def drop_column(columns: pa.Schema, path: Path) -> pa.Schema:
    """The columns without one."""

    def change(fields: Fields) -> Fields:
        at = _find(fields, path)
        if len(fields) == 1:
            raise InvalidInput(f"{_shown(path)} is the last of its kind and cannot be dropped")
        return [*fields[:at], *fields[at + 1 :]]

    return _at(columns, path, change)


def add_column(
    columns: pa.Schema, path: Path, dtype: pa.DataType, place: ColumnPosition | None = None
) -> pa.Schema:
    """The columns with a new one, by default at the end; it is null in all rows there are."""

    def change(fields: Fields) -> Fields:
        _check_free(fields, path, path[-1])
        return _placed(fields, pa.field(path[-1], dtype), place)

    return _at(columns, path, change)


def move_column(columns: pa.Schema, path: Path, place: ColumnPosition) -> pa.Schema:
    """The columns with one at another place."""

    def change(fields: Fields) -> Fields:
        at = _find(fields, path)
        return _placed([*fields[:at], *fields[at + 1 :]], fields[at], place)

    return _at(columns, path, change)


def retype_column(columns: pa.Schema, path: Path, dtype: pa.DataType) -> pa.Schema:
    """The columns with one of a wider type, or of a type into which its values are converted.

    Raises:
        UnsupportedFeature: Values might not fit the new type.
    """

    def change(fields: Fields) -> Fields:
        at = _find(fields, path)
        old = fields[at].type
        if old != dtype and not _is_wider(old, dtype) and not is_convertible(old, dtype):
            raise UnsupportedFeature(f"changing column {_shown(path)} from {old} to {dtype}")
        return [*fields[:at], fields[at].with_type(dtype), *fields[at + 1 :]]

    return _at(columns, path, change)


def allow_null(columns: pa.Schema, path: Path) -> pa.Schema:
    """The columns with one that may be null from now on."""

    def change(fields: Fields) -> Fields:
        at = _find(fields, path)
        return [*fields[:at], fields[at].with_nullable(nullable=True), *fields[at + 1 :]]

    return _at(columns, path, change)


def _is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    if old in _WIDER and new in _WIDER:
        return _WIDER.index(new) > _WIDER.index(old)
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        whole = new.precision - new.scale >= old.precision - old.scale
        return bool(whole and new.scale >= old.scale)
    return False


def _at(columns: pa.Schema, path: Path, change: Callable[[Fields], Fields]) -> pa.Schema:
    return pa.schema(_within(list(columns), list(path), 0, change))


def _within(
    fields: Fields, path: list[str], depth: int, change: Callable[[Fields], Fields]
) -> Fields:
    """Fields, changed where the last part of a path is to be found."""
    if depth == len(path) - 1:
        return change(fields)
    at = _find(fields, path[: depth + 1])
    field = fields[at]
    made = field.with_type(_inner(field.type, path, depth + 1, change))
    return [*fields[:at], made, *fields[at + 1 :]]


def _inner(
    dtype: pa.DataType, path: list[str], depth: int, change: Callable[[Fields], Fields]
) -> pa.DataType:
    if pa.types.is_struct(dtype):
        return pa.struct(_within(list(dtype), path, depth, change))
    part = path[depth].lower()
    if pa.types.is_list(dtype) and part == "element":
        return pa.list_(_member(dtype.value_field, path, depth, change))
    if pa.types.is_map(dtype) and part == "value":
        return pa.map_(dtype.key_field, _member(dtype.item_field, path, depth, change))
    raise InvalidInput(f"{_shown(path[:depth])} is {dtype} and has no field {path[depth]!r}")


def _member(
    field: pa.Field, path: list[str], depth: int, change: Callable[[Fields], Fields]
) -> pa.Field:
    """What a list or a map holds; of it only the type can change, as it has no name."""
    if depth < len(path) - 1:
        return field.with_type(_inner(field.type, path, depth + 1, change))
    name = path[depth]
    made = change([field.with_name(name)])
    if len(made) != 1 or made[0].name != name:
        raise InvalidInput(f"{_shown(path)} is all that {_shown(path[:depth])} holds: it stays")
    return made[0].with_name(field.name)


def _find(fields: Fields, path: Path) -> int:
    wanted = path[-1].lower()
    for at, field in enumerate(fields):
        if field.name.lower() == wanted:
            return at
    known = ", ".join(field.name for field in fields)
    raise InvalidInput(f"there is no column {_shown(path)!r}, only {known}")


def _check_free(fields: Fields, path: Path, name: str) -> None:
    wanted = name.lower()
    taken = [field.name for field in fields if field.name.lower() == wanted]
    is_other = bool(taken) and taken[0].lower() != path[-1].lower()
    if is_other or (taken and name == path[-1]):
        raise InvalidInput(f"there is a column {_shown([*path[:-1], taken[0]])!r} already")


def _placed(fields: Fields, field: pa.Field, place: ColumnPosition | None) -> Fields:
    if place is None:
        return [*fields, field]
    if place.after is None:
        return [field, *fields]
    at = _find(fields, [place.after]) + 1
    return [*fields[:at], field, *fields[at:]]


def _shown(path: Path) -> str:
    return ".".join(path)
