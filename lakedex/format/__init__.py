"""Codecs between bytes and records: HFile, Avro, log files, Parquet, bloom filters."""
