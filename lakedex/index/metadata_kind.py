"""The base class of index kinds whose records are in the metadata table.

Besides Hudi's kinds it is that of the windowed record index, which has the records of a record
index in files of its own. Everything that differs between kinds is a method here: services find a
kind through the registry, and name none. A method that a kind does not override runs a function of
a module of the kind's package, imported when it is used, as queries need none of them: `define.py`
(CREATE INDEX), `collect.py` (what tasks note), `records.py`, `check.py` (verify and repair) and
`advice.py` (size, advice and what-if of an index that does not exist).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.config.option_values import FlagOption, TextOption, flag_text
from lakedex.errors import UnsupportedFeature
from lakedex.expr.tree import Expr
from lakedex.filegroup import FileSlice, FileSliceId, ReadContext
from lakedex.index.advice import HypotheticalIndex, Suggestion, Workload
from lakedex.index.catalog import IndexInfo
from lakedex.index.contract import Mask, StoredTable
from lakedex.index.definitions import IndexDefinition
from lakedex.index.maintenance import MaintainedIndex, MaintainRequest
from lakedex.index.metadata_table import Kind, MetadataTable
from lakedex.index.metadata_table.hashing import Int32s
from lakedex.index.metadata_table.partitions import Change
from lakedex.index.metadata_table.shard_writer import FEW_NOTES, NotedRecords
from lakedex.index.request import CreateRequest, NewIndex
from lakedex.index.size_estimate import IndexedRows, SampledTable, SizeEstimate
from lakedex.index.verification.check import Check, RepairedTable, Subject
from lakedex.index.verification.findings import Problem
from lakedex.index.written import CommitChanges
from lakedex.storage.protocol import Storage
from lakedex.timeline import Timeline


class MetadataIndexKind:
    """A kind of index whose records are in the metadata table."""

    kind: ClassVar[str]
    """Its name in reports of queries, and in `without_indexes`."""
    partition: ClassVar[Kind | None]
    """What the metadata table calls its partitions; None for an index outside of it."""
    prefixes: ClassVar[tuple[str, ...]] = ()
    """What stands before the given name in the full names of indexes; a longer prefix before the
    one that it begins with. Empty for a kind that a table has once, under the name of the kind."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """How RFCs and early releases of Hudi spell the kind."""
    is_creatable: ClassVar[bool] = True
    """Whether CREATE INDEX makes indexes of this kind."""
    is_default: ClassVar[bool] = False
    """Whether CREATE INDEX without a kind makes it."""
    indexes_expressions: ClassVar[bool] = False
    """Whether it checks and defines expressions, for indexes of other kinds too."""
    options: ClassVar[tuple[str, ...]] = ()
    """What a statement may say of the index itself, beside write options."""
    leaves_outdated_entries: ClassVar[bool] = False
    """Whether a refresh of an index with `maintenance=async` keeps entries of rows that changed."""
    switches: ClassVar[tuple[FlagOption, ...]] = ()
    """The write options by which writers keep an index that a table has once."""
    choices: ClassVar[tuple[TextOption, ...]] = ()
    """Write options that say how such an index is; they are forgotten with it."""
    derived: ClassVar[tuple[str, ...]] = ()
    """Indexes whose records are made of those of this kind: they are dropped and built with it."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Indexes without which one of this kind is of no use."""
    build_order: ClassVar[int] = 0
    """Where an index that a table has once comes when all of them are built, as in Hudi."""
    usual_file_groups: ClassVar[int] = 1
    """What Hudi gives it where a table does not say a number."""
    has_stat_columns: ClassVar[bool] = False
    """Whether it has ranges of columns that options choose."""
    collects: ClassVar[bool] = False
    """Whether tasks note for it what they write."""
    is_of_keys: ClassVar[bool] = False
    """Whether entries are about record keys, and a key decides on the file group of its entry."""
    describes_files: ClassVar[bool] = False
    """Whether it has entries of files or partitions, which can be made again from those alone."""
    is_reshardable: ClassVar[bool] = False
    """Whether it can get another number of file groups without a look at the data."""
    few_entries: ClassVar[int] = FEW_NOTES
    """So many entries are written without a job."""
    is_suggested: ClassVar[bool] = False
    """Whether `advise` suggests indexes of this kind."""
    needs_metadata: ClassVar[bool] = True
    """Whether queries need the metadata table to use it."""
    serves_queries_only: ClassVar[bool] = False
    """Whether an index that helps no query is of no use."""

    @property
    def is_named(self) -> bool:
        """Whether a table can have several of them, each with a name and a definition."""
        return bool(self.prefixes)

    def given_name(self, name: str) -> str:
        """The name that an index was given, from its full name."""
        prefix = next((each for each in self.prefixes if name.startswith(each)), "")
        return name.removeprefix(prefix)

    def accepts(self, request: CreateRequest, kind: str) -> bool:
        """Whether a statement that names a kind, or means it by its name, is about this one."""
        del request
        return self.is_creatable and kind == self.kind

    def define(self, request: CreateRequest) -> NewIndex:
        """What CREATE INDEX builds, once nothing is wrong with the statement.

        Raises:
            InvalidInput: a column or an option is wrong; the message says what to do.
            UnsupportedFeature: lakedex has no such index.
        """
        define: Callable[[CreateRequest], NewIndex] = self._part("define").define
        return define(request)

    def extend(self, request: CreateRequest) -> NewIndex | None:
        """What CREATE INDEX adds to an index that the table has; None for nothing.

        Raises:
            InvalidInput: a column or an option is wrong.
        """
        extend: Callable[[CreateRequest], NewIndex | None] = self._part("define").extend
        return extend(request)

    def rebuild(
        self, request: CreateRequest, name: str, definition: IndexDefinition | None
    ) -> NewIndex | None:
        """An index of the table as it is built again; None where there is nothing to build.

        Args:
            request: The table, and the name that the index was given.
            name: Its full name.
            definition: Its definition, where the table has one.

        Raises:
            InvalidInput: it cannot be built any more.
            IndexUnusable: it cannot be built by lakedex.
            UnsupportedFeature: there is no way to build it alone.
        """
        if not self.is_creatable:
            raise UnsupportedFeature(f"building the index {name} again")
        rebuild: Callable[[CreateRequest, str, IndexDefinition | None], NewIndex | None]
        rebuild = self._part("define").rebuild
        return rebuild(request, name, definition)

    def maintained(self, name: str, request: MaintainRequest) -> MaintainedIndex | None:
        """An index as writers keep it up to date; None if they note nothing for it.

        Raises:
            IndexUnusable: it cannot be kept up to date.
        """
        if not self.collects:
            return None
        maintained: Callable[[str, MaintainRequest], MaintainedIndex | None]
        maintained = self._part("collect").maintained
        return maintained(name, request)

    def first_file_groups(self, size: IndexedRows) -> int:
        """How many file groups a new index gets; for each data partition, if these have own."""
        del size
        return self.usual_file_groups

    def definition_of_table(
        self,
        known: IndexDefinition | None,
        *,
        is_new: bool,
        stat_columns: tuple[str, ...],
        is_partitioned: bool,
    ) -> IndexDefinition | None:
        """The definition of an index that a table has once; None if it has, or keeps, none.

        Args:
            known: The definition that the table has.
            is_new: Whether the index is made by the write.
            stat_columns: The columns that have ranges, if any have.
            is_partitioned: Whether the record index has file groups for each data partition.
        """
        del is_new, stat_columns, is_partitioned
        return known

    def stamped(
        self, definition: IndexDefinition, timeline: Callable[[], Timeline]
    ) -> IndexDefinition:
        """The definition of an index that is about to be built from what is committed now."""
        del timeline
        return definition

    def commit_note(
        self,
        maintained: Sequence[MaintainedIndex],
        new: Sequence[MaintainedIndex],
        timeline: Timeline,
        definitions: Mapping[str, IndexDefinition],
    ) -> dict[str, str]:
        """What a commit says in its metadata of the indexes of this kind.

        Args:
            maintained: Those that the commit keeps up to date.
            new: Those that it builds.
            timeline: The table's timeline just before the commit.
            definitions: The table's index definitions at that time.
        """
        del maintained, new, timeline, definitions
        return {}

    def kept_settings(
        self, definition: IndexDefinition | None, kept: Mapping[str, str], *, is_live: bool
    ) -> dict[str, str]:
        """The settings by which the next write builds an index that a table has once, or does not.

        Args:
            definition: Its definition, where the table has one.
            kept: What the table keeps for its writers.
            is_live: Whether the table has the index.
        """
        del definition, kept
        return {option.name: flag_text(is_live) for option in self.switches}

    def can_build_again(
        self, name: str, definition: IndexDefinition | None, kept: Mapping[str, str]
    ) -> bool:
        """Whether an index can be built again from the data, as it was, without the metadata table.

        Args:
            name: Its full name.
            definition: Its definition, where the table has one.
            kept: What the table keeps for its writers.
        """
        del name, kept
        return not self.is_named or (definition is not None and bool(definition.source_fields))

    def range_key(
        self, column: str, live: Collection[str], definitions: Mapping[str, IndexDefinition]
    ) -> tuple[str, str] | None:
        """The live index with the ranges of a column, and the name of the column there."""
        del column, live, definitions
        return None

    def can_maintain(self, name: str, definitions: Mapping[str, IndexDefinition]) -> bool:
        """Whether writers can keep an index up to date."""
        del name, definitions
        return True

    def records(
        self,
        name: str,
        changes: CommitChanges,
        instant: str,
        definitions: Mapping[str, IndexDefinition],
    ) -> Change | NotedRecords:
        """What a commit writes to an index: records, or notes of which workers make them.

        Args:
            name: The full name of the index.
            changes: What the commit did.
            instant: Its instant.
            definitions: The indexes of the table, and those in the making.
        """
        records: Callable[
            [str, CommitChanges, str, Mapping[str, IndexDefinition]], Change | NotedRecords
        ] = self._part("records").records
        return records(name, changes, instant, definitions)

    def check(self, name: str, subject: Subject) -> Check:
        """The check by which `verify` compares an index with the data: `start` of `check.py`.

        Raises:
            LakedexError: the index cannot be read.
        """
        start: Callable[[str, Subject], Check] = self._part("check").start
        return start(name, subject)

    def planned(self, definition: IndexDefinition | None) -> NewIndex | None:
        """An index that another engine planned to build; None where lakedex cannot take over."""
        del definition
        return NewIndex({self.switches[0].name: "true"}) if self.switches else None

    def require_unused(
        self, config: TableConfig, kept: Mapping[str, str], definition: IndexDefinition | None
    ) -> None:
        """Refuse to drop an index that writes of the table need.

        Args:
            config: The properties of the table.
            kept: What the table keeps for its writers.
            definition: The definition of the index, where the table has one.

        Raises:
            InvalidInput: writes need it.
        """

    def recovered_definition(self, storage: Storage) -> IndexDefinition | None:
        """The definition of an index as its files imply it, where it is lost."""
        del storage
        return None

    def has_plain_entries(self, definition: IndexDefinition, schema: pa.Schema) -> bool:
        """Whether the entries of an index are nothing but their keys, which `verify` reports."""
        del definition, schema
        return False

    def can_repair(self, problem: Problem, *, is_plain: bool) -> bool:
        """Whether an entry that is missing, wrong or stale can be repaired by itself.

        Args:
            problem: A problem with one entry, about a record key or a file.
            is_plain: What `has_plain_entries` says of the index.
        """
        del problem, is_plain
        return False

    def repair(self, name: str, problems: Sequence[Problem], table: RepairedTable) -> CommitChanges:
        """What a commit writes to repair single entries of an index."""
        repair: Callable[[str, Sequence[Problem], RepairedTable], CommitChanges]
        repair = self._part("check").repair
        return repair(name, problems, table)

    def live_index_on(
        self,
        config: TableConfig,
        definitions: Mapping[str, IndexDefinition],
        columns: tuple[str, ...],
    ) -> str | None:
        """The live index of this kind on these columns and no others, if there is one."""
        live = config.metadata_partitions
        return next(
            (
                name
                for name, each in definitions.items()
                if name in live and name.startswith(self.prefixes) and each.source_fields == columns
            ),
            None,
        )

    def advise(self, workload: Workload) -> Iterator[Suggestion | str]:
        """Indexes of this kind that would have helped queries; a text says why not, and of what."""
        advise: Callable[[Workload], Iterator[Suggestion | str]] = self._part("advice").advise
        return advise(workload)

    def covered(
        self,
        metadata: MetadataTable,
        definition: IndexDefinition,
        context: ReadContext,
        slices: Sequence[FileSlice],
    ) -> Mask:
        """The file slices that an index covers which writers do not maintain."""
        del metadata, definition, context
        return np.ones(len(slices), dtype=np.bool_)

    def live_file_groups(self, metadata: MetadataTable) -> frozenset[FileSliceId] | None:
        """The file groups that have rows, as the entries of a live index say; None if they do not.

        Raises:
            CorruptFile: the index cannot be read.
        """
        del metadata
        return None

    def estimate_size(self, table: SampledTable, columns: tuple[str, ...]) -> SizeEstimate | None:
        """What an index on some columns would take and bring; None where nothing can be said.

        Raises:
            InvalidInput: a column cannot be indexed.
        """
        estimate: Callable[[SampledTable, tuple[str, ...]], SizeEstimate | None]
        estimate = self._part("advice").estimate
        return estimate(table, columns)

    def what_if(self, columns: tuple[str, ...], schema: pa.Schema) -> HypotheticalIndex:
        """An index that does not exist, on some columns of a table, or as a table has it once.

        Raises:
            InvalidInput: a column cannot be indexed.
        """
        what_if: Callable[[MetadataIndexKind, tuple[str, ...], pa.Schema], HypotheticalIndex]
        what_if = self._part("advice").what_if
        return what_if(self, columns, schema)

    def expression_names(self, definitions: Mapping[str, IndexDefinition]) -> frozenset[str]:
        """The names, in small letters, by which queries may mean what an index is about."""
        del definitions
        return frozenset()

    def expression_named(
        self,
        name: str,
        schema: pa.Schema,
        definitions: Mapping[str, IndexDefinition],
        zones: Callable[[], Mapping[str, str]],
        time_zone: str,
    ) -> Expr | None:
        """The bound expression of the index of a name; None for a column, or no such index.

        Args:
            name: As the query has it.
            schema: The columns of the table.
            definitions: Its indexes.
            zones: Reads the zones that expression indexes are computed in, by index.
            time_zone: That of the query.

        Raises:
            InvalidInput: the index is computed in another zone than the query is.
            IndexUnusable: its expression is not known here.
        """
        del name, schema, definitions, zones, time_zone
        return None

    def find_records(
        self,
        metadata: MetadataTable,
        name: str,
        definition: IndexDefinition | None,
        keys: pa.Array,
    ) -> pa.Table:
        """The records of some keys, read from nothing but the blocks that may hold them."""
        del definition
        return metadata.lookup(name, keys)

    def key_shards(
        self, definition: IndexDefinition | None, keys: pa.Array, count: int
    ) -> Int32s | None:
        """The file groups, among `count`, of keys of an index whose groups share no key.

        None where groups do share keys, or there is no definition.
        """
        del definition, keys, count
        return None

    def outside_metadata(self, table: StoredTable) -> list[IndexInfo]:
        """The indexes of this kind that a table has outside of the metadata table."""
        del table
        return []

    def behind(
        self, timeline: Timeline, definitions: Mapping[str, IndexDefinition]
    ) -> frozenset[str]:
        """The indexes that queries must not use, as another engine wrote to the table only."""
        del timeline, definitions
        return frozenset()

    def kept_note(
        self, timeline: Timeline, definitions: Mapping[str, IndexDefinition]
    ) -> dict[str, str]:
        """What a commit that changes no rows says of the indexes that are right after it."""
        del timeline, definitions
        return {}

    def _part(self, name: str) -> ModuleType:
        """A module of the kind's package that queries do not need, imported when it is used."""
        return import_module(f"{type(self).__module__.rpartition('.')[0]}.{name}")
