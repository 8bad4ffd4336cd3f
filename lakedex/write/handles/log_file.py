"""Writes a log file of a file group: one block with new versions of rows, one with deletes.

A log file takes whatever is given; a reader finds out which version wins. Indexes note the winners,
so where these are not plain the group is read as a reader would, before and after.
Indexes of rows need the old values too; `BeforeImages` reads those of many groups together.

Beside a resize of buckets the log file may be a virtual one: the rows go to log files of the new
buckets, and it names them. For readers and indexes all rows are in it nevertheless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup import (
    FileSlice,
    LogFile,
    ReadContext,
    log_file_name,
    parse_data_file,
    read_slice,
)
from lakedex.format.logfile import (
    BlockKind,
    HeaderKey,
    NamedLog,
    encode_avro_content,
    encode_avro_contents,
    encode_block,
    encode_delete_content,
    encode_virtual_content,
)
from lakedex.index.kinds.bucket.hashes import hash_keys
from lakedex.index.maintenance import ChangedRows
from lakedex.schema import AvroRecord
from lakedex.timeline.timeline import CommittedInstants
from lakedex.write.context import WriteContext
from lakedex.write.handles.incoming import (
    Incoming,
    Mask,
    Outcome,
    with_file_name,
    with_file_names,
    without_meta_values,
)
from lakedex.write.handles.publishing import Publisher
from lakedex.write.handles.work import GroupWork, NewBuckets, WrittenFile
from lakedex.write.rows import KEY


@dataclass(frozen=True)
class _Effect:
    """What a log file does to its group, as masks over the incoming rows."""

    adds: Mask
    updates: Mask
    deletes: Mask
    changed: ChangedRows | None


def write_log(
    facts: WriteContext,
    avro: AvroRecord,
    context: ReadContext,
    publisher: Publisher,
    group: GroupWork,
    incoming: Incoming,
) -> Outcome | None:
    """Write the log file; None when there is nothing to say."""
    # A delete of a record that is not there costs readers time, and worse: a conditional one takes
    # the place of an earlier delete, and an older row of the base file may then win against it.
    is_absent = (incoming.is_removal | incoming.is_flagged) & ~incoming.is_live
    is_delete = incoming.is_removal & ~is_absent
    is_row = ~incoming.is_removal & ~is_absent
    if not (is_delete.any() or is_row.any()):
        return None
    rows = with_file_name(incoming.rows.filter(pa.array(is_row)), group.file_id)
    keys, is_new = incoming.keys, incoming.is_new
    named: tuple[Outcome, ...] = ()
    if group.new_buckets is None:
        data = _encode(facts, avro, group, rows, keys.filter(pa.array(is_delete)))
    else:
        changes = _Effect(is_new, is_row & ~is_new, is_delete, None)
        named = tuple(
            _write_new_buckets(facts, avro, publisher, group, group.new_buckets, incoming, changes)
        )
        data = _encode_virtual(facts, [each.file for each in named])
    size = publisher.publish(group, data)
    if (is_absent | is_new | (incoming.is_live & ~incoming.is_flagged)).all():
        effect = _Effect(is_new, is_row & ~is_new, is_delete, None)
        unread = incoming if facts.needs_changed_rows and not group.is_copy else None
    elif facts.takes_for_live or group.is_copy:
        is_flagged = is_row & incoming.is_flagged
        updates = is_row & ~is_new & ~incoming.is_flagged
        effect, unread = _Effect(is_new, updates, is_delete | is_flagged, None), None
    else:
        effect = _read_effect(facts, context, group, incoming, size)
        unread = None
    file = WrittenFile(
        partition=group.partition,
        file_id=group.file_id,
        name=group.file_name,
        is_log=True,
        size=size,
        previous_base=None,
        prev_commit=facts.instant,
        num_writes=rows.num_rows,
        num_inserts=int(effect.adds.sum()),
        num_updates=int(effect.updates.sum()),
        num_deletes=int(effect.deletes.sum()),
        is_copy=group.is_copy,
    )
    if group.is_copy:
        return Outcome(file, rows, {}, keys.slice(0, 0), keys.slice(0, 0))
    added, gone = (keys.filter(pa.array(mask)) for mask in (effect.adds, effect.deletes))
    return Outcome(file, rows, {}, added, gone, changed=effect.changed, unread=unread, named=named)


def _write_new_buckets(
    facts: WriteContext,
    avro: AvroRecord,
    publisher: Publisher,
    group: GroupWork,
    target: NewBuckets,
    incoming: Incoming,
    changes: _Effect,
) -> Iterator[Outcome]:
    """Write a log file for each of the new buckets that changed rows of a file group go to."""
    hashes = target.buckets.hashes(hash_keys(incoming.keys, target.fields))
    is_row = changes.adds | changes.updates
    buckets, place = target.buckets.hit(hashes[is_row | changes.deletes])
    names = target.buckets.group_names(buckets)
    place_of = np.zeros(len(hashes), dtype=np.int64)
    place_of[is_row | changes.deletes] = place
    chosen = np.flatnonzero(is_row)
    chosen = chosen[np.argsort(place_of[chosen], kind="stable")]
    counts = np.bincount(place_of[chosen], minlength=len(buckets)).tolist()
    rows = with_file_names(incoming.rows.take(pa.array(chosen)), names.take(place_of[chosen]))
    contents = encode_avro_contents(avro, _as_stored(facts, rows), counts)
    starts = np.cumsum([0, *counts]).tolist()
    for number, file_id in enumerate(names.to_pylist()):
        is_own = place_of == number
        is_delete = changes.deletes & is_own
        deletes = incoming.keys.filter(pa.array(is_delete))
        name = log_file_name(file_id, target.resize, target.versions[file_id], target.token)
        work = replace(
            group, file_id=file_id, current=None, file_name=name, is_copy=True, new_buckets=None
        )
        data = _blocks(facts, work, contents[number] if counts[number] else None, deletes)
        is_flagged = is_row & is_own & incoming.is_flagged
        file = WrittenFile(
            partition=work.partition,
            file_id=file_id,
            name=name,
            is_log=True,
            size=publisher.publish(work, data),
            previous_base=None,
            prev_commit=facts.instant,
            num_writes=counts[number],
            num_inserts=int((changes.adds & is_own).sum()),
            num_updates=int((changes.updates & is_own & ~is_flagged).sum()),
            num_deletes=int((is_delete | is_flagged).sum()),
            is_copy=True,
        )
        own = rows.slice(starts[number], counts[number])
        yield Outcome(file, own, {}, deletes.slice(0, 0), deletes.slice(0, 0))


def _encode_virtual(facts: WriteContext, files: Sequence[WrittenFile]) -> bytes:
    content = encode_virtual_content([NamedLog(each.name, each.size) for each in files])
    header = {HeaderKey.INSTANT_TIME: facts.instant, HeaderKey.SCHEMA: facts.schema_text}
    return encode_block(BlockKind.VIRTUAL, header, content)


def _encode(
    facts: WriteContext, avro: AvroRecord, group: GroupWork, rows: pa.Table, deletes: pa.Array
) -> bytes:
    content = encode_avro_content(avro, _as_stored(facts, rows)) if rows.num_rows else None
    return _blocks(facts, group, content, deletes)


def _as_stored(facts: WriteContext, rows: pa.Table) -> pa.Table:
    if not facts.config.populate_meta_fields:
        rows = without_meta_values(rows)
    return facts.in_file(rows)


def _blocks(
    facts: WriteContext, group: GroupWork, content: bytes | None, deletes: pa.Array
) -> bytes:
    header = {HeaderKey.INSTANT_TIME: facts.instant, HeaderKey.SCHEMA: facts.schema_text}
    blocks = []
    if content is not None:
        blocks.append(encode_block(BlockKind.AVRO_DATA, header, content))
    if len(deletes):
        places = pa.repeat(pa.scalar(group.partition, pa.string()), len(deletes))
        content = encode_delete_content(deletes, places, None)
        blocks.append(encode_block(BlockKind.DELETE, header, content))
    return b"".join(blocks)


def _read_effect(
    facts: WriteContext, context: ReadContext, group: GroupWork, incoming: Incoming, size: int
) -> _Effect:
    """What a reader sees of the incoming keys without the new log file and with it."""
    keys = incoming.keys
    before = rows_of(context, _current(facts, group), keys, noted_columns(facts))
    after = rows_after_log(facts, context, group, size, keys)
    was, is_there = _present(before, keys), _present(after, keys)
    is_version = ~incoming.is_removal & ~incoming.is_flagged
    return _Effect(
        is_there & ~was,
        was & is_version,
        was & ~is_there,
        ChangedRows(before, after) if facts.needs_changed_rows else None,
    )


def rows_after_log(
    facts: WriteContext, context: ReadContext, group: GroupWork, size: int, keys: pa.Array
) -> pa.Table:
    """The rows of some keys as a reader finds them once the write is committed."""
    log = parse_data_file(group.file_name, size)
    if not isinstance(log, LogFile):
        raise TypeError(f"{group.file_name} is no name of a log file")
    known, old = facts.committed, _current(facts, group)
    reading = replace(
        context,
        is_committed=CommittedInstants(known.times | {facts.instant}, known.first_active),
    )
    return rows_of(reading, replace(old, logs=(*old.logs, log)), keys, noted_columns(facts))


def _current(facts: WriteContext, group: GroupWork) -> FileSlice:
    if group.current is not None:
        return group.current
    return FileSlice(group.partition, group.file_id, facts.instant, None)


def noted_columns(facts: WriteContext) -> list[str]:
    """The columns that indexes of rows need, and the key."""
    return list(dict.fromkeys([KEY, *facts.row_columns]))


def rows_of(
    context: ReadContext, file_slice: FileSlice, keys: pa.Array, columns: list[str]
) -> pa.Table:
    """The rows of some keys as a reader of the slice finds them."""
    found = (
        rows.filter(pc.is_in(rows[KEY], value_set=keys))
        for rows in read_slice(context, file_slice, columns)
    )
    return pa.concat_tables([context.target(columns).empty_table(), *found])


def _present(rows: pa.Table, keys: pa.Array) -> Mask:
    """Which keys have a row."""
    found = pc.is_in(keys, value_set=rows[KEY])
    return found.to_numpy(zero_copy_only=False).astype(np.bool_)
