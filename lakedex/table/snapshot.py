"""A table at one instant: properties, schema, timeline and file slices; it never changes.

Data files are listed by partition: from the metadata table, else from the store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import TableConfig
from lakedex.config.keys import META_FOLDER
from lakedex.config.metadata_options import expression_zones
from lakedex.errors import FileMissing, IndexUnusable, LakedexError
from lakedex.expr.tree import Expr
from lakedex.filegroup import (
    FileSlice,
    FileSliceId,
    ReadContext,
    Slices,
    Visibility,
    latest_slices,
    parse_data_file,
)
from lakedex.index.builds import IndexBuild, active_builds
from lakedex.index.catalog import Dropped, dropped_names, find_dropped
from lakedex.index.contract import IndexedTable, StoredTable
from lakedex.index.definitions import IndexDefinition, load_definitions
from lakedex.index.expressions import with_expressions
from lakedex.index.file_index.definitions import given_name, readable_file_indexes
from lakedex.index.metadata_table import (
    ALL_PARTITIONS_KEY,
    FILES_PAYLOAD,
    NON_PARTITIONED_KEY,
    MetadataTable,
)
from lakedex.index.registry import expression_kind, key_shards
from lakedex.schema import SchemaHistory
from lakedex.storage import Storage
from lakedex.storage.paths import normalise
from lakedex.table.lost_instants import check_instants, metadata_problem
from lakedex.table.own_properties import read_own_properties
from lakedex.table.retention import check_retained
from lakedex.table.schema_resolution import (
    HISTORY_NAME,
    newest_history,
    schema_history,
    table_schema,
)
from lakedex.timeline import Action, QueryTime, Timeline, load_table_config

_META_FOLDER = ".hoodie/"


@dataclass(frozen=True, slots=True)
class Listing:
    """Data files with their sizes by partition path, and where the list came from."""

    files: dict[str, list[tuple[str, int]]]
    source: str


def list_files(storage: Storage, metadata: MetadataTable | None) -> Listing:
    """All data files of a table.

    A metadata table that cannot be read costs time, never rows: the store is listed instead.
    """
    if metadata is None:
        return Listing(_from_store(storage), "file listing")
    try:
        return Listing(_from_metadata(metadata), "metadata table")
    except LakedexError as error:
        return Listing(_from_store(storage), f"file listing, as the metadata table failed: {error}")


def _from_metadata(metadata: MetadataTable) -> dict[str, list[tuple[str, int]]]:
    records = metadata.scan("files")
    maps = records[FILES_PAYLOAD].combine_chunks()
    is_list = pc.equal(records["key"], ALL_PARTITIONS_KEY).to_pylist()
    if not any(is_list):
        raise IndexUnusable("the files index has no list of partitions")
    names = maps.keys.to_pylist()
    sizes = pc.struct_field(maps.items, "size").to_pylist()
    offsets = maps.offsets.to_pylist()
    found: dict[str, list[tuple[str, int]]] = {}
    for row, key in enumerate(records["key"].to_pylist()):
        if is_list[row]:
            continue
        partition = "" if key == NON_PARTITIONED_KEY else normalise(key)
        begin, end = offsets[row], offsets[row + 1]
        files = list(zip(names[begin:end], sizes[begin:end], strict=True))
        for name, _ in files:
            if "/" in name:
                normalise(f"{key}/{name}")
        found[partition] = files
    return found


def _from_store(storage: Storage) -> dict[str, list[tuple[str, int]]]:
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for info in storage.list_recursive():
        if info.path.startswith(_META_FOLDER):
            continue
        partition, _, name = info.path.rpartition("/")
        if parse_data_file(name, info.size_bytes) is not None:
            found[partition].append((name, info.size_bytes))
    return dict(found)


_FIRST_VERSION_WITH_OWN_LOG_INSTANTS = 8
_UNCHANGED = ("schema", "history", "metadata", "listing", "slices", "meta_folders")
"""What properties and timelines determine; kept by `Snapshot.renewed`."""


class Snapshot:
    """What a query sees of a table; everything is read on first use, then kept."""

    def __init__(
        self,
        storage: Storage,
        config: TableConfig,
        timeline: Timeline,
        *,
        metadata_timeline: Timeline | None = None,
    ) -> None:
        """Use `open`; this only keeps what it is given.

        `metadata_timeline` is that of the metadata table, where it was loaded already.
        """
        self.storage = storage
        self.config = config
        self._full_timeline = timeline
        self._metadata_timeline = metadata_timeline
        self._lists_metadata = False
        self.timeline = timeline
        self.as_of: str | None = None
        self.metadata_problem: str | None = None
        self._kept: dict[str, Any] = {}
        self._facts: dict[str, Any] = {}

    @classmethod
    def open(cls, storage: Storage, *, as_of: QueryTime | None = None) -> Snapshot:
        """The newest snapshot of the table at the storage's root, or that as of a time."""
        config = load_table_config(storage)
        snapshot = cls(storage, config, Timeline.load(storage, config))
        return snapshot if as_of is None else snapshot.at(as_of)

    def renewed(
        self,
        config: TableConfig,
        timeline: Timeline,
        metadata_timeline: Timeline | None,
        *,
        own: str | None = None,
    ) -> Snapshot:
        """The table as it is now, with what this snapshot has read of it as far as that holds.

        The caller holds the table's lock. Where the properties and both timelines are the same as
        before, but for the pending instant `own`, so are schema, files and indexes. Who commits
        such an instant reads the definitions again: the columns of column_stats may change without
        an instant.
        """
        now = Snapshot(self.storage, config, timeline, metadata_timeline=metadata_timeline)
        metadata = self.__dict__.get("metadata")
        is_same = (
            config.raw == self.config.raw
            and not timeline.differs_from(self._full_timeline, aside=own)
            and metadata is not None
            and metadata_timeline is not None
            and not metadata_timeline.differs_from(metadata.timeline)
        )
        if is_same:
            names = _UNCHANGED if own is not None else (*_UNCHANGED, "definitions")
            held = (name for name in names if name in self.__dict__)
            now.__dict__.update((name, self.__dict__[name]) for name in held)
        return now

    def at(self, as_of: QueryTime) -> Snapshot:
        """The same table as of an earlier time."""
        view = Snapshot(self.storage, self.config, self._full_timeline)
        view.timeline = self._full_timeline.as_of(as_of)
        view.as_of = view.timeline.limit
        check_retained(self._full_timeline, view.timeline)
        return view

    @property
    def is_latest(self) -> bool:
        """Whether this is the newest snapshot, the only one that key indexes describe.

        One as of a time after which nothing happened is the newest, too.
        """
        return self.as_of is None or self.timeline.instants == self._full_timeline.instants

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns, the five meta columns first."""
        # Before the first commit there are no rows, but the columns are known all the same.
        timeline = self.timeline if self.timeline.last_completed else self._full_timeline
        return table_schema(self.storage, self.config, timeline)

    @cached_property
    def history(self) -> SchemaHistory | None:
        """How columns were renamed and retyped."""
        if "meta_folders" in self.__dict__ and HISTORY_NAME not in self.meta_folders:
            return newest_history(self.timeline)
        return schema_history(self.storage, self.timeline)

    @cached_property
    def meta_folders(self) -> frozenset[str]:
        """The names of the folders in `.hoodie`; what is not there need not be listed."""
        return frozenset(self.storage.folders(META_FOLDER))

    @cached_property
    def metadata(self) -> MetadataTable | None:
        """The metadata table, if the table has one that can be read.

        Raises:
            TimelineDamaged: it has instants that the timeline lacks.
        """
        if not self.config.metadata_enabled:
            return None
        try:
            place = partial(key_shards, partial(getattr, self, "readable_definitions"))
            if self._lists_metadata and self._metadata_timeline is None:
                opened = MetadataTable.list_whole(self.storage, self._full_timeline, place)
            else:
                own = self._metadata_timeline
                opened = MetadataTable(self.storage, self._full_timeline, place, timeline=own)
        except LakedexError as error:
            self.metadata_problem = str(error)
            return None
        check_instants(self._full_timeline, opened.timeline)
        problem = metadata_problem(self._full_timeline, opened.timeline)
        if problem is not None:
            self.metadata_problem = problem
            return None
        return opened

    def list_metadata(self) -> None:
        """List all files of the metadata table at once: a write needs most partitions."""
        self._lists_metadata = True
        if self.metadata is not None:
            self.metadata.list_all()

    def check_timeline(self) -> None:
        """Refuse a table whose timeline lacks instants; reads of rows do so by themselves.

        Raises:
            TimelineDamaged: it names what is missing.
        """
        if self.metadata is None:
            check_instants(self._full_timeline, None)

    @cached_property
    def definitions(self) -> Mapping[str, IndexDefinition]:
        """The index definitions of the table, by name."""
        return load_definitions(self.storage, self.config)

    @cached_property
    def readable_definitions(self) -> Mapping[str, IndexDefinition] | None:
        """The same for queries: None where they cannot be read, and no index is consulted."""
        try:
            return self.definitions
        except LakedexError as error:
            self.metadata_problem = str(error)
            return None

    @cached_property
    def builds(self) -> tuple[IndexBuild, ...]:
        """The indexes in the making, which writers keep up to date and no query consults yet."""
        return active_builds(self._full_timeline, self.config)

    @cached_property
    def dropped_indexes(self) -> Mapping[str, Dropped]:
        """The indexes that are defined and that another engine dropped (case B62)."""
        names = dropped_names(self.config, self.readable_definitions or {})
        metadata = self.metadata if names else None
        return find_dropped(names, self._full_timeline, metadata.timeline if metadata else None)

    @cached_property
    def expression_zones(self) -> Mapping[str, str]:
        """The time zones that expression indexes are computed in, as far as the table says."""
        return expression_zones(self.own_properties)

    @cached_property
    def own_properties(self) -> Mapping[str, str]:
        """What the table keeps for its writers, as it was when this was first asked."""
        return read_own_properties(self.storage)

    @cached_property
    def listing(self) -> Listing:
        """The data files of the table."""
        self.check_timeline()
        listing = list_files(self.storage, self.metadata)
        if self.metadata is None and self.metadata_problem is not None:
            return Listing(listing.files, f"{listing.source}, as {self.metadata_problem}")
        return listing

    @cached_property
    def slices(self) -> Slices:
        """The file slices that a full read reads, by partition and file id."""
        found: list[FileSlice] = []
        for partition in sorted(self.listing.files):
            found.extend(latest_slices(partition, self.listing.files[partition], self.visibility))
        return Slices(found)

    @cached_property
    def visibility(self) -> Visibility:
        """Which files and file groups this snapshot shows."""
        replaced = {
            FileSliceId(partition, file_id)
            for partition, file_ids in self.timeline.replaced_file_ids().items()
            for file_id in file_ids
        }
        pending: dict[FileSliceId, str] = {}
        for instant in self._full_timeline.pending_of(Action.COMPACTION):
            try:
                plan = self._full_timeline.compaction_plan(instant.requested_time)
            except FileMissing:
                continue  # taken back, or done and archived, since the timeline was read
            for operation in plan.operations:
                place = FileSliceId(operation.partition_path or "", operation.file_id or "")
                pending[place] = instant.requested_time
        return Visibility(
            is_visible=self.timeline.is_committed_write,
            completion_time=self.timeline.completion_time_or_self,
            logs_name_own_instant=self.config.version >= _FIRST_VERSION_WITH_OWN_LOG_INSTANTS,
            replaced=frozenset(replaced),
            pending_compactions=pending,
        )

    @cached_property
    def read_context(self) -> ReadContext:
        """What reading slices needs to know."""
        return ReadContext(
            storage=self.storage,
            config=self.config,
            schema=self.schema,
            history=self.history,
            is_committed=self.timeline.is_committed_write,
        )

    def expression_named(self, name: str, time_zone: str) -> Expr | None:
        """The bound expression of an index that a query names; None for all else."""
        zones = partial(getattr, self, "expression_zones")
        return expression_kind().expression_named(
            name, self.schema, self._expressions, zones, time_zone
        )

    @property
    def expression_names(self) -> frozenset[str]:
        """What queries may call expression indexes, in small letters."""
        return expression_kind().expression_names(self._expressions)

    @property
    def _expressions(self) -> Mapping[str, IndexDefinition]:
        prefix = expression_kind().prefixes[-1]
        beside = {
            prefix + given_name(each): each for each in readable_file_indexes(self.config).values()
        }
        return {**beside, **(self.readable_definitions or {})}

    def with_index_names(self, predicate: Expr, time_zone: str) -> Expr:
        """A predicate that is not bound yet, with names of expression indexes understood."""
        return with_expressions(predicate, partial(self.expression_named, time_zone=time_zone))

    @property
    def stored_table(self) -> StoredTable:
        """What index kinds may know of this snapshot beside the metadata table."""
        return StoredTable(
            self.storage,
            self.config,
            self.timeline,
            partial(getattr, self, "read_context"),
            partial(getattr, self, "slices"),
            partial(getattr, self, "own_properties"),
        )

    def indexed_table(
        self, *, time_zone: str = "UTC", expression_time_zone: str | None = None
    ) -> IndexedTable | None:
        """What index kinds may know of this snapshot; None without a metadata table."""
        definitions = self.readable_definitions
        if self.metadata is None or definitions is None:
            return None
        return self._indexed_table(self.metadata, definitions, time_zone, expression_time_zone)

    def unindexed_table(self, *, time_zone: str = "UTC") -> IndexedTable:
        """The same for index kinds that need no metadata table, as if it were empty."""
        return self._indexed_table(MetadataTable.empty(self._full_timeline), {}, time_zone, None)

    def _indexed_table(
        self,
        metadata: MetadataTable,
        definitions: Mapping[str, IndexDefinition],
        time_zone: str,
        expression_time_zone: str | None,
    ) -> IndexedTable:
        return IndexedTable(
            read=self.read_context,
            timeline=self.timeline,
            metadata=metadata,
            definitions=definitions,
            slices=self.slices,
            is_latest=self.is_latest,
            time_zone=time_zone,
            expression_time_zone=expression_time_zone,
            zones=partial(getattr, self, "expression_zones"),
            own=partial(getattr, self, "own_properties"),
            kept=self._kept,
            facts=self._facts,
        )
