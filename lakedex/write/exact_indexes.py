"""Which indexes of keys have the entry of every row after a write, so that readers need not count.

Where the record index had every row before, a write that looked its keys up in it adds none that
is there already. Secondary indexes follow it: what a row's old pair was is known by its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakedex.index.metadata_table.deltacommit import ExactRule
from lakedex.timeline import Timeline
from lakedex.write.metadata_plan import RECORD_INDEX, MetadataPlan
from lakedex.write.unique_keys import AddedKeys


@dataclass(frozen=True, slots=True)
class AddedRows:
    """What a write that goes by the record index knows of its rows when it commits."""

    keys: AddedKeys
    inserted: int
    """How many rows it adds."""
    is_alone: bool
    """Whether no other rows are in the table."""
    was_first: bool
    """Whether nobody has committed since the write began."""
    were_compared: bool
    """Whether its keys were held against those that others inserted meanwhile."""

    def leave_exact(self, entries: int, *, was_exact: bool) -> bool:
        """Whether the record index has the entry of every row afterwards.

        Args:
            entries: How many entries the write adds or changes; each is of another key.
            was_exact: Whether the index had every row before.
        """
        if self.is_alone:
            return entries == self.inserted
        if not self.keys.looked_up:
            return False
        if self.keys.counted_unique and self.was_first:
            return True
        return was_exact and (self.was_first or self.were_compared or not self.inserted)


def exact_rule(
    timeline: Timeline,
    plan: MetadataPlan,
    *,
    built: frozenset[str],
    added: AddedRows | None,
    moves_only: bool,
) -> ExactRule:
    """By what the commit of a write knows which indexes have every row.

    Args:
        timeline: The table's timeline just before the commit.
        plan: The indexes that the write keeps up to date.
        built: Those that it has made, and that had every row then.
        added: The rows that it adds; None where it does not go by the record index.
        moves_only: Whether it adds and removes no row.
    """
    secondary = {each.name for each in (*plan.secondary, *plan.new_secondary)}

    def after(before: frozenset[str], written: Mapping[str, int]) -> frozenset[str]:
        if not plan.has_record_index:
            return frozenset()
        known = before | built
        was_exact = RECORD_INDEX in known
        if moves_only:
            return known if was_exact else frozenset()
        if added is None or not added.leave_exact(
            written.get(RECORD_INDEX, 0), was_exact=was_exact
        ):
            return frozenset()
        kept = secondary if added.is_alone else known & secondary
        return frozenset({RECORD_INDEX, *kept})

    return ExactRule(timeline, after)
