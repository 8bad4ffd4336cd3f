"""The file listing as a kind of index, which queries use to find the files of a table."""

from __future__ import annotations

from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind


class FilesKind(MetadataIndexKind):
    """The file listing as a kind of index, which queries use to find the files of a table."""

    kind = "files"
    partition = Kind.FILES
    is_creatable = False
