"""Repairs a secondary index: pairs of value and record key that are missing, or of no row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakedex.index.kinds.secondary.records import PAIR_SCHEMA
from lakedex.index.metadata_table.hashing import java_hashes
from lakedex.index.metadata_table.keys import placed_values_of_secondary
from lakedex.index.repair import RepairedTable
from lakedex.index.verification.findings import Problem, ProblemKind
from lakedex.index.written import CommitChanges, PairNotes


def repair(name: str, problems: Sequence[Problem], table: RepairedTable) -> CommitChanges:
    """The pairs to write and to delete."""
    definition = table.definitions[name]
    keys = pa.array([problem.key for problem in problems], pa.string())
    columns = len(definition.source_fields)
    placed = placed_values_of_secondary(keys, columns) if definition.is_placed_by_value else keys
    stale = [problem.kind is ProblemKind.STALE for problem in problems]
    # An entry that is no key of such an index may be in any group: it is not found, and stays.
    hashes = java_hashes(placed.fill_null(""))
    rows = pa.table([keys, pa.array(hashes), pa.array(stale)], PAIR_SCHEMA)
    return CommitChanges(notes={name: PairNotes(1, (table.spilled(rows),))})
