"""Base files in Parquet: Hudi's entries in their footers, and how Hudi writes them."""

from __future__ import annotations

from lakedex.format.parquet.footer import ParquetFooter, read_footer
from lakedex.format.parquet.pages import read_parquet_bytes
from lakedex.format.parquet.writer import write_base_file

__all__ = ["ParquetFooter", "read_footer", "read_parquet_bytes", "write_base_file"]
