"""Index kinds of your own.

A kind is a subclass of `EntryIndexKind` or `FileIndexKind`. It says which entries describe a data
file, and which entries may belong to a file with a matching row. Registered by `register`, or by
an entry point of the group `lakedex.index_kinds`, it is used like a built-in kind:

    CREATE INDEX by_domain ON users USING email_domain(email)

Writers maintain the index, services keep it, `verify` checks it and `repair` mends it. The guide
"Write your own index" has a complete example.
"""

from __future__ import annotations

from lakedex.errors import IndexUnusable, InvalidInput
from lakedex.expr.tree import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Op,
    Or,
    StartsWith,
)
from lakedex.index.contract import Answer, IndexedTable, Mask, Question, Stage
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index import (
    EntryIndexKind,
    FileIndexKind,
    FileIndexQuery,
    IndexRequest,
)
from lakedex.index.file_index.kind import combined, is_answered
from lakedex.index.file_index.run import DescribedRun, EncodedEntries, RunHead, read_table
from lakedex.index.registry import register
from lakedex.schema.field_paths import values_at

__all__ = [
    "And",
    "Answer",
    "Call",
    "Cast",
    "Column",
    "Compare",
    "DescribedRun",
    "EncodedEntries",
    "EntryIndexKind",
    "Expr",
    "FileIndexKind",
    "FileIndexQuery",
    "In",
    "IndexDefinition",
    "IndexRequest",
    "IndexUnusable",
    "IndexedTable",
    "InvalidInput",
    "IsNotNull",
    "IsNull",
    "Like",
    "Literal",
    "Mask",
    "Not",
    "Op",
    "Or",
    "Question",
    "RunHead",
    "Stage",
    "StartsWith",
    "combined",
    "is_answered",
    "read_table",
    "register",
    "values_at",
]
