"""The column_stats partition of the metadata table: column ranges of files (RFC-27)."""
