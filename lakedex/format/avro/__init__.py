"""Avro binary records ↔ Arrow, whole batches at a time."""

from __future__ import annotations

from lakedex.format.avro.decode import (
    METADATA_RECORD,
    METADATA_RECORD_SCHEMA,
    METADATA_RECORD_SCHEMA_WITHOUT_META,
    decode_records,
)
from lakedex.format.avro.distinct import decode_distinct, encode_distinct
from lakedex.format.avro.encode import EncodedRecords, encode_records

__all__ = [
    "METADATA_RECORD",
    "METADATA_RECORD_SCHEMA",
    "METADATA_RECORD_SCHEMA_WITHOUT_META",
    "EncodedRecords",
    "decode_distinct",
    "decode_records",
    "encode_distinct",
    "encode_records",
]
