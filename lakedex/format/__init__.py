"""Bytes to records and back, nothing else: HFile, Avro, log files, Parquet, bloom filters."""
