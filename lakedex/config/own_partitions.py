"""Metadata partitions that lakedex alone knows: Hudi must neither write to them nor ask them.

They lie in the metadata table like all others, but stand in a list of their own among the table's
properties. Hudi keeps that property as it is, and takes no notice of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

COMPOSITE_PREFIX: Final = "secondary_index_composite-"
"""How the partition of a secondary index on several columns begins: no name that an index is given
has such a mark, so that none is taken for one of these."""
OWN_EXPRESSION_PREFIX: Final = "expr_index_own-"
"""The same of an index on an expression that Hudi has no name for."""
ASYNC_SECONDARY_PREFIX: Final = "secondary_index_async-"
"""The same of a secondary index that writers do not maintain: Hudi would take it for complete."""


def is_own_partition(name: str) -> bool:
    """Whether a metadata partition is one that other engines do not know.

    Example:
        >>> is_own_partition("secondary_index_composite-i"), is_own_partition("secondary_index_i")
        (True, False)
    """
    return name.startswith((COMPOSITE_PREFIX, OWN_EXPRESSION_PREFIX, ASYNC_SECONDARY_PREFIX))


def split_partitions(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Metadata partitions that all engines know, and those that lakedex alone does.

    Example:
        >>> split_partitions(["files", "secondary_index_composite-i"])
        (['files'], ['secondary_index_composite-i'])
    """
    listed = [name for name in names if name]
    own = [name for name in listed if is_own_partition(name)]
    return [name for name in listed if not is_own_partition(name)], own
