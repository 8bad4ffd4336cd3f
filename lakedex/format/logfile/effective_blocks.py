"""Determines which blocks of a file slice are valid, and in which order they apply.

1. Torn blocks, and blocks of instants that are not committed, are ignored.
2. A rollback command removes the *earlier* blocks of its target. Blocks of an instant that is
   reused after its rollback stay.
3. A log-compacted block names the instants whose blocks it replaces. It takes the position of the
   last of them, so that blocks written between them and it still win over it. A later compacted
   block may replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lakedex.format.logfile.block import BlockKind, LogBlock

# A compacted block takes the position of a plain block that it replaces, if there is one left, else
# that of a compacted block that it replaces, else its own.
_OWN, _COMPACTED_AGAIN, _PLAIN = range(3)


def effective_blocks(
    blocks: Iterable[LogBlock], *, is_committed: Callable[[str], bool]
) -> list[LogBlock]:
    """The blocks to merge, oldest first, from all blocks of a slice in order."""
    return _after_log_compaction(_after_rollbacks(blocks, is_committed))


def _after_rollbacks(
    blocks: Iterable[LogBlock], is_committed: Callable[[str], bool]
) -> dict[str, list[LogBlock]]:
    """The committed blocks that no rollback removed, by instant, in order of occurrence."""
    kept: dict[str, list[LogBlock]] = {}
    committed: dict[str, bool] = {}
    for block in blocks:
        if block.kind is BlockKind.COMMAND:
            block.check_rollback()
            kept.pop(block.target_instant_time, None)
        elif block.kind.holds_records:
            instant = block.instant_time
            if instant not in committed:
                committed[instant] = is_committed(instant)
            if committed[instant]:
                kept.setdefault(instant, []).append(block)
    return kept


def _after_log_compaction(by_instant: dict[str, list[LogBlock]]) -> list[LogBlock]:
    """The blocks in order, compacted ones at the positions of those that they replace."""
    replaced_by: dict[str, str] = {}
    places: dict[str, tuple[int, int]] = {}
    for age, (instant, blocks) in enumerate(reversed(by_instant.items())):
        standing_in = replaced_by.get(instant, instant)
        replaces = {time for block in blocks for time in block.compacted_times} - {instant}
        for time in replaces:
            replaced_by.setdefault(time, standing_in)
        if not replaces:
            rank = _PLAIN
        elif instant != standing_in:
            rank = _COMPACTED_AGAIN
        else:
            rank = _OWN
        if standing_in not in places or rank > places[standing_in][0]:
            places[standing_in] = (rank, age)
    ordered = sorted(places, key=lambda instant: -places[instant][1])
    return [block for instant in ordered for block in by_instant[instant]]
