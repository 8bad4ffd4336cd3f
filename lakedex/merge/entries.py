"""What log blocks say about records: versions and deletes, in the order of their arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of log blocks in the order in which they arrived; all members are equally long."""

    keys: pa.Array
    ordering: tuple[pa.Array, ...]
    """One array for each ordering field, without nulls; empty for commit-time ordering."""
    is_delete: Mask
    is_unconditional: Mask
    """Deletes that carry no ordering value."""
    is_tombstone: Mask
    """Deletes that come from a delete block, not from a data record that is marked deleted."""
    has_column: Mapping[str, Mask] = field(default_factory=dict)
    """For columns that partial updates leave out: the entries that have them."""
