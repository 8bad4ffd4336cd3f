"""The record index as a kind of index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from lakedex.config import TableConfig, keys
from lakedex.config import write_option_names as options_of
from lakedex.config.write_options import WriteOptions
from lakedex.errors import InvalidInput
from lakedex.filegroup import FileSliceId, parse_data_file
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.record_index.lookup import RecordIndex, distinct_locations
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import Kind, MetadataTable
from lakedex.index.metadata_table.hashing import Int32s, shards_of
from lakedex.index.request import PARTITIONED, CreateRequest, NewIndex
from lakedex.index.size_estimate import IndexedRows, shards_for
from lakedex.index.verification.findings import Problem
from lakedex.storage import Storage, split

_DASHES_OF_A_PARTITION = 4
"""In `record-index-<partition>-<number>-0`, the id of a file group of one data partition."""

_WHY_SYNC = "writers find records by it, and secondary indexes lead through it"


class RecordIndexKind(RecordIndex, MetadataIndexKind):
    """The record index as a kind of index."""

    partition = Kind.RECORD_INDEX
    is_of_keys = True
    is_reshardable = True
    build_order = 3
    usual_file_groups = 10
    is_suggested = True
    switches = (options_of.GLOBAL_RECORD_INDEX, options_of.PARTITIONED_RECORD_INDEX)
    options = (PARTITIONED,)
    aliases = ("record_level", "record_level_index")

    def define(self, request: CreateRequest) -> NewIndex:
        """The write options that keep a record index over the whole table, or for each partition.

        Raises:
            InvalidInput: the columns are not the record key, or an option is wrong.
        """
        options = dict(request.options)
        by_partition = _by_partition(options)
        options = replace(request, options=options).write_options(_WHY_SYNC)
        _check_key(request)
        return NewIndex({**options, options_of.GLOBAL_RECORD_INDEX.name: "true", **by_partition})

    def extend(self, request: CreateRequest) -> None:
        """Check a statement about the record index of the table: nothing can be added to it."""
        self.define(request)

    def rebuild(
        self, request: CreateRequest, name: str, definition: IndexDefinition | None
    ) -> NewIndex:
        """The write options by which the same index is built again."""
        del request, name
        if definition is not None and definition.is_partitioned:
            return NewIndex({options_of.PARTITIONED_RECORD_INDEX.name: "true"})
        return NewIndex({options_of.GLOBAL_RECORD_INDEX.name: "true"})

    def definition_of_table(
        self,
        known: IndexDefinition | None,
        *,
        is_new: bool,
        stat_columns: tuple[str, ...],
        is_partitioned: bool,
    ) -> IndexDefinition | None:
        """Whether there is one for each partition."""
        del stat_columns
        if not is_new:
            return known
        options = {PARTITIONED: str(is_partitioned).lower()}
        return IndexDefinition(self.kind, self.kind, "", (), options)

    def first_file_groups(self, size: IndexedRows) -> int:
        """By the number of rows, in the bounds that options set."""
        options = size.options
        return shards_for(
            size.rows,
            *options.record_index_groups,
            partitioned=size.is_partitioned,
            room=options.record_index_room,
        )

    def planned(self, definition: IndexDefinition | None) -> NewIndex | None:
        """The index over the whole table, or for each partition."""
        is_partitioned = definition is not None and definition.is_partitioned
        return NewIndex({self.switches[is_partitioned].name: "true"})

    def kept_settings(
        self, definition: IndexDefinition | None, kept: Mapping[str, str], *, is_live: bool
    ) -> dict[str, str]:
        """The switch of the index, over the whole table or for each partition."""
        if not is_live:
            return {}
        by_partition = definition is not None and definition.is_partitioned
        settings = {self.switches[by_partition].name: "true"}
        if options_of.INDEX_TYPE.given(kept) is None:
            index = "RECORD_LEVEL_INDEX" if by_partition else "GLOBAL_RECORD_LEVEL_INDEX"
            settings[options_of.INDEX_TYPE.name] = index
        return settings

    def require_unused(
        self, config: TableConfig, kept: Mapping[str, str], definition: IndexDefinition | None
    ) -> None:
        """Refuse to drop the index where writes find records by it."""
        partitioned = None if definition is None else definition.is_partitioned
        options = WriteOptions.resolve(config, kept, {}, record_index_partitioned=partitioned)
        chosen = options.index_type
        # Without meta columns no writer maintains the index, and writes do not use it.
        if chosen.uses_record_index and config.populate_meta_fields:
            raise InvalidInput(
                f"the writes of table {config.name} find records by the record index "
                f"(hoodie.index.type={chosen.value}); it cannot be dropped"
            )

    def recovered_definition(self, storage: Storage) -> IndexDefinition | None:
        """Whether there is one for each partition, as the names of its file groups tell."""
        infos = storage.list(f"{keys.METADATA_TABLE_FOLDER}/{self.kind}")
        files = (parse_data_file(split(info.path)[1], 0) for info in infos)
        by_partition = any(
            file is not None and file.file_id.count("-") == _DASHES_OF_A_PARTITION for file in files
        )
        options = {"isPartitioned": str(by_partition).lower()}
        return IndexDefinition(self.kind, self.kind, "", (), options)

    def can_repair(self, problem: Problem, *, is_plain: bool) -> bool:
        """Where the place of the row is known."""
        del is_plain
        return problem.place is not None

    def live_file_groups(self, metadata: MetadataTable) -> frozenset[FileSliceId]:
        """The file groups that record keys are in."""
        return frozenset(distinct_locations(metadata.scan(self.kind)))

    def find_records(
        self,
        metadata: MetadataTable,
        name: str,
        definition: IndexDefinition | None,
        keys: pa.Array,
    ) -> pa.Table:
        """The records of some keys; an index for each partition has them in any partition."""
        if definition is None or not definition.is_partitioned:
            return metadata.lookup(name, keys)
        parts = [metadata.lookup_in(name, each.file_id, keys) for each in metadata.groups(name)]
        return pa.concat_tables(parts) if parts else metadata.lookup(name, keys)

    def key_shards(
        self, definition: IndexDefinition | None, keys: pa.Array, count: int
    ) -> Int32s | None:
        """Those of the keys' hashes, where the index is one over the whole table."""
        is_partitioned = definition is not None and definition.is_partitioned
        return None if is_partitioned else shards_of(keys, count)


def _by_partition(options: dict[str, str]) -> dict[str, str]:
    """Take the option out that says whether there is an index for each partition."""
    value = options.pop(PARTITIONED, None)
    if value is None:
        return {}
    if value.lower() not in ("true", "false"):
        raise InvalidInput(f"{PARTITIONED}={value!r}: a record_index has it, true or false")
    return {
        options_of.PARTITIONED_RECORD_INDEX.name: value.lower(),
        options_of.GLOBAL_RECORD_INDEX.name: "false" if value.lower() == "true" else "true",
    }


def _check_key(request: CreateRequest) -> None:
    keys = request.config.record_key_fields
    if request.columns != tuple(keys):
        raise InvalidInput(
            f"the record index of table {request.table} is on its key ({', '.join(keys)}), not on "
            f"{', '.join(request.columns)}"
        )
