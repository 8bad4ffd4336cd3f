"""The types a table can store, and the form in which it stores them.

Every Arrow type that means one of Spark's types is brought to one form: whole numbers of 32 and
64 bits, text, bytes, dates of days, times in microseconds (UTC, or without a zone), lists, maps
from text, and structs. What has no place in a Hudi table is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.schema.avro_schema import is_avro_name
from lakedex.schema.hudi_types import HUDI_TYPE, given_hudi_type, marked, parse_hudi_type

_MOST_DIGITS = 38
_MOST_LEVELS = 60
META_PREFIX: Final = "_hoodie_"
_OWN_PREFIX = "__lakedex_"
_USER_FLAGS = ("_hoodie_is_deleted",)


def storable_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with every column in the form that is stored; nullability stays.

    Example:
        >>> storable_schema(pa.schema([("a", pa.large_string()), ("b", pa.int8())])).types
        [DataType(string), DataType(int32)]

    Raises:
        InvalidInput: a name or a type that a table cannot have; the column is named.
    """
    check_names(schema.names, "the schema")
    return pa.schema([storable_field(field, field.name) for field in schema])


def storable_field(field: pa.Field, path: str) -> pa.Field:
    """A column in the form that is stored; one whose metadata says so is a VECTOR or a BLOB.

    Raises:
        InvalidInput: the type has no place in a Hudi table, or is not what the metadata says.
    """
    declared = given_hudi_type(field)
    if declared is None:
        return _field(field, path, 0)
    dtype = parse_hudi_type(declared, path)
    fits = pa.types.is_struct if pa.types.is_struct(dtype) else is_list
    if not (pa.types.is_null(field.type) or fits(field.type)):
        raise InvalidInput(f"column {path} is {declared}, which is no column of type {field.type}")
    kept = pa.field(field.name, dtype, field.nullable, {HUDI_TYPE: declared})
    return marked(kept)


def storable_type(dtype: pa.DataType, path: str) -> pa.DataType:
    """The form in which values of a type are stored; `path` names the column in errors.

    Raises:
        InvalidInput: the type has no place in a Hudi table.
    """
    return _stored(dtype, path, 0)


def check_names(names: list[str], where: str) -> None:
    """Refuse names that Avro cannot hold, and names that differ by nothing, or by case only.

    Raises:
        InvalidInput: naming the column.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not is_avro_name(name):
            raise InvalidInput(
                f"column name {name[:200]!r} in {where}: only letters, digits and _ can be stored"
            )
        other = seen.setdefault(name.lower(), name)
        if other is not name or names.count(name) > 1:
            shown = name if other == name else f"{other} and {name}"
            raise InvalidInput(f"{where} has the column {shown} twice")


def check_reserved(names: list[str]) -> None:
    """Refuse the names that Hudi keeps for itself, and those that rows on their way need.

    Raises:
        InvalidInput: naming the column.
    """
    for name in names:
        if name.lower().startswith(META_PREFIX) and name not in _USER_FLAGS:
            raise InvalidInput(f"column name {name!r} is reserved: {META_PREFIX}* belongs to Hudi")
        if name.lower().startswith(_OWN_PREFIX):
            raise InvalidInput(f"column name {name!r} is reserved: {_OWN_PREFIX}* is for writes")


def _field(field: pa.Field, path: str, level: int, name: str | None = None) -> pa.Field:
    declared = given_hudi_type(field)
    if declared is not None and level:
        raise InvalidInput(
            f"column {path}: {declared} is a type of whole columns, not of parts of one"
        )
    return pa.field(name or field.name, _stored(field.type, path, level), field.nullable)


def _stored(dtype: pa.DataType, path: str, level: int) -> pa.DataType:
    if level > _MOST_LEVELS:
        raise InvalidInput(f"column {path.partition('.')[0]} is nested too deeply")
    if pa.types.is_dictionary(dtype) or pa.types.is_run_end_encoded(dtype):
        return _stored(dtype.value_type, path, level)
    if pa.types.is_struct(dtype):
        return _struct(dtype, path, level)
    if pa.types.is_map(dtype):
        return _map(dtype, path, level)
    if is_list(dtype):
        item = _field(dtype.value_field, f"{path}.element", level + 1, "element")
        return pa.list_(item)
    return _leaf(dtype, path)


def _leaf(dtype: pa.DataType, path: str) -> pa.DataType:
    if pa.types.is_decimal(dtype):
        return _decimal(dtype, path)
    if pa.types.is_timestamp(dtype):
        return pa.timestamp("us", None if dtype.tz is None else "UTC")
    for test, stored in _FORMS:
        if test(dtype):
            return stored
    raise InvalidInput(f"column {path}: {_refusal(dtype)} cannot be stored in a Hudi table")


def is_list(dtype: pa.DataType) -> bool:
    """Whether the type is a list in any of Arrow's layouts; a map is none."""
    return any(test(dtype) for test in _LISTS)


def is_text(dtype: pa.DataType) -> bool:
    """Whether the type is text in any of Arrow's layouts."""
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or dtype == pa.string_view()


def is_bytes(dtype: pa.DataType) -> bool:
    """Whether the type is bytes in any of Arrow's layouts."""
    return (
        pa.types.is_binary(dtype)
        or pa.types.is_large_binary(dtype)
        or pa.types.is_fixed_size_binary(dtype)
        or dtype == pa.binary_view()
    )


def _struct(dtype: pa.StructType, path: str, level: int) -> pa.DataType:
    fields = [dtype.field(number) for number in range(dtype.num_fields)]
    if not fields:
        raise InvalidInput(f"column {path}: a struct without fields cannot be stored")
    check_names([field.name for field in fields], f"column {path}")
    return pa.struct([_field(field, f"{path}.{field.name}", level + 1) for field in fields])


def _map(dtype: pa.MapType, path: str, level: int) -> pa.DataType:
    key = dtype.key_type
    key = key.value_type if pa.types.is_dictionary(key) else key
    if not is_text(key):
        raise InvalidInput(f"column {path}: a map with keys of type {key} cannot be stored")
    return pa.map_(pa.string(), _field(dtype.item_field, f"{path}.value", level + 1, "value"))


def _decimal(dtype: pa.DataType, path: str) -> pa.DataType:
    if dtype.precision > _MOST_DIGITS or not 0 <= dtype.scale <= dtype.precision:
        raise InvalidInput(f"column {path}: {dtype} cannot be stored; 38 digits are the most")
    return pa.decimal128(dtype.precision, dtype.scale)


def _refusal(dtype: pa.DataType) -> str:
    if pa.types.is_null(dtype):
        return "the type void"
    if pa.types.is_duration(dtype) or pa.types.is_interval(dtype):
        return f"the interval type {dtype}"
    return f"the type {dtype}"


def _one_of(*types: pa.DataType) -> Callable[[pa.DataType], bool]:
    return lambda dtype: dtype in types


_LISTS: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
_FORMS: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (is_text, pa.string()),
    (is_bytes, pa.binary()),
    (pa.types.is_boolean, pa.bool_()),
    (_one_of(pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), pa.int32()),
    (_one_of(pa.int64(), pa.uint32()), pa.int64()),
    (_one_of(pa.float16(), pa.float32()), pa.float32()),
    (_one_of(pa.float64()), pa.float64()),
    (pa.types.is_date, pa.date32()),
)
