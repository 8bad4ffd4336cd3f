"""Brings indexes up to date that writers do not maintain (`maintenance=async`).

Only file slices that the index does not cover are read, as they were when the write began: what
others commit meanwhile is not covered, and queries read it. Entries are added and none is removed,
so that it does not matter which of two refreshes comes last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakedex.engine import Engine
from lakedex.index.written import ExpressionNotes, PairNotes
from lakedex.table import Snapshot
from lakedex.table.index_coverage import newer_slices
from lakedex.timeline.committed import CommittedInstants
from lakedex.write.build_survey import SurveyWants, survey
from lakedex.write.facts import TableFacts
from lakedex.write.metadata_plan import MetadataPlan


@dataclass(frozen=True)
class NewerEntries:
    """What refreshed indexes get of the file slices that they did not cover."""

    pairs: Mapping[str, PairNotes] = field(default_factory=dict)
    expressions: Mapping[str, ExpressionNotes] = field(default_factory=dict)


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
