"""File groups and slices: names, what a query sees of them, and their merged rows."""

from lakedex.filegroup.context import META_COLUMNS, RECORD_KEY, ReadContext, partition_layout
from lakedex.filegroup.names import (
    BaseFile,
    LogFile,
    base_file_name,
    log_file_name,
    parse_data_file,
)
from lakedex.filegroup.reading import count_rows, count_rows_of, read_slice, read_slices
from lakedex.filegroup.slices import (
    Amount,
    FileSlice,
    FileSliceId,
    Slices,
    Visibility,
    all_versions,
    latest_slices,
)

__all__ = [
    "META_COLUMNS",
    "RECORD_KEY",
    "Amount",
    "BaseFile",
    "FileSlice",
    "FileSliceId",
    "LogFile",
    "ReadContext",
    "Slices",
    "Visibility",
    "all_versions",
    "base_file_name",
    "count_rows",
    "count_rows_of",
    "latest_slices",
    "log_file_name",
    "parse_data_file",
    "partition_layout",
    "read_slice",
    "read_slices",
]
