"""Services that a write brings along, where options say so: compaction and clustering when due.

The write is committed by then. What goes wrong here is told, and left to the next write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from lakedex.config import TableType
from lakedex.config.option_check import option_texts
from lakedex.engine import Engine
from lakedex.errors import LakedexError
from lakedex.index.expressions import CheckedBySpark
from lakedex.services.clustering.scheduling import (
    run_clustering,
    run_pending_clusterings,
    schedule_clustering,
)
from lakedex.services.compaction import run_compaction, schedule_compaction
from lakedex.services.compaction.runner import run_pending_compactions
from lakedex.services.index_creating import refresh_index
from lakedex.services.indexes_by_options import make_indexes_of_options
from lakedex.services.resharding import reshard_if_due
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.index_coverage import async_definitions, lag_of
from lakedex.timeline import Action, Timeline
from lakedex.write.rows import KEY
from lakedex.write.stream_batches import StreamBatch
from lakedex.write.verbs import TableWriter
from lakedex.write.write_target import Target

log = logging.getLogger("lakedex")
Service: TypeAlias = "Callable[[TableWriter, Target], object]"


def writer_with_services(
    address: StorageAddress,
    engine: Engine | None = None,
    options: Mapping[str, str] | None = None,
    batch: StreamBatch | None = None,
    check: CheckedBySpark | None = None,
) -> TableWriter:
    """A writer of a table with the indexes that options ask for, after whose commits services run.

    `check` asks Spark about an expression to index, where there is a Spark.
    """
    given = option_texts(options or {})
    make_indexes_of_options(TableWriter(address, engine, given), given, check)
    return TableWriter(address, engine, given, batch, InlineServices())


class InlineServices:
    """Compacts and clusters around a write, as far as its options ask for it.

    `hoodie.compact.inline` and `hoodie.clustering.inline` run what is due,
    `hoodie.compact.schedule.inline` and `hoodie.clustering.schedule.inline` only plan it. With
    `lakedex.record.index.reshard.inline` a record index gets as many file groups as fit its rows,
    with `lakedex.index.refresh.inline.max.commits` indexes that many commits behind catch up.
    """

    def run_due(self, writer: TableWriter, target: Target) -> None:
        """Run or plan what is due after a write."""
        options = target.options.scheduling
        if options.compact_inline or options.schedule_compaction_inline:
            _attempt("compaction", _compact, writer, target)
        if options.cluster_inline or options.schedule_clustering_inline:
            _attempt("clustering", _cluster, writer, target)
        if options.reshard_inline:
            _attempt("resharding", reshard_if_due, writer, target)
        if options.refresh_indexes_after:
            _attempt("refresh of indexes", _refresh_indexes, writer, target)

    def finish(self, writer: TableWriter, target: Target) -> bool:
        """Run what pends and is in the way of a write; False where that is left to others.

        A process that died may have left it, and no other process would ever run it.
        """
        options = target.options.scheduling
        if options.compact_inline and _is_merge_on_read(target):
            _attempt("compaction", lambda own, _: run_pending_compactions(own), writer, target)
        if options.cluster_inline:
            _attempt("clustering", lambda own, _: run_pending_clusterings(own), writer, target)
        return options.compact_inline or options.cluster_inline


def _attempt(service: str, run: Service, writer: TableWriter, target: Target) -> None:
    try:
        run(writer, target)
    except LakedexError as error:
        log.warning("the %s beside the write did not come to its end: %s", service, error)


def _compact(writer: TableWriter, target: Target) -> None:
    if not _is_merge_on_read(target):
        return
    runs = target.options.scheduling.compact_inline
    if runs:
        run_pending_compactions(writer)  # one that failed before would keep its groups from others
    instant = schedule_compaction(writer, if_due=True)
    if runs and instant is not None:
        run_compaction(writer, instant)


def _is_merge_on_read(target: Target) -> bool:
    config = Snapshot.open(target.address.open()).config
    return config.table_type is TableType.MERGE_ON_READ


def _cluster(writer: TableWriter, target: Target) -> None:
    options = target.options
    if options.scheduling.cluster_inline:
        run_pending_clusterings(writer)
    timeline = Snapshot.open(target.address.open()).timeline
    if commits_since_clustering(timeline) < options.scheduling.cluster_after:
        return
    # Without columns Hudi puts small files together; the order is free then.
    columns = options.layout.clustering_columns or (KEY,)
    instant = schedule_clustering(writer, columns)
    if instant is not None and options.scheduling.cluster_inline:
        run_clustering(writer, instant)


def _refresh_indexes(writer: TableWriter, target: Target) -> None:
    """Refresh the indexes with `maintenance=async` that are as many commits behind as allowed."""
    snapshot = writer.snapshot()
    for name, each in async_definitions(snapshot).items():
        if lag_of(snapshot, each).commits >= target.options.scheduling.refresh_indexes_after:
            refresh_index(writer, name)


def commits_since_clustering(timeline: Timeline) -> int:
    """How many writes came after the newest clustering, pending or completed."""
    count = 0
    for instant in reversed(timeline.instants):
        if instant.action is Action.CLUSTERING or (
            timeline.requested_action(instant.requested_time) is Action.CLUSTERING
        ):
            break
        is_compaction = timeline.requested_action(instant.requested_time) is Action.COMPACTION
        count += instant.is_completed and instant.action.is_write and not is_compaction
    return count
