"""Spark schemas to Arrow schemas and back, the same on every release of Spark.

Types that Hudi tables do not have are refused by column and name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from lakedex.errors import InvalidInput
from lakedex.schema.hudi_types import HUDI_TYPE, hudi_type, is_vector

_PLAIN: Mapping[type[st.DataType], pa.DataType] = {
    st.BooleanType: pa.bool_(),
    st.ByteType: pa.int8(),
    st.ShortType: pa.int16(),
    st.IntegerType: pa.int32(),
    st.LongType: pa.int64(),
    st.FloatType: pa.float32(),
    st.DoubleType: pa.float64(),
    st.StringType: pa.string(),
    st.BinaryType: pa.binary(),
    st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp("us", "UTC"),
    st.TimestampNTZType: pa.timestamp("us"),
    # What is null in all rows has no type of its own: it takes that of the table's column.
    st.NullType: pa.null(),
}
_COMMENT = "comment"
_COLLATION = "UTF8_BINARY"


def any_schema(spark: SparkSession, schema: object) -> pa.Schema:
    """The Arrow schema of a StructType, a DDL text or an Arrow schema.

    Raises:
        InvalidInput: The schema is of none of these forms, or a column's type has no place.
    """
    if isinstance(schema, pa.Schema):
        return schema
    if isinstance(schema, str):
        return arrow_schema(read_ddl(spark, schema))
    if isinstance(schema, st.StructType):
        return arrow_schema(schema)
    raise InvalidInput(f"a schema is a StructType, a DDL text or an Arrow schema, not {schema!r}")


def arrow_schema(struct: st.StructType) -> pa.Schema:
    """The Arrow schema of a StructType; instants are in UTC.

    Example:
        >>> arrow_schema(st.StructType([st.StructField("at", st.TimestampType())])).types
        [TimestampType(timestamp[us, tz=UTC])]
    """
    return pa.schema([_column(each) for each in struct])


def _column(each: st.StructField) -> pa.Field:
    field = _field(each.name, _arrow(each.dataType, each.name), each.nullable)
    declared = each.metadata.get(HUDI_TYPE)
    return field if declared is None else field.with_metadata({HUDI_TYPE: str(declared)})


def spark_schema(schema: pa.Schema) -> st.StructType:
    """The StructType of a table's Arrow schema; every column may be null.

    As in Hudi the metadata of VECTOR and BLOB columns names their type.

    Example:
        >>> spark_schema(pa.schema([("at", pa.timestamp("ms", "UTC"))])).simpleString()
        'struct<at:timestamp>'
    """
    fields = []
    for each in schema:
        declared = hudi_type(each)
        metadata = None if declared is None else {HUDI_TYPE: declared}
        kind = _spark(each.type, each.name)
        fields.append(st.StructField(each.name, kind, metadata=metadata))
    return st.StructType(fields)


def with_comments(struct: st.StructType, declared: str) -> st.StructType:
    """Columns with the comments that a catalog has of them; files and commits have none.

    Args:
        struct: The columns.
        declared: The columns of the catalog, as Spark's JSON.

    Example:
        >>> declared = '{"fields": [{"name": "a", "metadata": {"comment": "so"}}]}'
        >>> with_comments(st.StructType().add("a", "integer"), declared)["a"].metadata
        {'comment': 'so'}
    """
    known = {each["name"]: each.get("metadata", {}) for each in json.loads(declared)["fields"]}
    comments = {name: of[_COMMENT] for name, of in known.items() if _COMMENT in of}
    return st.StructType(
        [
            st.StructField(
                each.name,
                each.dataType,
                each.nullable,
                {**each.metadata, _COMMENT: comments[each.name]},
            )
            if each.name in comments
            else each
            for each in struct
        ]
    )


def read_ddl(spark: SparkSession, ddl: str) -> st.StructType:
    """Columns by Spark's DDL, such as `id int, name string`.

    Raises:
        InvalidInput: It cannot be understood.
    """
    jvm = spark.sparkContext._jvm
    try:
        text = jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl).json()
    except (Py4JError, PySparkException) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidInput(f"the schema {ddl!r} cannot be understood: {reason}") from error
    return st.StructType.fromJson(json.loads(text))


def _field(name: str, dtype: pa.DataType, nullable: bool) -> pa.Field:  # noqa: FBT001 - as Spark's
    # The elements of `array()` have no type, and are said to be never null.
    return pa.field(name, dtype, nullable or pa.types.is_null(dtype))


def _arrow(kind: st.DataType, column: str) -> pa.DataType:
    if isinstance(kind, st.StructType):
        return pa.struct(
            [
                _field(each.name, _arrow(each.dataType, f"{column}.{each.name}"), each.nullable)
                for each in kind
            ]
        )
    if isinstance(kind, st.ArrayType):
        element = _arrow(kind.elementType, f"{column}.element")
        return pa.list_(_field("element", element, kind.containsNull))
    if isinstance(kind, st.MapType):
        value = _field("value", _arrow(kind.valueType, f"{column}.value"), kind.valueContainsNull)
        key = _arrow(kind.keyType, f"{column}.key")
        if pa.types.is_null(key):
            raise InvalidInput(
                f"column {column} is a map whose keys have no type; use cast(map() as ...)"
            )
        return pa.map_(key, value)
    if isinstance(kind, st.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    # Not by isinstance: a char is a kind of string, and would lose its length.
    plain = _PLAIN.get(type(kind))
    if plain is None or getattr(kind, "collation", _COLLATION) != _COLLATION:
        raise InvalidInput(
            f"column {column} has type {kind.simpleString()}, which has no place in a Hudi table"
        )
    return plain


def _spark(kind: pa.DataType, column: str) -> st.DataType:
    if pa.types.is_struct(kind):
        return st.StructType(
            [st.StructField(each.name, _spark(each.type, f"{column}.{each.name}")) for each in kind]
        )
    if pa.types.is_map(kind):
        key, item = _spark(kind.key_type, column), _spark(kind.item_type, f"{column}.value")
        return st.MapType(key, item)
    if pa.types.is_list(kind) or is_vector(kind):
        return st.ArrayType(_spark(kind.value_type, f"{column}.element"))
    if pa.types.is_decimal(kind):
        return st.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return st.TimestampNTZType() if kind.tz is None else st.TimestampType()
    if pa.types.is_fixed_size_binary(kind):
        return st.BinaryType()
    plain = _BACK.get(kind)
    if plain is None:
        raise InvalidInput(f"column {column} has type {kind}, which Spark does not have")
    return plain()


# Times of day are the whole numbers that they are stored as, as for every Spark reader of Hudi.
_BACK: Mapping[pa.DataType, type[st.DataType]] = {
    **{kind: plain for plain, kind in _PLAIN.items()},
    pa.time32("ms"): st.IntegerType,
    pa.time64("us"): st.LongType,
    pa.null(): st.StringType,
}
