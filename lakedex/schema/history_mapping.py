"""Rows of an old schema version under the names of the newest one, matched by column id."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

from lakedex.schema.evolution import project
from lakedex.schema.internal_schema import (
    HistoryField,
    HistoryType,
    ListType,
    MapType,
    RecordType,
    SchemaVersion,
)
from lakedex.schema.layout import validity_buffer

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def mapping(file_version: SchemaVersion, newest: SchemaVersion) -> dict[str, str]:
    """The name in the file for each dotted path of the newest version that the file knows.

    A column added later is not in the result, nor is a dropped one.

    Example:
        >>> from lakedex.schema.internal_schema import LeafType
        >>> old = SchemaVersion(0, 1, RecordType((HistoryField(1, "b", LeafType("int")),)))
        >>> new = SchemaVersion(5, 1, RecordType((HistoryField(1, "bb", LeafType("int")),)))
        >>> mapping(old, new)
        {'bb': 'b'}
    """
    old = _names_by_id(file_version.record)
    return {
        path: old[number] for number, path in _names_by_id(newest.record).items() if number in old
    }


def apply_history(
    table: Rows, file_version: SchemaVersion, newest: SchemaVersion, target_schema: pa.Schema
) -> Rows:
    """Rows read from a file of `file_version` as `target_schema`, which has the newest names.

    Columns of the target that no version knows are matched by name.
    """
    kept = [(name, table.column(i)) for i, name in enumerate(table.schema.names)]
    plan = _renames(file_version.record, newest.record)
    known_old = {item.name for item in file_version.record.fields}
    known_new = {item.name for item in newest.record.fields}
    columns: list[pa.Array | pa.ChunkedArray] = []
    names: list[str] = []
    for name, column in kept:
        new_name, inner = plan.get(name, (None, None))
        if new_name is None and name not in known_old and name not in known_new:
            new_name = name
        if new_name is not None:
            columns.append(_rename(column, inner))
            names.append(new_name)
    if isinstance(table, pa.RecordBatch):
        if not names:
            return project(table.select([]), target_schema)
        return project(pa.RecordBatch.from_arrays(columns, names=names), target_schema)
    if not names:
        return project(table.select([]), target_schema)
    return project(pa.Table.from_arrays(columns, names=names), target_schema)


Plan = dict[str, tuple[str, "tuple[HistoryType, HistoryType] | None"]]


def _names_by_id(record: RecordType) -> dict[int, str]:
    names: dict[int, str] = {}

    def visit(field: HistoryField, prefix: str) -> None:
        path = f"{prefix}{field.name}"
        names[field.id] = path
        for child in _children(field.type):
            visit(child, f"{path}.")

    for field in record.fields:
        visit(field, "")
    return names


def _children(node: HistoryType) -> tuple[HistoryField, ...]:
    if isinstance(node, RecordType):
        return node.fields
    if isinstance(node, ListType):
        return (node.element,)
    return (node.key, node.value) if isinstance(node, MapType) else ()


def _renames(old: RecordType, new: RecordType) -> Plan:
    """Old name → new name and both types, for the fields that are in both, by id."""
    by_id = {field.id: field for field in new.fields}
    plan: Plan = {}
    for field in old.fields:
        target = by_id.get(field.id)
        if target is not None:
            plan[field.name] = (target.name, (field.type, target.type))
    return plan


def _rename(
    column: pa.Array | pa.ChunkedArray, inner: tuple[HistoryType, HistoryType] | None
) -> pa.Array | pa.ChunkedArray:
    if inner is None or not pa.types.is_nested(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        chunks = [_rename_array(chunk, *inner) for chunk in column.chunks]
        if not chunks:
            return pa.chunked_array([_rename_array(pa.nulls(0, column.type), *inner)])
        return pa.chunked_array(chunks)
    return _rename_array(column, *inner)


def _rename_array(array: pa.Array, old: HistoryType, new: HistoryType) -> pa.Array:
    dtype = array.type
    if isinstance(old, RecordType) and isinstance(new, RecordType) and pa.types.is_struct(dtype):
        plan = _renames(old, new)
        fields, children = [], []
        for number in range(dtype.num_fields):
            target = plan.get(dtype.field(number).name)
            if target is not None:
                child = _rename(array.field(number), target[1])
                fields.append(dtype.field(number).with_name(target[0]).with_type(child.type))
                children.append(child)
        return _struct_like(array, fields, children)
    if isinstance(old, ListType) and isinstance(new, ListType) and pa.types.is_list(dtype):
        items = _rename_array(array.values, old.element.type, new.element.type)
        made = pa.list_(dtype.value_field.with_type(items.type))
        return _with_children(array, made, items)
    if isinstance(old, MapType) and isinstance(new, MapType) and pa.types.is_map(dtype):
        items = _rename_array(array.items, old.value.type, new.value.type)
        made_map = pa.map_(dtype.key_field, dtype.item_field.with_type(items.type))
        entries = pa.StructArray.from_arrays(
            [array.keys, items], fields=[made_map.key_field, made_map.item_field]
        )
        return _with_children(array, made_map, entries)
    return array


def _struct_like(array: pa.Array, fields: list[pa.Field], children: list[pa.Array]) -> pa.Array:
    validity = validity_buffer(array)
    return pa.Array.from_buffers(pa.struct(fields), len(array), [validity], children=children)


def _with_children(array: pa.Array, dtype: pa.DataType, child: pa.Array) -> pa.Array:
    validity = validity_buffer(array)
    offsets = pa.py_buffer(array.offsets.to_numpy().copy())
    return pa.Array.from_buffers(dtype, len(array), [validity, offsets], children=[child])
