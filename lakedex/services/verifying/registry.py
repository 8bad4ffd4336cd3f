"""How each kind of index is verified; a new kind is a new module and one line here."""

from __future__ import annotations

from lakedex.index.metadata_table import Kind
from lakedex.services.verifying import (
    bloom_filters,
    column_stats,
    expression_index,
    partition_stats,
    record_index,
    secondary_index,
)
from lakedex.services.verifying.check import VerifyKind
from lakedex.services.verifying.files import FilesCheck

KINDS: tuple[VerifyKind, ...] = (
    VerifyKind(Kind.FILES, FilesCheck),
    VerifyKind(Kind.COLUMN_STATS, column_stats.start),
    VerifyKind(Kind.PARTITION_STATS, partition_stats.start),
    VerifyKind(Kind.BLOOM_FILTERS, bloom_filters.start),
    VerifyKind(Kind.RECORD_INDEX, record_index.start),
    VerifyKind(Kind.SECONDARY_INDEX, secondary_index.start),
    VerifyKind(Kind.EXPRESSION_INDEX, expression_index.start),
)
