"""Avro ↔ Arrow types, and how the columns of a table change over time."""

from __future__ import annotations

from lakedex.schema.arrow_types import arrow_schema, arrow_type, avro_schema
from lakedex.schema.avro_schema import (
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    PrimitiveKind,
    parse_avro_record,
    parse_avro_schema,
)
from lakedex.schema.internal_schema import (
    SchemaHistory,
    SchemaVersion,
    apply_history,
    mapping,
    parse_history,
    project,
)

__all__ = [
    "AvroArray",
    "AvroEnum",
    "AvroField",
    "AvroFixed",
    "AvroMap",
    "AvroPrimitive",
    "AvroRecord",
    "AvroType",
    "AvroUnion",
    "PrimitiveKind",
    "SchemaHistory",
    "SchemaVersion",
    "apply_history",
    "arrow_schema",
    "arrow_type",
    "avro_schema",
    "mapping",
    "parse_avro_record",
    "parse_avro_schema",
    "parse_history",
    "project",
]
