"""The Avro schema of a delete block's records (HoodieDeleteRecordList).

Delete values are boxed in little records ("wrappers"), so that the union can tell an int from a
date. Branch 12 of the union is ArrayWrapper, for tables with several ordering fields; inside of
it branch 12 is LocalDateWrapper. Logical types are named here that Hudi leaves out: they do not
change the bytes, and make the right Arrow types.
"""

from __future__ import annotations

import json

import pyarrow as pa

from lakedex.schema.arrow_types import arrow_schema
from lakedex.schema.avro_nodes import AvroRecord
from lakedex.schema.avro_type import parse_avro_record

_WRAPPED: dict[str, object] = {
    "BooleanWrapper": "boolean",
    "IntWrapper": "int",
    "LongWrapper": "long",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
    "BytesWrapper": "bytes",
    "StringWrapper": "string",
    "DateWrapper": {"type": "int", "logicalType": "date"},
    "DecimalWrapper": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    "TimeMicrosWrapper": {"type": "long", "logicalType": "time-micros"},
    "TimestampMicrosWrapper": {"type": "long", "logicalType": "timestamp-micros"},
}

INT_MEMBER = 1
ARRAY_MEMBER = len(_WRAPPED)
"""The struct members of the ordering value, one less than the union branch."""


def _wrapper(name: str, value: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": value}]}


def _schema_json() -> dict[str, object]:
    array_items = ["null", *_WRAPPED, _wrapper("LocalDateWrapper", _WRAPPED["DateWrapper"])]
    array_wrapper = {
        "type": "record",
        "name": "ArrayWrapper",
        "fields": [
            {"name": "wrappedValues", "type": ["null", {"type": "array", "items": array_items}]}
        ],
    }
    wrappers = [_wrapper(name, value) for name, value in _WRAPPED.items()]
    return {
        "type": "record",
        "name": "HoodieDeleteRecord",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {"name": "recordKey", "type": ["null", "string"]},
            {"name": "partitionPath", "type": ["null", "string"]},
            {"name": "orderingVal", "type": ["null", *wrappers, array_wrapper]},
        ],
    }


DELETE_RECORD: AvroRecord = parse_avro_record(json.dumps(_schema_json()), path="<deletes>")
DELETE_ARROW: pa.Schema = arrow_schema(DELETE_RECORD)
ORDERING_TYPE: pa.DataType = DELETE_ARROW.field("orderingVal").type
