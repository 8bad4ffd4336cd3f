"""Entries of indexes of files and partitions, as they are to be: read anew from the data.

Only the file slices are read that a wrong or missing entry is about; for an entry of a partition
those of that partition. What has an entry and should have none gets a mark of deletion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.index.metadata_table import Kind, metadata_partition
from lakedex.index.metadata_table.change import Change
from lakedex.index.metadata_table.records import RecordMaker
from lakedex.index.written import CommitChanges
from lakedex.services.verifying.report import Problem
from lakedex.table import Snapshot
from lakedex.write.build_survey import SurveyWants, survey
from lakedex.write.context import Target, write_context
from lakedex.write.metadata_plan import plan_metadata
from lakedex.write.target import StoredSchema, WriteSchema

BY_FILE = (
    Kind.COLUMN_STATS,
    Kind.PARTITION_STATS,
    Kind.BLOOM_FILTERS,
    Kind.EXPRESSION_INDEX,
)
"""Kinds of index that have entries of files, or of partitions."""
_RANGES = (Kind.COLUMN_STATS.value, Kind.PARTITION_STATS.value)


def right_records(
    target: Target, snapshot: Snapshot, scratch: str, problems: Sequence[Problem]
) -> dict[str, Change]:
    """What makes the named entries right and changes no other, by index.

    Args:
        target: The table.
        snapshot: Its newest state.
        scratch: A folder for spill files.
        problems: What is wrong, each with the keys of its entries.

    Raises:
        IndexUnusable: an index cannot be computed here.
    """
    names = sorted({problem.index for problem in problems})
    if not names:
        return {}
    stored = StoredSchema.of(snapshot)
    schema = WriteSchema.of(stored.columns, stored)
    plan = plan_metadata(snapshot, target.options.metadata, schema.columns, rows=0)
    facts = write_context(target, snapshot, schema, plan, instant="", scratch=scratch, rows=0)
    wants = SurveyWants(
        stat_columns=plan.stat_columns if {*names}.intersection(_RANGES) else (),
        blooms=Kind.BLOOM_FILTERS.value in names,
        expressions=tuple(each for each in plan.expressions if each.name in names),
    )
    slices = _named(snapshot, problems)
    found = survey(target.engine, facts, snapshot.history, slices, wants)
    changes = CommitChanges(
        statistics=found.statistics,
        overwritten_partitions=tuple({each.partition: None for each in slices}),
        replaces_ranges=True,
        blooms=found.blooms,
        expressions=found.expressions,
    )
    newest = snapshot.timeline.last_completed
    instant = "" if newest is None else newest.requested_time
    maker = RecordMaker(changes, instant, plan.stat_columns, snapshot.definitions)
    return {
        name: _only(
            maker.change_of(name),
            dict.fromkeys(key for each in problems if each.index == name for key in each.entries),
        )
        for name in names
    }


def is_by_file(index: str) -> bool:
    """Whether the entries of an index of the metadata table are of files or partitions."""
    try:
        return metadata_partition(index).kind in BY_FILE
    except InvalidInput:
        return False


def _named(snapshot: Snapshot, problems: Sequence[Problem]) -> list[FileSlice]:
    """The slices that problems are about, all of a partition where one is about that."""
    places = {problem.place for problem in problems}
    return [
        each
        for each in snapshot.slices
        if each.id in places or FileSliceId(each.partition, "") in places
    ]


def _only(change: Change, wanted: dict[str, None]) -> Change:
    """The records of some keys, and marks of deletion for those that have none."""
    keys = pa.array(list(wanted), pa.string())
    kept = pc.is_in(change.keys, value_set=keys)
    records = change.keys.filter(kept)
    gone = keys.filter(pc.invert(pc.is_in(keys, value_set=records)))
    return replace(change, keys=records, values=change.values.filter(kept), deletes=gone)
