"""The record index as a kind of index."""

from __future__ import annotations

from lakedex.index.kinds.record_index.lookup import RecordIndex
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind
from lakedex.index.request import PARTITIONED


class RecordIndexKind(RecordIndex, MetadataIndexKind):
    """The record index as a kind of index."""

    partition = Kind.RECORD_INDEX
    options = (PARTITIONED,)
    aliases = ("record_level", "record_level_index")
