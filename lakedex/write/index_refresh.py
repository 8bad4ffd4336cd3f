"""Brings indexes up to date that writers do not maintain (`maintenance=async`).

Only file slices that the index does not cover are read, as they were when the write began: what
others commit meanwhile is not covered, and queries read it. Entries are added and none is removed,
so that it does not matter which of two refreshes comes last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lakedex.engine import Engine
from lakedex.errors import IndexUnusable
from lakedex.filegroup import FileSlice
from lakedex.index.answer import Mask
from lakedex.index.bitmap.definitions import PREFIX as BITMAP
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_bounds import slices_with_entries
from lakedex.index.secondary.coverage import covered_slices
from lakedex.index.secondary.pairs import PREFIX
from lakedex.index.written import ExpressionNotes, PairNotes
from lakedex.table import Snapshot
from lakedex.timeline.committed import CommittedInstants
from lakedex.write.bitmap_runs import unknown_slices
from lakedex.write.build_survey import SurveyWants, survey
from lakedex.write.facts import TableFacts
from lakedex.write.metadata_plan import MetadataPlan


@dataclass(frozen=True)
class NewerEntries:
    """What refreshed indexes get of the file slices that they did not cover."""

    pairs: Mapping[str, PairNotes] = field(default_factory=dict)
    expressions: Mapping[str, ExpressionNotes] = field(default_factory=dict)


def newer_slices(snapshot: Snapshot, definition: IndexDefinition) -> tuple[FileSlice, ...]:
    """The file slices of a snapshot that a secondary, expression or bitmap index does not cover.

    Raises:
        IndexUnusable: the metadata table cannot be read.
    """
    metadata = snapshot.metadata
    if metadata is None:
        raise IndexUnusable(
            f"the metadata table of {snapshot.config.name} cannot be read "
            f"({snapshot.metadata_problem}); `lakedex repair` builds it again"
        )
    slices = snapshot.slices
    if definition.name.startswith(BITMAP):
        return tuple(unknown_slices(snapshot, definition))
    covered: Mask
    if definition.name.startswith(PREFIX):
        covered = covered_slices(metadata, definition, snapshot.read_context, slices)
    else:
        covered = slices_with_entries(metadata, definition, slices)
    return tuple(slices[at] for at in np.flatnonzero(~covered).tolist())


def read_newer_slices(
    engine: Engine, facts: TableFacts, snapshot: Snapshot, plan: MetadataPlan
) -> NewerEntries:
    """Read what the refreshed indexes of a plan do not cover."""
    pairs: dict[str, PairNotes] = {}
    expressions: dict[str, ExpressionNotes] = {}
    seen = replace(facts, committed=CommittedInstants.of(snapshot.timeline))
    for target in plan.async_secondary:
        slices = newer_slices(snapshot, snapshot.definitions[target.name])
        found = survey(engine, seen, snapshot.history, slices, SurveyWants(secondary=(target,)))
        if target.name in found.pairs:
            pairs[target.name] = PairNotes(target.buckets, found.pairs[target.name])
    for computed in plan.async_expressions:
        slices = newer_slices(snapshot, computed.definition)
        wants = SurveyWants(expressions=(computed,))
        expressions |= survey(engine, seen, snapshot.history, slices, wants).expressions
    return NewerEntries(pairs, expressions)
