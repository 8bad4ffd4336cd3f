"""What is due after a commit: compaction of the metadata table, or of its log blocks alone."""

from __future__ import annotations

import logging

from lakedex.errors import LakedexError
from lakedex.index.metadata_table.compaction import compact_if_due
from lakedex.index.metadata_table.log_compaction import log_compact_if_due
from lakedex.timeline import Action, Instant, State
from lakedex.txn.begin import locked_table
from lakedex.txn.lock import open_lock
from lakedex.write.taking import Target

log = logging.getLogger("lakedex")


def compact_metadata(target: Target) -> None:
    """Compact the metadata table after as many commits as the table says.

    The write is committed by now: what goes wrong here is told and left to the next write.
    """
    storage, options = target.address.open(), target.patience
    try:
        with open_lock(storage, options.lock) as lock:
            table = locked_table(storage, lock, options.heartbeat)
            instant = compact_if_due(
                target.address,
                target.engine,
                max_delta_commits=target.options.metadata.compact_after,
                next_time=table.next_time,
                has_pending=any(map(_may_be_taken_back, table.timeline().pending())),
            )
            blocks = target.options.metadata.log_compact_after
            if instant is None and blocks is not None:
                log_compact_if_due(
                    target.address, target.engine, most_blocks=blocks, next_time=table.next_time
                )
    except LakedexError as error:
        log.warning("the metadata table was not compacted: %s", error)
        return
    if instant is not None:
        log.info("compacted the metadata table at %s", instant)


def _may_be_taken_back(pending: Instant) -> bool:
    """Whether an instant may have metadata soon; a plan that nobody runs has none. # traps: B44."""
    plans = (Action.COMPACTION, Action.CLUSTERING)
    return not (pending.state is State.REQUESTED and pending.action in plans)
