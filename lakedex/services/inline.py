"""Inline services: compaction, clustering and indexes that the options of a write ask for.

They run when they are due, after the write is committed. A failure is logged, and left to the next
write.

Hudi's options for indexes: `hoodie.metadata.index.expression.column` names the column, and the
option of the same beginning that ends in `options` says what is computed of it
(`expr='from_unixtime', format='yyyy-MM-dd'`); `hoodie.index.name` is the name of the index,
`hoodie.expression.index.type` its kind. `hoodie.metadata.index.secondary.column` names the column
of a secondary index. With `lakedex.index.maintenance=async` writers do not maintain the new index.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from lakedex.config import TableType
from lakedex.config import write_option_names as names_of
from lakedex.config.option_check import option_texts
from lakedex.engine import Engine
from lakedex.errors import InvalidInput, LakedexError
from lakedex.index.definitions import MAINTENANCE
from lakedex.index.expressions import EXPR, CheckedBySpark
from lakedex.services.clustering.scheduling import (
    run_clustering,
    run_pending_clusterings,
    schedule_clustering,
)
from lakedex.services.compaction import run_compaction, schedule_compaction
from lakedex.services.compaction.runner import run_pending_compactions
from lakedex.services.index_creating import create_index, refresh_index
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


_OPTION = re.compile(
    r"""\s*(?P<name>[\w.]+)\s*=\s*
    (?:(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<plain>[^,'"]+?))
    \s*(?:,(?=\s*[\w.])|$)""",
    re.VERBOSE,
)
"""A name and a value, in quotes or, as Hudi reads it, up to the next comma."""
_ASKING = frozenset(
    option.name
    for option in (
        names_of.EXPRESSION_COLUMN,
        names_of.EXPRESSION_OPTIONS,
        names_of.EXPRESSION_TYPE,
        names_of.SECONDARY_COLUMN,
        names_of.INDEX_NAME,
        names_of.INDEX_MAINTENANCE,
    )
)
_ESCAPED = re.compile(r"\\(['\"\\])")


def make_indexes_of_options(
    writer: TableWriter, options: Mapping[str, str], check: CheckedBySpark | None = None
) -> None:
    """Build the indexes that options of a write ask for, if there are none of their names.

    They are there before the write begins: what is wrong with one leaves the table as it was.

    Args:
        writer: The table.
        options: The options of the write.
        check: Asks Spark about an expression, where there is a Spark.

    Raises:
        InvalidInput: Something in the options is wrong.
        UnsupportedFeature: The function or the kind of index.
    """
    computed = names_of.EXPRESSION_COLUMN.text(options)
    looked_up = names_of.SECONDARY_COLUMN.text(options)
    name = names_of.INDEX_NAME.text(options)
    maintained = {MAINTENANCE: names_of.INDEX_MAINTENANCE.value(options)}
    if computed and looked_up and (name or computed == looked_up):
        raise InvalidInput(
            f"{names_of.EXPRESSION_COLUMN.name} and {names_of.SECONDARY_COLUMN.name} ask for two "
            f"indexes of the name {name or computed!r}; ask for them in two writes"
        )
    if computed:
        arguments = read_index_options(names_of.EXPRESSION_OPTIONS.text(options))
        if EXPR not in arguments:
            raise InvalidInput(
                f"{names_of.EXPRESSION_OPTIONS.name} has no {EXPR}, such as {EXPR}='lower'"
            )
        create_index(
            writer,
            name or computed,
            computed,
            using=names_of.EXPRESSION_TYPE.text(options).lower(),
            options={**arguments, **maintained},
            if_missing=True,
            check=check,
        )
    if looked_up:
        create_index(writer, name or looked_up, looked_up, options=maintained, if_missing=True)


def asking_for_indexes(options: Mapping[str, str]) -> dict[str, str]:
    """Those of the properties of a new table that ask for indexes.

    Example:
        >>> asking_for_indexes({"hoodie.metadata.index.secondary.column": "city", "type": "cow"})
        {'hoodie.metadata.index.secondary.column': 'city'}
    """
    return {name: value for name, value in options.items() if name in _ASKING}


def read_index_options(text: str) -> dict[str, str]:
    """The options in a text such as `expr='date_format', format='yyyy-MM-dd'`.

    Raises:
        InvalidInput: It is no list of options.

    Example:
        >>> read_index_options("expr='date_format', format='yyyy-MM-dd'")
        {'expr': 'date_format', 'format': 'yyyy-MM-dd'}
        >>> read_index_options("expr=date_format,format=yyyy-MM-dd")
        {'expr': 'date_format', 'format': 'yyyy-MM-dd'}
    """
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        option = _OPTION.match(text, place)
        if option is None or option["name"] in found:
            raise InvalidInput(f"{names_of.EXPRESSION_OPTIONS.name}={text!r} is no list of options")
        quoted, plain = option["quoted"], option["plain"]
        found[option["name"]] = plain if quoted is None else _ESCAPED.sub(r"\1", quoted[1:-1])
        place = option.end()
    return found
