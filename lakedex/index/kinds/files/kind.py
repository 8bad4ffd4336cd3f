"""The file listing as a kind of index, which queries use to find the files of a table."""

from __future__ import annotations

from lakedex.filegroup import parse_data_file
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind
from lakedex.index.verification.findings import Problem
from lakedex.storage import split


class FilesKind(MetadataIndexKind):
    """The file listing as a kind of index, which queries use to find the files of a table."""

    kind = "files"
    partition = Kind.FILES
    is_creatable = False

    def can_repair(self, problem: Problem, *, is_plain: bool) -> bool:
        """Where the problem is about a data file, and not about a partition."""
        del is_plain
        return parse_data_file(split(problem.key)[1], 0) is not None
