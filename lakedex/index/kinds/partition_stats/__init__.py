"""The partition_stats partition of the metadata table: column ranges of partitions (RFC-27)."""
