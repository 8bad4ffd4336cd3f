"""Support for tests and benches: real Hudi tables made with lakedex's own codecs alone.

`TableBuilder` writes a version 9 table with its metadata table on a local disk, and keeps the rows
that a correct reader must give back.
"""

from __future__ import annotations

from tests.support.index_specs import ExpressionIndex, SecondaryIndex
from tests.support.table_builder import TableBuilder

__all__ = ["ExpressionIndex", "SecondaryIndex", "TableBuilder"]
