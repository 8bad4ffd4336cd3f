"""Columns that come to the statistics of a table that has column_stats already.

Their ranges are read from all files, under the lock, and stand in the deltacommit of the write that
brings them. The list of columns in the index definitions is changed after the commit: a list that
names a column says that every partition's range of it is whole. Whoever is cut short before leaves
the settings of the table, by which the next write does it again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import write_option_names as names_of
from lakedex.engine import Engine
from lakedex.errors import CommitConflict, LakedexError
from lakedex.filegroup import META_COLUMNS, FileSlice
from lakedex.index.definitions import load_definitions, write_definitions
from lakedex.index.written import FileStatistics, WholeColumn
from lakedex.storage import Storage
from lakedex.table import Snapshot
from lakedex.table.own_properties import read_own_properties
from lakedex.timeline import load_table_config
from lakedex.timeline.timeline import CommittedInstants
from lakedex.write.build_survey import SurveyWants, survey
from lakedex.write.context import WriteContext
from lakedex.write.metadata_plan import MetadataPlan

_COLUMN_STATS = "column_stats"
log = logging.getLogger("lakedex")


@dataclass(frozen=True)
class Widening:
    """What the older files hold of the columns that come."""

    notes: Mapping[str, Any] = field(default_factory=dict)
    """Their ranges, as tasks noted them."""
    columns: dict[str, WholeColumn] = field(default_factory=dict)


def read_widening(
    engine: Engine, facts: WriteContext, snapshot: Snapshot, plan: MetadataPlan
) -> Widening:
    """Read the columns that are new to the statistics from the files of a snapshot."""
    if not plan.new_stat_columns:
        return Widening()
    seen = replace(facts, committed=CommittedInstants.of(snapshot.timeline))
    wants = SurveyWants(plan.widened)
    notes = survey(engine, seen, snapshot.history, snapshot.slices, wants).index_notes
    found: FileStatistics = notes.get(_COLUMN_STATS, {})
    return Widening(
        notes,
        {
            name: WholeColumn(
                facts.schema.field(name).type, _open_partitions(found.get(name), snapshot.slices)
            )
            for name in plan.new_stat_columns
        },
    )


def name_columns(storage: Storage, plan: MetadataPlan) -> None:
    """Let the index definitions name the columns; a failure is left to the next writer."""
    try:
        config = load_table_config(storage)
        definitions = load_definitions(storage, config)
        known = definitions.get(_COLUMN_STATS)
        if known is None or config.index_defs_path is None:
            return
        definitions[_COLUMN_STATS] = replace(known, source_fields=plan.stat_columns)
        write_definitions(storage, config, definitions)
    except LakedexError as error:
        log.warning("columns of column_stats are left to be named by the next writer: %s", error)


def check_stat_columns(
    snapshot: Snapshot, plan: MetadataPlan, kept: Mapping[str, str], *, is_alone: bool
) -> None:
    """Refuse a write that goes by an older list of columns than its table keeps by now.

    Args:
        snapshot: The table as it is now.
        plan: What the write keeps of it.
        kept: The settings of the table that the write goes by.
        is_alone: Whether no other write was committed since it began.

    Raises:
        CommitConflict: another writer added columns since the settings were read.
    """
    known = snapshot.definitions.get(_COLUMN_STATS)
    if known is None or _COLUMN_STATS not in snapshot.config.metadata_partitions:
        return
    if is_alone and {*known.source_fields} <= {*plan.stat_columns, *META_COLUMNS}:
        return

    def listed(settings: Mapping[str, str]) -> tuple[tuple[str, ...], int]:
        most = names_of.COLUMN_STATS_MOST_COLUMNS.value(settings)
        return names_of.COLUMN_STATS_COLUMNS.value(settings), most

    if not plan.new_stat_columns and listed(read_own_properties(snapshot.storage)) != listed(kept):
        raise CommitConflict("another writer added columns to column_stats meanwhile; write again")


def _open_partitions(stats: pa.Table | None, slices: tuple[FileSlice, ...]) -> tuple[str, ...]:
    """The partitions with a file that has no range."""
    files = Counter[str]()
    for each in slices:
        files[each.partition] += len(each.logs) + (each.base is not None)
    told: dict[str, int] = {}
    if stats is not None:
        counts = pc.value_counts(stats["partition"])
        told = dict(zip(*(counts.field(at).to_pylist() for at in (0, 1)), strict=True))
    return tuple(sorted(path for path, count in files.items() if told.get(path, 0) < count))
