"""The bloom_filters partition of the metadata table: record keys of base files (RFC-27)."""
