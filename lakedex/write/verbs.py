"""The verbs of a table that is written: each takes rows and answers what the write came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from lakedex.config import write_option_names as names_of
from lakedex.config.bucket_options import BucketEngineType, BucketOptions
from lakedex.config.keys import BUCKET_INDEX_FOLDER
from lakedex.config.option_check import CONFLICT_RETRIES, option_texts
from lakedex.config.write_index import WriteIndex
from lakedex.config.write_options import InsertDuplicates, WriteOptions
from lakedex.engine import Engine, LocalEngine
from lakedex.errors import CommitConflict, IndexUnusable, InvalidInput
from lakedex.filegroup import META_COLUMNS
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.bucket.table import BucketSource, load_bucket_table
from lakedex.index.registry import check_buckets, stored_bucket_settings
from lakedex.storage import split
from lakedex.storage.open import StorageAddress
from lakedex.table import Snapshot
from lakedex.table.bucket_index import BucketIndex
from lakedex.table.own_properties import read_own_properties
from lakedex.timeline import Instant
from lakedex.timeline.timeline import CommittedInstants
from lakedex.write import operation as kinds
from lakedex.write.layout.order import column_names
from lakedex.write.matching_rows import MatchingRows
from lakedex.write.operation import Operation
from lakedex.write.pipeline import run_write
from lakedex.write.result import WriteResult
from lakedex.write.row_source import RowSource
from lakedex.write.stream_batches import StreamBatch
from lakedex.write.write_schema import Change, check_writable, newest_write, shown_bucket_index
from lakedex.write.write_target import Target


class Services(Protocol):
    """The services that a write brings along."""

    def run_due(self, writer: TableWriter, target: Target) -> None:
        """Run what is due after a commit."""

    def finish(self, writer: TableWriter, target: Target) -> bool:
        """Run what pends and is in the way of a write, and say whether that was tried."""


class TableWriter:
    """Writes one table; every verb sees the table as it is when the verb begins.

    Args:
        address: Where the table lies.
        engine: What runs the work; threads of this process by default.
        options: Hudi's write options, for all verbs.
        batch: The batch of a stream that is written; it is not written twice.
        services: The services that a write brings along.
    """

    def __init__(
        self,
        address: StorageAddress,
        engine: Engine | None = None,
        options: Mapping[str, str] | None = None,
        batch: StreamBatch | None = None,
        services: Services | None = None,
    ) -> None:
        """Open nothing yet."""
        self._services = services
        self._address = address
        self._engine = engine or LocalEngine()
        self._options = option_texts(options or {})
        self._batch = batch
        self._without_buckets: Instant | None = None
        """The newest write when the files of the table showed no bucket index."""

    @property
    def address(self) -> StorageAddress:
        """Where the table lies."""
        return self._address

    @property
    def engine(self) -> Engine:
        """What runs the work."""
        return self._engine

    @property
    def options(self) -> Mapping[str, str]:
        """The write options of all verbs, as they were given."""
        return self._options

    def snapshot(self) -> Snapshot:
        """The table as it is now."""
        return Snapshot.open(self._address.open())

    def with_options(self, options: Mapping[str, str]) -> TableWriter:
        """The same with some options changed."""
        changed = {**self._options, **options}
        return TableWriter(self._address, self._engine, changed, self._batch, self._services)

    def upsert(self, rows: RowSource) -> WriteResult:
        """Insert rows whose key is new, and update the records of the others."""
        return self.run(kinds.UPSERT, rows)

    def insert(self, rows: RowSource) -> WriteResult:
        """Add rows without looking for their keys, unless an option asks for that."""
        return self.run(kinds.INSERT, rows)

    def bulk_insert(self, rows: RowSource, sort_by: str | Sequence[str] = ()) -> WriteResult:
        """Add rows in files of their own; for large first loads.

        With `sort_by` each file of a partition has a range of its own in the order of these
        columns (`hoodie.layout.optimize.strategy` says how several become one order).
        """
        names = column_names(sort_by)
        if not names:
            return self.run(kinds.BULK_INSERT, rows)
        sorts = {names_of.BULK_SORT_COLUMNS.name: ",".join(map(str, names))}
        sorts[names_of.BULK_SORT_MODE.name] = "GLOBAL_SORT"
        return self.with_options(sorts).run(kinds.BULK_INSERT, rows)

    def delete(self, rows: RowSource) -> WriteResult:
        """Delete the records whose key columns (and partition columns) the rows name.

        Other columns are not looked at. With a global index the key columns are enough.
        """
        return self.run(kinds.DELETE, rows)

    def delete_where(self, condition: str, *, time_zone: str = "UTC") -> WriteResult:
        """Delete the records for which a SQL condition is true."""
        attempts = 3
        for attempt in range(attempts):
            rows = MatchingRows(self._address, self._engine, condition, time_zone)
            try:
                return self.run(kinds.DELETE, rows, seen=rows.seen)
            except CommitConflict:
                if attempt == attempts - 1:
                    raise
        raise AssertionError("unreachable")

    def insert_overwrite(self, rows: RowSource) -> WriteResult:
        """Put rows in the place of all that is in the partitions that they belong to."""
        return self.run(kinds.INSERT_OVERWRITE, rows)

    def insert_overwrite_table(self, rows: RowSource) -> WriteResult:
        """Put rows in the place of all that is in the table."""
        return self.run(kinds.INSERT_OVERWRITE_TABLE, rows)

    def delete_partitions(self, partitions: Sequence[str]) -> WriteResult:
        """Take whole partitions away, named by their paths."""
        return self.run(kinds.DELETE_PARTITION, None, partitions=partitions)

    def add_index(
        self, definition: IndexDefinition, keeping: Mapping[str, str] | None = None
    ) -> WriteResult:
        """Build an index of the rows that are there; writes keep it up to date from then on.

        `services.index_creating.create_index` makes the definition of a name and a column, and
        finds out what is wrong with them.

        Args:
            definition: That of a secondary or an expression index.
            keeping: What the table keeps beside it for its next writers.
        """
        target = replace(self.target(), new_indexes=(definition,), keeping=keeping or {})
        return run_write(target, kinds.INDEX, None)

    def refresh_async_index(self, name: str) -> WriteResult:
        """Read the file slices that an index with `maintenance=async` does not cover into it.

        `services.index_creating.refresh_index` takes any index by any of its names.
        """
        return run_write(replace(self.target(), refreshed=(name,)), kinds.INDEX, None)

    def add_stat_columns(self, columns: Sequence[str]) -> WriteResult:
        """Let column_stats cover these columns beside those that it has, in all files.

        `services.index_creating.create_index` finds out what is wrong with them.
        """
        target = self.target()
        known = self.snapshot().definitions["column_stats"].source_fields
        named = [name for name in known if name not in META_COLUMNS]
        options = target.options.with_stat_columns([*named, *columns])
        result = run_write(replace(target, options=options), kinds.INDEX, None)
        return replace(result, indexes=("column_stats",))

    def run(
        self,
        operation: Operation,
        rows: RowSource | None,
        *,
        partitions: Sequence[str] = (),
        seen: CommittedInstants | None = None,
    ) -> WriteResult:
        """Write rows; those chosen from the table itself only if it is still as it was then.

        Args:
            operation: What to do with the rows.
            rows: The rows; those with a true `rows.DELETE` are deleted, whatever the operation.
            partitions: Partitions to replace beside those of the rows.
            seen: What was committed when the rows were chosen.

        Raises:
            CommitConflict: Another writer was first; nothing was changed.
        """
        if self._batch is not None and self._batch.is_written(self.snapshot().timeline):
            return WriteResult(operation.name, None)
        self._check_operation(operation)
        target = self.target()
        operation = _merged(operation, target)
        services = self._services
        if services is None:
            return run_write(target, operation, rows, partitions=partitions, seen=seen)
        finish = partial(services.finish, self, target)
        result = run_write(target, operation, rows, partitions=partitions, seen=seen, finish=finish)
        if result.instant is not None:
            services.run_due(self, target)
        return result

    def _check_operation(self, operation: Operation) -> None:
        """Refuse the option of Hudi's writers that asks for another operation than the verb."""
        asked = self._options.get(names_of.OPERATION, operation.name).strip()
        if asked.upper() != operation.name:
            raise InvalidInput(
                f"{names_of.OPERATION}={asked[:80]!r} is another operation than "
                f"{operation.name.lower()}; call the verb that is meant"
            )

    def change_columns(self, change: Change) -> WriteResult:
        """Rename, drop, add, move or retype columns; no file is written.

        Args:
            change: Takes the table's own columns with their ids, and gives them as they shall
                be: `schema.column_changes` has the steps.
        """
        return run_write(self.target(), kinds.ALTER_SCHEMA, None, change=change)

    def seen(self) -> CommittedInstants:
        """What is committed now."""
        return CommittedInstants.of(self.snapshot().timeline)

    def target(self, *, keeps_file_groups: bool = False) -> Target:
        """The table to write, with all options resolved.

        Args:
            keeps_file_groups: The work leaves every record in its file group.

        Raises:
            InvalidInput: an option is wrong.
            UnsupportedFeature: the table is one that is only read.
            IndexUnusable: nothing says the parameters of its bucket index.
        """
        storage = self._address.open()
        snapshot = Snapshot.open(storage)
        check_writable(snapshot)
        kept = read_own_properties(storage)
        shown = self._shown_buckets(snapshot, kept)
        buckets = None
        if shown is not None:
            try:
                buckets = self._buckets_of(snapshot, kept, shown)
            except IndexUnusable:
                if not keeps_file_groups:
                    raise
        definition = snapshot.definitions.get("record_index")
        chosen = WriteOptions.resolve(
            snapshot.config,
            {**kept, **_stored_counts(snapshot, kept)},
            self._options,
            record_index_partitioned=None if definition is None else definition.is_partitioned,
            column_stats_groups=_stat_groups(snapshot, self._options),
            shown_buckets=buckets,
        )
        if chosen.buckets is not None:
            check_buckets(chosen.buckets)
        retries = _retries({**kept, **self._options})
        return Target(
            self._address,
            self._engine,
            chosen,
            snapshot,
            kept,
            retries,
            self._batch,
            # What nobody knows for sure is not kept.
            leaves_settings=shown is not None and buckets is None,
        )

    def _shown_buckets(self, snapshot: Snapshot, kept: Mapping[str, str]) -> BucketIndex | None:
        newest = newest_write(snapshot.timeline)
        if newest is not None and newest == self._without_buckets:
            return None
        shown = shown_bucket_index(snapshot, kept)
        self._without_buckets = newest if shown is None else None
        return shown

    def _buckets_of(
        self, snapshot: Snapshot, kept: Mapping[str, str], shown: BucketIndex
    ) -> BucketOptions:
        """The parameters of a bucket index that another engine made."""
        source = BucketSource(
            snapshot.read_context, snapshot.timeline, partial(getattr, snapshot, "slices"), kept
        )
        return load_bucket_table(source, shown.engine, self._options).options


def _stored_counts(snapshot: Snapshot, kept: Mapping[str, str]) -> dict[str, str]:
    """The numbers of buckets that a rescale, or Hudi, has stored; they count, whatever is kept."""
    if (names_of.INDEX_TYPE.given(kept) or "").upper() != WriteIndex.BUCKET.value:
        return {}
    if split(BUCKET_INDEX_FOLDER)[1] not in snapshot.meta_folders:
        return {}
    if BucketEngineType.parse(names_of.BUCKET_ENGINE.text(kept)) is not BucketEngineType.SIMPLE:
        return {}
    return stored_bucket_settings(snapshot.storage, snapshot.timeline)


def _merged(operation: Operation, target: Target) -> Operation:
    """An insert that may not add a key again as the operation that merges it with its record."""
    options = target.options
    if operation != kinds.INSERT or not options.merges_inserts:
        return operation
    # What a policy for duplicates drops or refuses is not merged.
    is_plain = options.insert_duplicates is InsertDuplicates.NONE
    has_key = bool(target.snapshot.config.record_key_fields)
    return kinds.MERGED_INSERT if is_plain and has_key else operation


def _stat_groups(snapshot: Snapshot, options: Mapping[str, str]) -> int | None:
    """How many file groups column_stats have; looked up where an option says how many."""
    name = "column_stats"
    if names_of.COLUMN_STATS_GROUPS.given(options) is None or snapshot.metadata is None:
        return None
    if name not in snapshot.config.metadata_partitions:
        return None
    return len(snapshot.metadata.groups(name))


def _retries(options: Mapping[str, str]) -> int:
    """How often a write that lost a conflict is tried again by itself."""
    text = options.get(CONFLICT_RETRIES, "0").strip()
    if not (text.isascii() and text.isdigit()):
        raise InvalidInput(f"{CONFLICT_RETRIES} is a number of attempts, not {text!r}")
    return int(text)
