"""The face of lakedex without Spark: open a table, look into it, read it as Arrow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike, fspath
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config.option_check import did_you_mean
from lakedex.errors import IndexUnusable, InvalidInput, LakedexError
from lakedex.expr import bind_predicate, from_arrow, normalise, parse_predicate
from lakedex.expr.arrow_expression import columns_in
from lakedex.expr.literal_cast import zone_of
from lakedex.expr.tree import Expr
from lakedex.filegroup import FileSlice
from lakedex.index.catalog import IndexInfo, list_indexes
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table import MetadataTable, metadata_partition
from lakedex.index.registry import (
    find_records,
    indexes_behind,
    indexes_outside_metadata,
    kind_name,
    kinds,
    list_file_indexes,
)
from lakedex.prune import (
    ANY_ENGINE,
    ARROW,
    PlanOptions,
    Reader,
    Report,
    is_read_at_once,
    note_dropped,
    plan,
    weighs_cost,
)
from lakedex.prune.usage import IndexUsage, TableUsage, count_scan, usage_of
from lakedex.read import Scan, changed_rows, to_batches, to_table
from lakedex.read.changes import names_in, read_row_changes, texts_in
from lakedex.services import advising, verifying, what_if
from lakedex.services.index_names import existing_names, find_index
from lakedex.storage import open_storage
from lakedex.table import Snapshot
from lakedex.table.index_coverage import async_definitions, lag_of
from lakedex.timeline import QueryTime, Timeline

_AT_ONCE = "to_arrow asks no index here: it reads so few bytes faster than any index answers"
_SWITCHES = frozenset(("all", "partition_values"))
"""What `without_indexes` may say besides the names of indexes and kinds."""
Filter: TypeAlias = "str | pc.Expression | Expr"
"""A predicate: SQL text, a `pyarrow.compute` expression, or a tree of `lakedex.expr`."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How predicates are understood and which indexes may be used."""

    time_zone: str = "UTC"
    """The session time zone: how text and dates become timestamps."""
    expression_time_zone: str | None = None
    """The session zone in which other engines built expression indexes over time."""
    without_indexes: Collection[str] = frozenset()
    """Indexes or kinds that must not be used; `all` reads without any pruning."""
    weighs_cost: bool = field(default_factory=weighs_cost)
    """Whether an index is left out where asking it takes longer than it can save; unless told,
    the environment variable LAKEDEX_INDEX_COST says so: `ignore` asks every index."""
    counts_usage: bool = True
    """Whether reads are counted for `Table.indexes` and `Table.usage`."""

    def __post_init__(self) -> None:
        for name in ("time_zone", "expression_time_zone"):
            zone = getattr(self, name)
            if not isinstance(zone, str) and (zone is not None or name == "time_zone"):
                raise InvalidInput(f"{name} must be text such as UTC, not {zone!r}")
        for name in ("weighs_cost", "counts_usage"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(f"{name} must be True or False, not {getattr(self, name)!r}")
        names = [kind_name(each) for each in names_in("without_indexes", self.without_indexes)]
        switches = _SWITCHES.union(each.kind for each in kinds())
        for name in names:
            # The name of an index may be anything; what is nearly a kind is a misspelled one.
            hint = "" if name in switches else did_you_mean(name, switches)
            if hint:
                raise InvalidInput(f"without_indexes: no index is called {name!r}{hint}")
        object.__setattr__(self, "without_indexes", frozenset(names))


def open(
    path: str | PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    options: ReadOptions | Mapping[str, Any] | None = None,
) -> Table:
    """The Hudi table at a path or URL, as its newest snapshot is now.

    Args:
        path: A local path or a URL such as `s3://bucket/trips`.
        storage_options: Settings of the store, such as `aws_region`.
        options: How to read: `ReadOptions`, or a mapping with the names of its fields.

    Raises:
        TableNotFound: There is no Hudi table.
        InvalidInput: The path or the options are of a wrong type, or the store is not known.
    """
    if not isinstance(path, str | PathLike):
        raise InvalidInput(f"the path of a table must be text or a path, not {path!r}")
    if isinstance(options, Mapping):
        options = _read_options(options)
    if not isinstance(options, ReadOptions | None):
        raise InvalidInput(f"options must be ReadOptions, not {options!r}")
    chosen = options or ReadOptions()
    for zone in (chosen.time_zone, chosen.expression_time_zone or "UTC"):
        zone_of(zone)  # refuses one that does not exist
    storage = open_storage(fspath(path), storage_options)
    snapshot = Snapshot.open(storage)
    _without(snapshot, chosen.without_indexes, may_be_gone=False)
    return Table(snapshot, chosen)


def _read_options(given: Mapping[str, Any]) -> ReadOptions:
    known = [each.name for each in fields(ReadOptions)]
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known) or f"; there are {', '.join(known)}"
            raise InvalidInput(f"no option of a read is called {name!r}{hint}")
    return ReadOptions(**given)


def _without(
    snapshot: Snapshot, names: Collection[str], *, may_be_gone: bool = True
) -> frozenset[str]:
    """What must not be used: kinds, and the full names of indexes, whichever name they have here.

    Raises:
        InvalidInput: The table has no such index.
    """
    found = {*names}
    for name in found.difference(_SWITCHES, (each.kind for each in kinds())):
        full = find_index(snapshot, name)
        if full is not None:
            found.add(full)
        elif not may_be_gone:
            known = existing_names(snapshot)
            hint = did_you_mean(name, known) or f"; it has {', '.join(known) or 'none'}"
            raise InvalidInput(f"without_indexes: the table has no index {name!r}{hint}")
    return frozenset(found)


class Table:
    """A Hudi table at one snapshot; call `refresh` to see what was committed since."""

    def __init__(self, snapshot: Snapshot, options: ReadOptions) -> None:
        """Use `lakedex.open`."""
        self._snapshot = snapshot
        self._options = options

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {self.path!r})"

    @property
    def name(self) -> str:
        """The table's name."""
        return self._snapshot.config.name

    @property
    def path(self) -> str:
        """Where the table lies."""
        return self._snapshot.storage.root

    @property
    def schema(self) -> pa.Schema:
        """All columns, Hudi's five meta columns first."""
        return self._snapshot.schema

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that every read sees."""
        return self._snapshot

    @property
    def timeline(self) -> Timeline:
        """The instants of the table."""
        return self._snapshot.timeline

    def refresh(self) -> Table:
        """The same table as it is now."""
        return Table(Snapshot.open(self._snapshot.storage), self._options)

    def to_arrow(
        self,
        filter: Filter | None = None,
        columns: Sequence[str] | None = None,
        as_of: QueryTime | None = None,
    ) -> pa.Table:
        """The rows for which the filter is true, read only from files that may hold one."""
        return to_table(self._scan(filter, columns, as_of))

    def to_batches(
        self,
        filter: Filter | None = None,
        columns: Sequence[str] | None = None,
        as_of: QueryTime | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """As `to_arrow`, batch by batch, in memory that does not grow with the table."""
        return to_batches(self._scan(filter, columns, as_of))

    def to_reader(
        self, filter: Filter | None = None, columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """As `to_batches`, in the form that DuckDB, Polars and others take."""
        scan = self._scan(filter, columns, None)
        return pa.RecordBatchReader.from_batches(scan.schema, to_batches(scan))

    def read_slices(
        self, slices: Sequence[FileSlice], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows of some of the slices that `files` gave, log files merged."""
        wanted = self._columns(self._snapshot, columns)
        return to_table(Scan(self._snapshot.read_context, slices, wanted))

    def changes(
        self,
        begin: QueryTime,
        end: QueryTime | None = None,
        columns: Sequence[str] | None = None,
        *,
        cdc: bool = False,
    ) -> pa.Table:
        """The rows written by commits after `begin` and up to `end`, in their newest version.

        Commits count by the time at which they completed (in tables of version 6, began).

        With `cdc` what every commit did to every row: `op` (`i`, `u`, `d`), `ts_ms` (the commit),
        and the row `before` and `after`. As in Hudi, commits then count by the time at which they
        began, which is the one in `ts_ms`.
        """
        if cdc:
            return read_row_changes(self._snapshot, begin, end)
        wanted = None if columns is None else self._columns(self._snapshot, columns)
        return changed_rows(self._snapshot, begin, end, wanted)

    def files(self, filter: Filter | None = None) -> tuple[FileSlice, ...]:
        """The file slices that may hold a match, after pruning."""
        return self.explain(filter).files

    def explain(
        self,
        filter: Filter | None = None,
        as_of: QueryTime | None = None,
        *,
        assuming: Sequence[str] = (),
    ) -> Report:
        """What would be read for a filter, which index removed how much, and why.

        Args:
            filter: The filter.
            as_of: An earlier time.
            assuming: Indexes that do not exist: columns with a secondary index, `record_index`,
                `column_stats` or `bloom_filters`. The data is looked into, or a part of it, to say
                what they would do; `expected` of the report is how many slices they would leave.
        """
        report = self._explained(filter, as_of)
        if isinstance(assuming, str) or assuming:
            view = self._at(as_of)
            tree = self._understood(view, filter).tree
            return what_if.with_assumed(
                view,
                None if tree is None else normalise(tree),
                report,
                names_in("assuming", assuming),
                time_zone=self._options.time_zone,
            )
        return report

    def _explained(self, filter: Filter | None, as_of: QueryTime | None) -> Report:
        view = self._at(as_of)
        question = self._understood(view, filter)
        report = note_dropped(self._planned(view, question, ANY_ENGINE), view)
        asked = any(step.used and step.estimated_seconds is not None for step in report.steps)
        if asked and self._options.weighs_cost and is_read_at_once(ARROW, view.slices):
            return replace(report, notes=(*report.notes, _AT_ONCE))
        return report

    def metadata(
        self,
        partition: str,
        *,
        keys: Sequence[str] | pa.Array | pa.ChunkedArray | None = None,
        prefix: str | Sequence[str] | None = None,
    ) -> pa.Table:
        """One partition of the metadata table, merged: `key`, `type` and the payload struct.

        Args:
            partition: Such as `record_index` or `secondary_index_idx_rider`.
            keys: Only these keys, a list or an Arrow column; the rest is not read.
            prefix: Only keys that start so; the rest is not read.
        """
        (partition,) = map(kind_name, names_in("partition", [partition]))
        metadata_partition(partition)
        table = self._metadata_table()
        if keys is not None and prefix is not None:
            raise InvalidInput("give keys or a prefix, not both")
        if keys is not None:
            known = self._snapshot.definitions
            return find_records(table, partition, known.get(partition), texts_in("keys", keys))
        if prefix is not None:
            prefixes = [prefix] if isinstance(prefix, str) else names_in("prefix", prefix)
            return table.scan_prefixes(partition, prefixes)
        return table.scan(partition)

    def indexes(self) -> list[IndexInfo]:
        """Every index of the table: its kind, columns, state and size, and how it was used."""
        view = self._snapshot
        definitions = view.readable_definitions or {}
        found = list_indexes(
            view.config,
            definitions,
            view.metadata,
            dropped=view.dropped_indexes,
            behind=indexes_behind(view.timeline, definitions),
            builds=view.builds,
            storage=view.storage,
        )
        found += list_file_indexes(view.storage, view.config)
        found += [info for info, _ in indexes_outside_metadata(view.stored_table)]
        lagging = async_definitions(view) if view.readable_definitions is not None else {}
        found = [_with_lag(view, each, lagging.get(each.name)) for each in found]
        used = self.usage().indexes
        return [_with_usage(each, used[each.name]) if each.name in used else each for each in found]

    def usage(self) -> TableUsage:
        """What queries asked of each index and what it saved them, and how columns were compared.

        Counted by every process that reads the table through lakedex, from Spark too.
        """
        return usage_of(self._snapshot.storage)

    def advise(self, name: str | None = None) -> advising.Advice:
        """Indexes to create and to drop, judging by the queries that were counted.

        Args:
            name: What the statements call the table; by its path unless told.
        """
        shown = name or f"lakedex.`{self.path.replace('`', '``')}`"
        return advising.advise_table(self._snapshot, self.usage(), shown)

    def verify(
        self,
        indexes: Sequence[str] | None = None,
        *,
        listener: verifying.Listener | None = None,
        threads: int | None = None,
    ) -> verifying.VerifyReport:
        """Hold every entry of every index, or of some, against the data.

        Args:
            indexes: Only these, such as `record_index` or `secondary_index_idx_rider`.
            listener: Called with the steps that are done, and all steps, as work goes on.
            threads: How many file slices are read at a time; as many as there are cores.
        """
        zone = self._options.expression_time_zone or self._options.time_zone
        return verifying.verify(
            self._snapshot, indexes, time_zone=zone, listener=listener, threads=threads
        )

    def _metadata_table(self) -> MetadataTable:
        if self._snapshot.metadata is None:
            problem = self._snapshot.metadata_problem
            raise IndexUnusable(problem or f"table {self.name} has no metadata table")
        return self._snapshot.metadata

    def _at(self, as_of: QueryTime | None) -> Snapshot:
        return self._snapshot if as_of is None else self._snapshot.at(as_of)

    def _scan(
        self, condition: Filter | None, columns: Sequence[str] | None, as_of: QueryTime | None
    ) -> Scan:
        view = self._at(as_of)
        question = self._understood(view, condition)
        arrow_columns: Collection[str] = ()
        if is_arrow := isinstance(condition, pc.Expression):
            named = columns_in(condition)
            arrow_columns = view.schema.names if named is None else named
        report = self._planned(view, question, ARROW)
        if self._options.counts_usage:
            count_scan(view.storage, report)
        return Scan(
            context=view.read_context,
            slices=report.files,
            columns=self._columns(view, columns),
            predicate=None if is_arrow else question.tree,
            arrow_filter=condition if is_arrow else None,
            arrow_columns=tuple(arrow_columns),
            time_zone=self._options.time_zone,
        )

    def _understood(self, view: Snapshot, condition: Filter | None) -> _Question:
        if condition is None:
            return _Question(None, "")
        text = condition if isinstance(condition, str) else str(condition)
        if isinstance(condition, str):
            tree = parse_predicate(condition)
        elif isinstance(condition, pc.Expression):
            tree = from_arrow(condition, view.schema)
        elif isinstance(condition, Expr):
            tree = condition
        else:
            raise InvalidInput(
                "a filter is SQL text, a pyarrow.compute expression or a tree of lakedex.expr, "
                f"not {condition!r}"
            )
        zone = self._options.time_zone
        bound = bind_predicate(view.with_index_names(tree, zone), view.schema, time_zone=zone)
        return _Question(bound, text)

    def _planned(self, view: Snapshot, question: _Question, reader: Reader) -> Report:
        options = PlanOptions(
            self._options.time_zone,
            self._options.expression_time_zone,
            _without(view, self._options.without_indexes),
            reader if self._options.weighs_cost else None,
        )
        tree = None if question.tree is None else normalise(question.tree)
        return plan(view, tree, text=question.text, options=options)

    @staticmethod
    def _columns(view: Snapshot, columns: Sequence[str] | None) -> tuple[str, ...]:
        if columns is None:
            return tuple(view.schema.names)
        names = names_in("columns", columns)
        view.read_context.target(names)
        return tuple(names)


@dataclass(frozen=True, slots=True)
class _Question:
    """A filter as it is understood: its bound tree and its text."""

    tree: Expr | None
    text: str


def _with_lag(view: Snapshot, index: IndexInfo, definition: IndexDefinition | None) -> IndexInfo:
    if definition is None:
        return index
    index = replace(index, maintenance="async")
    try:
        lag = lag_of(view, definition)
    except LakedexError as error:
        return replace(index, problem=index.problem or str(error))
    return replace(index, newer_slices=lag.slices, commits_behind=lag.commits)


def _with_usage(index: IndexInfo, used: IndexUsage) -> IndexInfo:
    return replace(
        index,
        scans=used.scans,
        files_pruned=used.files_pruned,
        bytes_saved=used.bytes_saved,
        last_used=used.last_used or None,
    )
