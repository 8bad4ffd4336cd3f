"""The schema-on-read history: columns by id through renames, drops and type changes.

`.hoodie/.schema/*.schemacommit` holds `{"schemas": [...]}` newest first, `latest_schema` in commit
metadata holds one entry. Each version numbers its columns; a renamed column keeps its number, a
dropped number never comes back. The schema of a file is the version with the largest id that is
not above the file's instant.

Rows of an old version are read under the names of the newest one, matched by column id. Without a
history, columns are matched by name, missing ones are null, and types are widened.

Which types may change into which is Hudi's list (int → long, float, double, string, decimal and so
on). A float becomes a double by way of its text, so that 1.1 stays 1.1, as in Hudi. Any other
change is refused with the name of the column.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.errors import CorruptFile, LakedexError, UnsupportedFeature
from lakedex.schema.conversions import convert_leaf
from lakedex.schema.field_paths import validity_buffer
from lakedex.schema.hudi_types import is_vector, vectors_of_bytes

_MAX_DEPTH = 64
_MAX_TEXT_CHARS = 64 << 20
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_LEAF_NAMES = frozenset(
    {
        *("boolean", "int", "long", "float", "double", "string", "binary", "uuid"),
        *("date", "time", "time-millis", "time-micros"),
        *("timestamp", "timestamp-millis", "timestamp-micros"),
        *("local-timestamp-millis", "local-timestamp-micros"),
    }
)
_SIZED_LEAF = re.compile(
    r"(fixed\[\d{1,9}\]|decimal(_bytes|_fixed)?\(\d{1,4},\s*\d{1,4}\)(\[\d{1,9}\])?)\Z"
)
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
Plan = dict[str, tuple[str, "tuple[HistoryType, HistoryType] | None"]]


@dataclass(frozen=True, slots=True)
class LeafType:
    """A plain type by its name, e.g. `long` or `decimal(10, 2)`."""

    name: str


@dataclass(frozen=True, slots=True)
class ListType:
    """A list whose element has an id of its own."""

    element: HistoryField


@dataclass(frozen=True, slots=True)
class MapType:
    """A map whose key and value have ids of their own."""

    key: HistoryField
    value: HistoryField


@dataclass(frozen=True, slots=True)
class RecordType:
    """The fields of a struct."""

    fields: tuple[HistoryField, ...]


HistoryType: TypeAlias = LeafType | ListType | MapType | RecordType


@dataclass(frozen=True, slots=True)
class HistoryField:
    """One column or nested field: its lasting id and its name in this version."""

    id: int
    name: str
    type: HistoryType
    optional: bool = True


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The columns as they were from the instant `version_id` on (0: before the first change)."""

    version_id: int
    max_column_id: int
    record: RecordType


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """All versions of a table's schema, oldest first.

    Example:
        >>> text = '{"schemas":[{"version_id":0,"max_column_id":0,"type":"record","fields":[]}]}'
        >>> parse_history(text).version_at("20260101000000000").version_id
        0
    """

    versions: tuple[SchemaVersion, ...]

    @property
    def newest(self) -> SchemaVersion:
        """The version in force now."""
        return self.versions[-1]

    def version_at(self, instant: str) -> SchemaVersion:
        """The version that a file or log block of that instant was written with."""
        digits = re.match(r"\d*", instant)
        number = int(digits.group()[:24]) if digits and digits.group() else 0
        position = bisect_right([v.version_id for v in self.versions], number)
        return self.versions[max(position - 1, 0)]


def parse_history(text: str, *, path: str = "<schema history>") -> SchemaHistory:
    """Read the JSON of a `.schemacommit` file, or of `latest_schema` as a history of one."""
    if len(text) > _MAX_TEXT_CHARS:
        raise CorruptFile(path, 0, expected="a schema history of sane size", actual=len(text))
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(path, 0, expected="a schema history in JSON", actual=error) from error
    entries = tree.get("schemas") if isinstance(tree, dict) and "schemas" in tree else [tree]
    if not isinstance(entries, list) or not entries:
        raise CorruptFile(path, 0, expected='a list of "schemas"', actual=str(entries)[:80])
    versions = {version.version_id: version for version in (_version(e, path) for e in entries)}
    return SchemaHistory(tuple(versions[key] for key in sorted(versions)))


def _version(tree: object, path: str) -> SchemaVersion:
    record = _type(tree, path, 0)
    if not isinstance(tree, dict) or not isinstance(record, RecordType):
        raise CorruptFile(path, 0, expected="a schema of type record", actual=str(tree)[:80])
    version_id = _number(tree, "version_id", path, default=0)
    return SchemaVersion(version_id, _number(tree, "max_column_id", path, default=-1), record)


def _type(tree: object, path: str, depth: int) -> HistoryType:
    if depth > _MAX_DEPTH:
        raise CorruptFile(path, 0, expected=f"at most {_MAX_DEPTH} levels", actual="more")
    if isinstance(tree, str):
        name = tree.lower()
        # Hudi writes a dash, and reads back an underscore only.
        if name.replace("_", "-") in _LEAF_NAMES:
            name = name.replace("_", "-")
        if name in _LEAF_NAMES or _SIZED_LEAF.match(name):
            return LeafType(name)
        raise CorruptFile(path, 0, expected="a known type name", actual=repr(tree[:80]))
    if not isinstance(tree, dict):
        raise CorruptFile(path, 0, expected="a type", actual=str(tree)[:80])
    kind = tree.get("type")
    if kind == "record":
        return _record(tree, path, depth)
    if kind == "array":
        return ListType(_inner(tree, "element", path, depth))
    if kind == "map":
        key = _inner(tree, "key", path, depth)
        return MapType(key, _inner(tree, "value", path, depth))
    raise CorruptFile(path, 0, expected="type record, array or map", actual=str(kind)[:80])


def _record(tree: Mapping[str, Any], path: str, depth: int) -> RecordType:
    items = tree.get("fields")
    if not isinstance(items, list):
        raise CorruptFile(path, 0, expected="a list of fields", actual=str(items)[:80])
    fields = []
    for item in items:
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or _HALF_CHARACTER.search(name):
            raise CorruptFile(path, 0, expected="a field with a name", actual=str(item)[:80])
        inner = _type(item.get("type"), path, depth + 1)
        optional = item.get("optional") is not False
        fields.append(HistoryField(_number(item, "id", path), name, inner, optional))
    return RecordType(tuple(fields))


def _inner(tree: Mapping[str, Any], name: str, path: str, depth: int) -> HistoryField:
    inner = _type(tree.get(name), path, depth + 1)
    optional = tree.get(f"{name}_optional") is not False
    return HistoryField(_number(tree, f"{name}_id", path), name, inner, optional)


def _number(tree: Mapping[str, Any], key: str, path: str, *, default: int | None = None) -> int:
    """Older writers spelled `version-id` where newer ones write `version_id`."""
    value = tree.get(key, tree.get(key.replace("_id", "-id"), default))
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptFile(path, 0, expected=f"a number in {key!r}", actual=str(value)[:80])
    return value


def history_text(history: SchemaHistory) -> str:
    """All versions, the newest first."""
    return _spelled({"schemas": [_version_text(each) for each in reversed(history.versions)]})


def version_text(version: SchemaVersion) -> str:
    """One version.

    Example:
        >>> from lakedex.schema.internal_schema import RecordType
        >>> version_text(SchemaVersion(0, -1, RecordType(())))
        '{"max_column_id":-1,"version_id":0,"type":"record","fields":[]}'
    """
    return _spelled(_version_text(version))


def _spelled(tree: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def _version_text(version: SchemaVersion) -> dict[str, Any]:
    numbers = {"max_column_id": version.max_column_id, "version_id": version.version_id}
    return {**numbers, **_type_text(version.record)}


def _type_text(node: HistoryType) -> Any:  # noqa: ANN401 - JSON
    if isinstance(node, LeafType):
        # Hudi fails on the dashes that it would write itself.
        return node.name.replace("-", "_")
    if isinstance(node, ListType):
        inner = node.element
        return {
            "type": "array",
            "element_id": inner.id,
            "element": _type_text(inner.type),
            "element_optional": inner.optional,
        }
    if isinstance(node, MapType):
        return {
            "type": "map",
            "key_id": node.key.id,
            "key": _type_text(node.key.type),
            "value_id": node.value.id,
            "value": _type_text(node.value.type),
            "value_optional": node.value.optional,
        }
    return {"type": "record", "fields": [_field(each) for each in node.fields]}


def _field(field: HistoryField) -> dict[str, Any]:
    return {
        "id": field.id,
        "name": field.name,
        "optional": field.optional,
        "type": _type_text(field.type),
    }


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


def project(table: Rows, target: pa.Schema) -> Rows:
    """The rows with exactly the columns and types of `target`.

    Example:
        >>> old = pa.table({"a": pa.array([1, 2], pa.int32())})
        >>> project(old, pa.schema([("a", pa.int64()), ("b", pa.string())])).to_pylist()
        [{'a': 1, 'b': None}, {'a': 2, 'b': None}]
    """
    if _fits(table, target):
        return type(table).from_arrays(table.columns, schema=target)
    positions = {name: number for number, name in enumerate(table.schema.names)}
    columns: list[pa.Array | pa.ChunkedArray] = []
    for field in target:
        number = positions.get(field.name)
        if number is None:
            columns.append(_missing(field, table.num_rows, field.name))
        else:
            columns.append(_column(table.column(number), field))
    if isinstance(table, pa.RecordBatch):
        if not columns:
            return table.select([])
        return pa.RecordBatch.from_arrays(columns, schema=target)
    if not columns:
        return table.select([])
    return pa.Table.from_arrays(columns, schema=target)


def _fits(table: pa.Table | pa.RecordBatch, target: pa.Schema) -> bool:
    """Whether the columns are what `target` says already, as in most files."""
    if not len(target) or table.schema != target:
        return False
    return all(
        (field.nullable or not table.column(number).null_count)
        and (
            not pa.types.is_nested(field.type)
            or _names_agree(table.schema.field(number).type, field.type)
        )
        for number, field in enumerate(target)
    )


def _column(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, pa.ChunkedArray):
        chunks = [convert(chunk, field, field.name) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=field.type)
    return convert(column, field, field.name)


def convert(array: pa.Array, field: pa.Field, path: str) -> pa.Array:
    """One array to the type of `field`; `path` names the column in errors."""
    if not field.nullable and array.null_count:
        raise LakedexError(f"column {path} holds nulls but its schema says it has none")
    old, new = array.type, field.type
    if old == new and _names_agree(old, new):
        return array
    if pa.types.is_dictionary(old):
        return convert(array.cast(old.value_type), field, path)
    if pa.types.is_null(old):
        return pa.nulls(len(array), new)
    if is_vector(new) and pa.types.is_fixed_size_binary(old):
        return _vector(array, new, path)
    if pa.types.is_struct(new) and pa.types.is_struct(old):
        return _struct(array, new, path)
    if pa.types.is_map(new) and pa.types.is_map(old):
        return _map(array, new, path)
    if _is_list(new) and _is_list(old) and not pa.types.is_map(old) and not pa.types.is_map(new):
        return _list(array, new, path)
    if pa.types.is_nested(old) or pa.types.is_nested(new):
        raise UnsupportedFeature(f"the change of column {path} from {old} to {new}")
    return convert_leaf(array, new, path)


def _vector(array: pa.Array, new: pa.DataType, path: str) -> pa.Array:
    """Vectors as base files hold them; of another dimension they would be other vectors."""
    width = new.list_size * new.value_type.bit_width // 8
    if array.type.byte_width != width:
        raise UnsupportedFeature(
            f"column {path}: vectors of {array.type.byte_width} bytes in a file, {width} in the "
            "table,"
        )
    return vectors_of_bytes(array, new)


def _names_agree(old: pa.DataType, new: pa.DataType) -> bool:
    """Equal list types may still differ in the names of their inner fields."""
    return not pa.types.is_nested(old) or str(old) == str(new)


def _is_list(dtype: pa.DataType) -> bool:
    return pa.types.is_list(dtype) or pa.types.is_large_list(dtype)


def _missing(field: pa.Field, rows: int, path: str) -> pa.Array:
    if not field.nullable and rows:
        raise LakedexError(f"column {path} is not in the file and may not be null")
    return pa.nulls(rows, field.type)


def _struct(array: pa.StructArray, new: pa.StructType, path: str) -> pa.Array:
    old = array.type
    children = []
    for number in range(new.num_fields):
        field = new.field(number)
        index = old.get_field_index(field.name)
        inner = f"{path}.{field.name}"
        if index < 0:
            # A row whose struct is null needs no value, so only rows that have one count.
            present = len(array) - array.null_count
            _missing(field, present, inner)
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(_struct_child(array, index, field, inner))
    return pa.Array.from_buffers(new, len(array), [validity_buffer(array)], children=children)


def _struct_child(array: pa.StructArray, index: int, field: pa.Field, path: str) -> pa.Array:
    child = array.field(index)
    if field.nullable or not array.null_count:
        return convert(child, field, path)
    return convert(child, pa.field(field.name, field.type), path)


def _list(array: pa.ListArray, new: pa.ListType, path: str) -> pa.Array:
    offsets = _offsets(array)
    values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    items = convert(values, new.value_field, f"{path}.element")
    width = np.int64 if pa.types.is_large_list(new) else np.int32
    bytes_ = pa.py_buffer((offsets - offsets[0]).astype(width))
    return pa.Array.from_buffers(
        new, len(array), [validity_buffer(array), bytes_], children=[items]
    )


def _map(array: pa.MapArray, new: pa.MapType, path: str) -> pa.Array:
    offsets = _offsets(array)
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys = convert(array.keys.slice(start, length), new.key_field, f"{path}.key")
    items = convert(array.items.slice(start, length), new.item_field, f"{path}.value")
    entries = pa.StructArray.from_arrays([keys, items], fields=[new.key_field, new.item_field])
    bytes_ = pa.py_buffer((offsets - offsets[0]).astype(np.int32))
    return pa.Array.from_buffers(
        new, len(array), [validity_buffer(array), bytes_], children=[entries]
    )


def _offsets(array: pa.ListArray) -> npt.NDArray[np.int64]:
    """The n + 1 offsets of a list or map array, of which a slice keeps only its own."""
    return array.offsets.to_numpy().astype(np.int64)
