"""The Avro schema of the metadata table's records (wire name `HoodieMetadataRecord`).

Log block headers and the file info of HFiles contain the text with Hudi's five meta columns first;
the commit metadata of the metadata table contains it without them. The text is unchanged, because
readers compare the schemas of a base file and its log files.
"""

from __future__ import annotations

import json
from importlib import resources

from lakedex.schema.avro_schema import AvroRecord, parse_avro_record

META_COLUMN_COUNT = 5


def _without_meta_columns(text: str) -> str:
    tree = json.loads(text)
    tree["fields"] = tree["fields"][META_COLUMN_COUNT:]
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


METADATA_RECORD_SCHEMA: str = (
    resources.files("lakedex.format.avro")
    .joinpath("metadata_record.avsc")
    .read_text(encoding="utf-8")
    .strip()
)
METADATA_RECORD_SCHEMA_WITHOUT_META: str = _without_meta_columns(METADATA_RECORD_SCHEMA)
METADATA_RECORD: AvroRecord = parse_avro_record(METADATA_RECORD_SCHEMA, path="metadata_record.avsc")
