"""The key-value entries that Hudi puts in the footer of a base file."""

from __future__ import annotations

BLOOM_FILTER = b"org.apache.hudi.bloomfilter"
BLOOM_TYPE_CODE = b"hoodie_bloom_filter_type_code"
MIN_RECORD_KEY = b"hoodie_min_record_key"
MAX_RECORD_KEY = b"hoodie_max_record_key"
AVRO_SCHEMA = b"parquet.avro.schema"
WRITER_MODEL = b"writer.model.name"
SPARK_VERSION = b"org.apache.spark.version"
"""Not of Hudi's: tells Spark which calendar the dates and times of the file are in."""
VECTOR_COLUMNS = b"hoodie.vector.columns"
"""The vectors among the columns: `e:VECTOR(4),d:VECTOR(2, DOUBLE)`."""
