"""Finds keys of a write in file slices: the SIMPLE and BLOOM indexes and their global forms.

A worker reads the keys of its slices once and matches them with the keys of the write. The keys
of a slice are those of its base file and of its log files; a key of the base file that a log
deleted is there without being live, since a writer that looks at base files only would find it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config.write_index import WriteIndex
from lakedex.filegroup import RECORD_KEY, FileSlice, ReadContext
from lakedex.filegroup.log_changes import block_keys, slice_blocks
from lakedex.filegroup.stored_keys import StoredKeys, stored_keys
from lakedex.format.logfile import BlockKind
from lakedex.format.parquet.footer import read_footer
from lakedex.format.spill import Segment, SpillWriter
from lakedex.write.facts import TableFacts
from lakedex.write.tag.candidates import KeyQuestions
from lakedex.write.tag.hints import KeyRange, LookupTask, TaskFilters
from lakedex.write.tag.incoming import Incoming, incoming_keys
from lakedex.write.tag.places import PLACES, mask_of, positions_of

_BLOOMS = (WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM)
_MOST_TASK_BYTES = 256 << 20
_FILE_COST_BYTES = 256 << 10
_TASKS_PER_SLOT = 3

Matches = tuple[tuple[int, Segment], ...]


def lookup_tasks(slices: Sequence[FileSlice], parallelism: int) -> list[LookupTask]:
    """The slices in tasks of about equal work, a few for each slot; without hints yet."""
    costs = [file_slice.size_bytes + _FILE_COST_BYTES for file_slice in slices]
    most = min(_MOST_TASK_BYTES, sum(costs) // (_TASKS_PER_SLOT * parallelism) + 1)
    tasks: list[list[FileSlice]] = []
    room = 0
    for file_slice, cost in zip(slices, costs, strict=True):
        if room <= 0:
            tasks.append([])
            room = most
        tasks[-1].append(file_slice)
        room -= cost
    return [LookupTask(tuple(task), (KeyRange(),) * len(task)) for task in tasks]


def find_matches(
    facts: TableFacts,
    index: WriteIndex,
    buckets: Sequence[Sequence[Segment]],
    task: LookupTask,
) -> Matches:
    """Where keys of the write stand in the slices: spilled places, by bucket."""
    context = facts.read_context()
    slices, filters = task.slices, TaskFilters(context.storage, task.filters)
    spill = SpillWriter(context.storage, f"{facts.scratch}/places-{uuid.uuid4().hex}")
    stored: dict[int, StoredKeys] = {}
    found: list[tuple[int, Segment]] = []
    for incoming in incoming_keys(context.storage, buckets):
        wanted: Sequence[int] = range(len(slices))
        if index in _BLOOMS:
            questions = KeyQuestions(incoming, per_partition=not index.is_global)
            wanted = [
                number
                for number in wanted
                if number in stored
                or _base_may_hold(context, task, number, filters, questions)
                or _logs_hold(context, slices[number], incoming)
            ]
        for number in wanted:
            if number not in stored:
                stored[number] = stored_keys(context, slices[number])
        places, owners = _matched(incoming, slices, {n: stored[n] for n in wanted})
        found += _spilled(spill, places, owners)
    spill.finish()
    return tuple(found)


def _base_may_hold(
    context: ReadContext,
    task: LookupTask,
    number: int,
    filters: TaskFilters,
    questions: KeyQuestions,
) -> bool:
    """Asks the hints first; the footer is read only where they leave it open."""
    file_slice, bounds = task.slices[number], task.ranges[number]
    if file_slice.base is None:
        return False
    asked = questions.in_range(file_slice.partition, bounds.low, bounds.high)
    if not len(asked):
        return False
    bloom = filters.of(number)
    if bloom is not None:
        return questions.any_in(bloom, asked)
    path = file_slice.path_of(file_slice.base.name)
    source = context.storage.source(path, file_slice.base.size_bytes)
    return questions.may_hold(read_footer(source), file_slice.partition)


def _logs_hold(context: ReadContext, file_slice: FileSlice, incoming: Incoming) -> bool:
    """Whether records in the slice's logs have one of the keys."""
    if not file_slice.logs:
        return False
    target = context.target([RECORD_KEY])
    logged = [
        block_keys(context, block, target, file_slice.partition)
        for block in slice_blocks(context, file_slice)
        if block.kind is not BlockKind.DELETE
    ]
    return bool(mask_of(pc.is_in(_joined(logged), value_set=incoming.keys)).any())


def _matched(
    incoming: Incoming, slices: Sequence[FileSlice], stored: dict[int, StoredKeys]
) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """The places of incoming keys, and the bucket of each."""
    keys = pa.chunked_array([each.keys for each in stored.values()], pa.string())
    at = positions_of(pc.index_in(keys, value_set=incoming.keys))
    hits = np.flatnonzero(at >= 0)
    numbers = np.repeat(list(stored), [len(each.keys) for each in stored.values()])
    owners = pa.array(numbers[hits].astype(np.int64))
    live = np.concatenate([each.live for each in stored.values()] or [np.zeros(0, np.bool_)])
    columns = [
        incoming.keys.take(pa.array(at[hits])),
        pa.array([file_slice.partition for file_slice in slices], pa.string()).take(owners),
        pa.array([file_slice.file_id for file_slice in slices], pa.string()).take(owners),
        pa.array(live[hits]),
        # Each copy is a place of its own until they are put together.
        pa.repeat(pa.scalar(value=False), len(hits)),
    ]
    return pa.table(columns, schema=PLACES), incoming.bucket[at[hits]]


def _spilled(
    spill: SpillWriter, places: pa.Table, owners: npt.NDArray[np.int64]
) -> list[tuple[int, Segment]]:
    return spill.add_by_number(places, owners)


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.nulls(0, pa.string())
