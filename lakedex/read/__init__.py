"""Rows out of file slices."""

from lakedex.read.changes import changed_rows
from lakedex.read.scan import Scan, to_batches, to_table

__all__ = ["Scan", "changed_rows", "to_batches", "to_table"]
