"""Services that are due after a commit: metadata compaction, cleaning and archiving.

Whether one is due follows from the timelines alone. A commit hands them on as it left them, so that
most commits end here without a call of the store; a service loads them again under the lock.
"""

from __future__ import annotations

import logging

from lakedex.errors import LakedexError
from lakedex.index.metadata_table.compaction import (
    compact_if_due,
    is_compaction_due,
    log_compact_if_due,
)
from lakedex.timeline import Action, Instant, State, Timeline
from lakedex.txn.begin import locked_table
from lakedex.txn.lock import open_lock
from lakedex.upkeep import archiving, cleaning
from lakedex.upkeep.cleaning import clean_metadata_table
from lakedex.write.commit import CommittedTable
from lakedex.write.write_target import Target

log = logging.getLogger("lakedex")


def run_due_services(target: Target, committed: CommittedTable | None = None) -> None:
    """Run the services that are due after a commit by Hudi's options, in Hudi's order.

    The metadata table is compacted, then the table is cleaned, then its timeline is archived: an
    instant is archived only when the two before it no longer need it. The write is committed by
    now, so an error is logged, and the next write tries again.

    Args:
        target: The table.
        committed: Its timelines as the commit left them. When they show that nothing is due, the
            lock is not taken. Without them they are loaded under the lock.
    """
    options = target.options
    try:
        if committed is not None and not _is_due(target, committed):
            return
        timeline = _compact_metadata(target)
        storage = target.address.open()
        if options.cleaning.automatic and cleaning.is_due(
            target.address, timeline, options.cleaning
        ):
            cleaning.clean(target.address, options.cleaning, target.patience)
        if options.archiving.automatic and archiving.is_due(storage, timeline, options.archiving):
            with open_lock(storage, target.patience.lock) as lock:
                table = locked_table(storage, lock, target.patience.heartbeat)
                archiving.archive(table, options.archiving, options.cleaning)
    except LakedexError as error:
        log.warning("the services after a commit failed: %s", error)


def _is_due(target: Target, committed: CommittedTable) -> bool:
    """Whether timelines show that a service is due, or that one was cut short."""
    options, storage = target.options, target.address.open()
    data, metadata = committed.data, committed.metadata
    return (
        options.metadata.log_compact_after is not None  # the number of blocks is not on a timeline
        or bool(metadata.pending())
        or is_compaction_due(
            metadata,
            data,
            max_delta_commits=options.metadata.compact_after,
            has_pending=any(map(_may_be_taken_back, data.pending())),
        )
        or (options.cleaning.automatic and cleaning.is_due(target.address, data, options.cleaning))
        or (options.archiving.automatic and archiving.is_due(storage, data, options.archiving))
    )


def _compact_metadata(target: Target) -> Timeline:
    """Compact the metadata table if that is due; the timeline as it is under the lock."""
    storage, options = target.address.open(), target.patience
    with open_lock(storage, options.lock) as lock:
        table = locked_table(storage, lock, options.heartbeat)
        timeline = table.timeline()
        compacted = compact_if_due(
            target.address,
            target.engine,
            max_delta_commits=target.options.metadata.compact_after,
            next_time=table.next_time,
            has_pending=any(map(_may_be_taken_back, timeline.pending())),
        )
        blocks = target.options.metadata.log_compact_after
        if compacted is None and table.metadata and table.metadata.pending_of(Action.CLEAN):
            clean_metadata_table(table)  # a dead writer left it
        if compacted is not None:
            log.info("compacted the metadata table at %s", compacted)
            clean_metadata_table(table)
            archiving.archive_metadata(table, target.options.archiving)
        elif blocks is not None:
            log_compact_if_due(
                target.address, target.engine, most_blocks=blocks, next_time=table.next_time
            )
    return timeline


def _may_be_taken_back(pending: Instant) -> bool:
    """Whether an instant may have metadata soon; a plan that is not running has none (case B44)."""
    plans = (Action.COMPACTION, Action.CLUSTERING)
    return not (pending.state is State.REQUESTED and pending.action in plans)
