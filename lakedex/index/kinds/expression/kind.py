"""Expression indexes as a kind of index."""

from __future__ import annotations

from lakedex.config.own_partitions import OWN_EXPRESSION_PREFIX
from lakedex.index.kinds.expression.lookup import ExpressionIndex
from lakedex.index.kinds.expression.target import PREFIX
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind


class ExpressionKind(ExpressionIndex, MetadataIndexKind):
    """Expression indexes as a kind of index."""

    partition = Kind.EXPRESSION_INDEX
    prefixes = (OWN_EXPRESSION_PREFIX, PREFIX)
    serves_queries_only = True
