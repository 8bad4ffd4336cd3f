"""Indexes of record keys that do not exist: which file slices they would leave for a query.

Bloom filters of record keys answer the same predicates, so that both kinds are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import RECORD_KEY, FileSlice
from lakedex.index.contract import NEWEST_ONLY
from lakedex.index.kinds.record_index.lookup import record_keys
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.sampling import rows_of_slices
from lakedex.index.what_if import HypotheticalIndex, Sampled, WhatIfQuery


def what_if(
    kind: MetadataIndexKind, columns: tuple[str, ...], schema: pa.Schema
) -> HypotheticalIndex:
    """An index of record keys."""
    del columns, schema
    return HypotheticalKeys(kind.kind, kind.describes_files)


@dataclass(frozen=True, slots=True)
class HypotheticalKeys:
    """A record index, or bloom filters of record keys."""

    kind: str
    describes_files: bool
    """Whether it describes base files: then it serves older snapshots, and keeps log files."""
    lookups: int = 1

    @property
    def name(self) -> str:
        """The kind, as tables have it once."""
        return self.kind

    def why_not(self, query: WhatIfQuery) -> str | None:
        """They answer `=` and IN on the record key."""
        if query.is_live(self.kind):
            return "the table has it already"
        keys = record_keys(query.predicate, query.read)
        if isinstance(keys, str):
            return keys
        is_located = self.describes_files or query.is_latest
        return None if is_located else NEWEST_ONLY

    def sample(self, query: WhatIfQuery, slices: Sequence[FileSlice], share: float) -> Sampled:
        """The slices that hold one of the keys; a filter says nothing about log files."""
        keys = record_keys(query.predicate, query.read)
        values = pa.array([] if isinstance(keys, str) else keys, pa.string())
        keep = np.zeros(len(slices), dtype=np.bool_)
        for number, rows in enumerate(rows_of_slices(query.read, slices, [RECORD_KEY])):
            keep[number] = bool(pc.any(pc.is_in(rows[RECORD_KEY], value_set=values)).as_py())
        typical = float(len(values))
        if self.describes_files:
            logged = np.array([bool(each.logs) for each in slices], dtype=np.bool_)
            keep |= logged
            typical += int(logged.sum()) / share
        reason = f"{len(values)} keys asked"
        return Sampled(keep, typical if share < 1 else None, reason)
