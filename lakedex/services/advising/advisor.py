"""Looks at what was counted of a table, and proposes."""

from __future__ import annotations

from collections.abc import Sequence

from lakedex.prune.usage import TableUsage
from lakedex.services.advising.advice import Advice, AdvisedTable, Proposal, ranked
from lakedex.services.advising.creating import create_proposals
from lakedex.services.advising.dropping import drop_proposals
from lakedex.table import Snapshot


def advise_table(snapshot: Snapshot, usage: TableUsage, name: str) -> Advice:
    """What to create and to drop, judging by the queries that were counted.

    Args:
        snapshot: The table; samples of its data are read.
        usage: What was counted.
        name: What statements call the table.
    """
    table = AdvisedTable(snapshot, usage, name)
    if not usage.scans:
        note = f"{name}: no query with a predicate was counted yet"
        return Advice((), (note,))
    found = list(create_proposals(table))
    notes = [each for each in found if isinstance(each, str)]
    proposals = [each for each in found if isinstance(each, Proposal)]
    proposals += drop_proposals(table)
    return Advice(ranked(proposals), tuple(notes))


def joined_advice(parts: Sequence[Advice]) -> Advice:
    """The advice of several tables, ranked together.

    Example:
        >>> print(joined_advice([Advice((), ("trips: nothing was counted",))]))
        no index to create or to drop
        note: trips: nothing was counted
    """
    proposals = [each for part in parts for each in part.proposals]
    return Advice(ranked(proposals), tuple(note for part in parts for note in part.notes))
