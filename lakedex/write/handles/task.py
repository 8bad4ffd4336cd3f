"""The worker of the write stage: file groups in, data files out.

A task may be run again: it then writes the same files once more, byte by byte.
"""

from __future__ import annotations

import time
from dataclasses import replace

from lakedex.schema import parse_avro_record
from lakedex.write.handles.base_group import write_base
from lakedex.write.handles.before_images import BeforeImages
from lakedex.write.handles.duplicate_keys import DuplicateKeys
from lakedex.write.handles.incoming import IncomingReader
from lakedex.write.handles.log_group import write_log
from lakedex.write.handles.notes import KeyNotes
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
    indexes = facts.collectors(storage)
    keys, images = KeyNotes(task), BeforeImages(facts, context)
    duplicates = DuplicateKeys(facts, context, keys, indexes)
    files = []
    for group in task.groups:
        publisher.reserve(group)
        incoming = reader.read(group)
        if group.is_log:
            outcome = write_log(facts, avro, context, publisher, group, incoming)
        else:
            outcome = write_base(facts, context, publisher, group, incoming)
        if not group.is_copy:
            duplicates.note(group, incoming, outcome)
        if outcome is None:
            continue
        for written in (outcome, *outcome.named):
            files.append(written.file)
            indexes.add_file(written.file_rows)
        keys.add(group, outcome.added, is_delete=False)
        keys.add(group, outcome.gone, is_delete=True)
        if outcome.changed is not None:
            indexes.add_rows(replace(outcome.changed, place=group.id))
        if outcome.unread is not None:
            for changed in images.add(group, outcome.unread):
                indexes.add_rows(changed)
    for changed in images.finish():
        indexes.add_rows(changed)
    publisher.finish()
    return TaskResult(
        files=tuple(files),
        notes=keys.spill(storage),
        index_notes=indexes.finish(),
        seconds=time.perf_counter() - started,
    )
