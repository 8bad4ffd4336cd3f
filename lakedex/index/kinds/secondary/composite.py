"""Secondary indexes on several columns, and whether all writers kept them up to date.

The key of an entry has the values of all columns before the record key: `austin$rider-A$key`. Hudi
would take a definition of two columns for one of a nested field, so it is not told of such an
index, and does not write to it. Every commit of lakedex therefore says which of them are right.
After a commit that says nothing they are not asked, until REFRESH INDEX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from lakedex.config.table_config import is_own_partition
from lakedex.index.definitions import BUILT_AFTER, IndexDefinition
from lakedex.index.kinds.secondary.pairs import SecondaryTarget
from lakedex.timeline import Timeline, newest_change, newest_note

_RIGHT = "lakedex.secondary.composite"


def _is_stamped(definition: IndexDefinition) -> bool:
    """Whether a definition names the write that its index was built after."""
    return definition.is_composite or definition.is_covering


def stamped(definition: IndexDefinition, timeline: Callable[[], Timeline]) -> IndexDefinition:
    """The definition of an index that is about to be built from what is committed now."""
    if not _is_stamped(definition):
        return definition
    options = {**definition.options, BUILT_AFTER: newest_change(timeline())}
    return replace(definition, options=options)


def right_composites(
    timeline: Timeline, definitions: Mapping[str, IndexDefinition]
) -> frozenset[str]:
    """The indexes on several columns that every write since their build has kept up to date."""
    known = {name: each for name, each in definitions.items() if each.is_composite}
    if not known:
        return frozenset()
    noted = (newest_note(timeline, _RIGHT) or "").split(",")
    newest = newest_change(timeline)
    return frozenset(
        name
        for name, each in known.items()
        if name in noted or each.options.get(BUILT_AFTER) == newest
    )


def composites_behind(
    timeline: Timeline, definitions: Mapping[str, IndexDefinition]
) -> frozenset[str]:
    """Those that are not asked, as another engine wrote to the table and not to them."""
    known = (name for name, each in definitions.items() if each.is_composite)
    return frozenset(known) - right_composites(timeline, definitions)


def composite_note(
    targets: Sequence[SecondaryTarget],
    new: Iterable[SecondaryTarget],
    timeline: Timeline,
    definitions: Mapping[str, IndexDefinition],
) -> dict[str, str]:
    """What a commit says of the indexes on several columns that are right after it.

    Those are the ones that it builds, and those that were right before it.

    Args:
        targets: The indexes that the commit keeps up to date.
        new: Those that it builds.
        timeline: The table's timeline just before the commit.
        definitions: The table's index definitions at that time.
    """
    kept = {each.name for each in targets if is_own_partition(each.name)}
    if kept:
        kept &= right_composites(timeline, definitions)
    right = sorted(kept.union(each.name for each in new if is_own_partition(each.name)))
    return {_RIGHT: ",".join(right)} if right else {}


def kept_note(timeline: Timeline, definitions: Mapping[str, IndexDefinition]) -> dict[str, str]:
    """What a commit without rows says: those that were right before it are so after it."""
    right = sorted(right_composites(timeline, definitions))
    return {_RIGHT: ",".join(right)} if right else {}
