"""The worker of the write stage: file groups in, data files out.

A task may be run again: it then writes the same files once more, byte by byte.
"""

from __future__ import annotations

import time
from dataclasses import replace

from lakedex.index.column_ranges import ColumnRanges
from lakedex.index.file_index.maintenance import FileIndexCollector
from lakedex.index.kinds.expression.collect import ExpressionCollector
from lakedex.schema import parse_avro_record
from lakedex.write.handles.base_group import write_base
from lakedex.write.handles.before_images import OldValues
from lakedex.write.handles.duplicate_keys import StayingKeys
from lakedex.write.handles.incoming import IncomingReader
from lakedex.write.handles.log_group import write_log
from lakedex.write.handles.notes import NoteTaker, PairTaker
from lakedex.write.handles.publishing import Publisher
from lakedex.write.handles.work import TaskResult, WriteTask


def write_groups(task: WriteTask) -> TaskResult:
    """Write the files of a task's groups.

    Raises:
        CommitConflict: the write has ended meanwhile; no new file was left in the table.
    """
    started = time.perf_counter()
    facts = task.facts
    context = facts.read_context()
    storage = context.storage
    publisher = Publisher(facts, storage, files=len(task.groups))
    reader = IncomingReader(task, storage)
    avro = parse_avro_record(facts.schema_text)
    ranges = ColumnRanges(facts.stat_columns, facts.schema)
    expressions = ExpressionCollector(facts.expressions)
    file_indexes = FileIndexCollector(storage, facts.file_indexes)
    notes, pairs = NoteTaker(task), PairTaker(facts, storage)
    old, staying = OldValues(facts, context), StayingKeys(facts, context, notes, pairs)
    files, blooms = [], []
    for group in task.groups:
        publisher.reserve(group)
        incoming = reader.read(group)
        if group.is_log:
            outcome = write_log(facts, avro, context, publisher, group, incoming)
        else:
            outcome = write_base(facts, context, publisher, group, incoming)
        if not group.is_copy:
            staying.tell(group, incoming, outcome)
        if outcome is None:
            continue
        files.append(outcome.file)
        ranges.add(group.partition, outcome.file.name, outcome.rows, outcome.sizes)
        expressions.add(group.partition, outcome.file.name, outcome.rows, outcome.file.size)
        file_indexes.add(group.partition, outcome.file.name, outcome.rows, outcome.file.size)
        notes.add(group, outcome.added, is_delete=False)
        notes.add(group, outcome.gone, is_delete=True)
        if outcome.changed is not None:
            pairs.add(replace(outcome.changed, place=group.id))
        if outcome.unread is not None:
            pairs.add_all(old.add(group, outcome.unread))
        if outcome.bloom is not None:
            blooms.append(outcome.bloom)
    pairs.add_all(old.finish())
    publisher.finish()
    file_indexes.finish()
    return TaskResult(
        files=tuple(files),
        statistics=ranges.tables(),
        blooms=tuple(blooms),
        notes=notes.put_out(storage),
        pairs=pairs.finish(),
        expressions=expressions.notes(),
        seconds=time.perf_counter() - started,
    )
