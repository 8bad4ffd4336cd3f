"""Another number of file groups for the record index, beside writers.

The work is done under the table's lock, which writers hold only when they begin and commit. A write
of lakedex that goes on meanwhile finds records in the old file groups, or gets a conflict and is
tried again; when it commits, its keys go to the file groups that are there then.
"""

from __future__ import annotations

from lakedex.engine import Engine
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.index.metadata_table.resharding import finish_resharding, reshard_record_index
from lakedex.services.index_names import index_kind
from lakedex.storage.address import StorageAddress
from lakedex.timeline import Action, Instant, State
from lakedex.txn.begin import locked_table
from lakedex.txn.heartbeat import SignsOfLife
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import recover
from lakedex.txn.transaction import TransactionOptions
from lakedex.write.context import Target
from lakedex.write.metadata_plan import shards_for
from lakedex.write.row_size import stored_rows
from lakedex.write.verbs import TableWriter

RESHARDABLE = "record_index"
_FAR_OFF = 4
"""How many times too large or too small the number of file groups may be."""
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
        CommitConflict: A write of another engine goes on, which would put its keys into the old
            file groups; nothing was changed, try again.
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
        ours = SignsOfLife.load(storage, chosen.heartbeat).writers
        for instant in table.timeline().pending():
            if not _is_only_planned(instant) and instant.requested_time not in ours:
                time = instant.requested_time
                raise CommitConflict(
                    f"the write {time} of another engine goes on; reshard after it"
                )
        finish_resharding(address, engine, next_time=table.next_time)
        reshard_record_index(address, engine, file_groups, next_time=table.next_time)


def reshard_if_due(writer: TableWriter, target: Target) -> int | None:
    """Reshard a record index whose number of file groups is off by four times or more.

    The right number is the one that an index of as many rows would be built with. A record index
    that is kept by partition stays as it is.

    Returns:
        The new number of file groups; None where nothing was to be done.
    """
    snapshot = writer.snapshot()
    definition = snapshot.definitions.get(RESHARDABLE)
    is_live = RESHARDABLE in snapshot.config.metadata_partitions
    if not is_live or snapshot.metadata is None or (definition and definition.is_partitioned):
        return None
    present = len(snapshot.metadata.groups(RESHARDABLE))
    bounds = target.options.metadata.record_index_groups
    room = target.options.metadata.record_index_room
    wanted = shards_for(stored_rows(snapshot), *bounds, partitioned=False, room=room)
    if not present or (present < _FAR_OFF * wanted and wanted < _FAR_OFF * present):
        return None
    reshard_index(writer.address, writer.engine, RESHARDABLE, wanted, target.patience)
    return wanted


def _is_only_planned(pending: Instant) -> bool:
    """Whether nobody has begun to run a plan: it has put no keys anywhere yet."""
    return pending.state is State.REQUESTED and pending.action in _PLANNED
