"""Another number of file groups for the record index, beside writers.

The work is done under the table's lock, which writers hold only when they begin and commit. A write
of lakedex that goes on meanwhile finds records in the old file groups, or gets a conflict and is
tried again; when it commits, its keys go to the file groups that are there then.
"""

from __future__ import annotations

from lakedex.engine import Engine
from lakedex.errors import CommitConflict, InvalidInput
from lakedex.index.metadata_table.resharding import finish_resharding, reshard_entries
from lakedex.index.registry import kind_name, reshardable_indexes
from lakedex.index.size_estimate import shards_for
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Action, Instant, State
from lakedex.txn.begin import locked_table
from lakedex.txn.heartbeat import SignsOfLife
from lakedex.txn.lock import open_lock
from lakedex.txn.recovery import recover
from lakedex.txn.transaction import TransactionOptions
from lakedex.write.assign import stored_rows
from lakedex.write.verbs import TableWriter
from lakedex.write.write_target import Target

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
    name = kind_name(index)
    if name not in reshardable_indexes():
        known = ", ".join(sorted(reshardable_indexes()))
        raise InvalidInput(f"only the {known} can be resharded, not {index!r}")
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
        finish_resharding(address, engine, name, next_time=table.next_time)
        reshard_entries(address, engine, name, file_groups, next_time=table.next_time)


def reshard_if_due(writer: TableWriter, target: Target) -> int | None:
    """Reshard a record index whose number of file groups is off by four times or more.

    The right number is the one that an index of as many rows would be built with. A record index
    that is kept by partition stays as it is.

    Returns:
        The new number of file groups; None where nothing was to be done.
    """
    snapshot = writer.snapshot()
    for name in sorted(reshardable_indexes().intersection(snapshot.config.metadata_partitions)):
        definition = snapshot.definitions.get(name)
        if snapshot.metadata is None or (definition and definition.is_partitioned):
            continue
        present = len(snapshot.metadata.groups(name))
        bounds = target.options.metadata.record_index_groups
        room = target.options.metadata.record_index_room
        wanted = shards_for(stored_rows(snapshot), *bounds, partitioned=False, room=room)
        if present and (present >= _FAR_OFF * wanted or wanted >= _FAR_OFF * present):
            reshard_index(writer.address, writer.engine, name, wanted, target.patience)
            return wanted
    return None


def _is_only_planned(pending: Instant) -> bool:
    """Whether a plan has not begun to run: it has put no keys anywhere yet."""
    return pending.state is State.REQUESTED and pending.action in _PLANNED
