"""One writer each for lakedex, Hudi, Delta, Iceberg and plain Parquet, measured alike."""
