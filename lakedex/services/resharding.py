"""Another number of file groups for an index, while nobody writes."""

from __future__ import annotations

from lakedex.engine import Engine
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.index.metadata_table.resharding import finish_resharding, reshard_record_index
from lakedex.services.index_names import index_kind
from lakedex.storage.address import StorageAddress
from lakedex.timeline import Action, Instant, State
from lakedex.txn.begin import locked_table
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import recover
from lakedex.txn.transaction import TransactionOptions

RESHARDABLE = "record_index"
_PLANNED = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)


def reshard_index(
    address: StorageAddress,
    engine: Engine,
    index: str,
    file_groups: int,
    options: TransactionOptions | None = None,
) -> None:
    """Give an index so many file groups, made from the index itself.

    Args:
        address: Where the table lies.
        engine: What runs the work.
        index: `record_index`; for one kept by partition, each partition gets that many.
        file_groups: How many.
        options: How patient to be with others.

    Raises:
        InvalidInput: The index is of another kind, or the number is less than one.
        IndexUnusable: The table has no such index.
        CommitConflict: A write goes on; nothing was changed, try again.
    """
    if index_kind(index) != RESHARDABLE:
        raise InvalidInput(f"only the {RESHARDABLE} can be resharded, not {index!r}")
    if isinstance(file_groups, bool) or not isinstance(file_groups, int):
        raise InvalidInput(f"the number of file groups is a whole number, not {file_groups!r}")
    chosen = options or TransactionOptions()
    storage = address.open()
    with open_lock(storage, chosen.lock) as lock:
        table = locked_table(storage, lock, chosen.heartbeat)
        recover(table)
        # A write that goes on has put its keys in the shards that are there now.
        going_on = [each for each in table.timeline().pending() if not _is_only_planned(each)]
        for instant in going_on:
            raise CommitConflict(f"the write {instant.requested_time} goes on; reshard after it")
        finish_resharding(address, engine, next_time=table.next_time)
        reshard_record_index(address, engine, file_groups, next_time=table.next_time)


def _is_only_planned(pending: Instant) -> bool:
    """Whether nobody has begun to run a plan: it has put no keys anywhere yet."""
    return pending.state is State.REQUESTED and pending.action in _PLANNED
