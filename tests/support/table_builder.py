"""Builds a Hudi table of version 9 on a local disk with lakedex's codecs alone.

    builder = TableBuilder(path, schema, record_key="id", partition_by="p", ordering="ver",
                           table_type="mor", indexes=["column_stats", "record_index"])
    builder.commit([("a", rows), ("a", more_rows), ("b", others)])     # one base file each
    builder.log_commit(updates=changed_rows, deletes=["k7"])           # one log file a group
    table = builder.finish()                                           # the path
    builder.rows()                                                     # what readers must see

Times start at a fixed moment, file ids are counted up: the same calls give the same table.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import keys as names
from lakedex.config.table_config import TimelineZone
from lakedex.index.definitions import format_definitions
from lakedex.timeline import Action, CommitMetadata, to_epoch_ms
from tests.support.commit_effects import Effects, IndexKeeper, write_stats
from tests.support.data_files import (
    RECORD_KEY,
    DataFileWriter,
    Deletes,
    record_keys,
    set_file_names,
)
from tests.support.index_specs import Index, IndexPlan
from tests.support.metadata_writer import MetadataWriter
from tests.support.model import Group, merge
from tests.support.timeline_files import (
    Clock,
    data_properties,
    key_generator,
    write_completed,
    write_partition_metafile,
    write_pending,
    write_properties,
)

_TOKEN = "0-0-0"
_NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
_DEFS_PATH = ".hoodie/.index_defs/index.json"


class TableBuilder:
    """A table under construction.

    Args:
        path: a folder that is not there yet; its name is the table's name.
        schema: the user's columns; partition columns may be left out of the tables given later.
        record_key: one key column or several.
        partition_by: one partition column, several, or none.
        ordering: the column by which the newer of two versions is told.
        table_type: `cow` or `mor`.
        hive_style: whether folders are called `column=value`.
        indexes: of `column_stats`, `partition_stats`, `bloom_filters`, `record_index`,
            `SecondaryIndex` and `ExpressionIndex`; `files` is always there.
        groups: file group counts by metadata partition, or by kind (`secondary_index`).
        metadata: None for no metadata table, `log` for log blocks only, `base` for base HFiles.
        start: the time before the first instant.
        compression: the codec of base files.
        nan_bounds: statistics of a float column with a NaN: `none`, `nan` or `infinite`.
    """

    def __init__(
        self,
        path: str | Path,
        schema: pa.Schema,
        *,
        record_key: str | Sequence[str],
        partition_by: str | Sequence[str] = (),
        ordering: str | None = None,
        table_type: str = "cow",
        hive_style: bool = True,
        indexes: Sequence[Index] = (),
        groups: Mapping[str, int] | None = None,
        metadata: str | None = "log",
        start: str = "20240101000000000",
        compression: str = "snappy",
        nan_bounds: str = "none",
    ) -> None:
        """Write the properties and the index definitions."""
        self.path = Path(path)
        self.schema = schema
        self.table_type = table_type
        self._record_key = _names(record_key)
        self._partition_by = _names(partition_by)
        self._ordering = ordering
        self._hive_style = hive_style
        self._clock = Clock(start)
        self._groups: list[Group] = []
        name = self.path.name
        self._named_keys = (
            len(self._record_key) > 1
            or key_generator(self._record_key, self._partition_by) == "COMPLEX"
        )
        self._files = DataFileWriter(self.path, name, schema, compression)
        self._plan = IndexPlan.of(
            indexes, schema, groups or {}, partitioned=bool(self._partition_by)
        )
        self._keeper = IndexKeeper(self._plan, nan_bounds)
        self._metadata = (
            MetadataWriter(self.path, name, self._plan.partitions(), layout=metadata)
            if metadata
            else None
        )
        self._write_properties(name)

    def commit(
        self,
        inserts: Sequence[tuple[object, pa.Table]] = (),
        *,
        updates: pa.Table | None = None,
        deletes: Sequence[str] = (),
        phantom_files: bool = False,
    ) -> str:
        """Commit base files and return the instant time.

        Each insert `(partition value or values, rows)` becomes a file group of its own. In a
        copy-on-write table the groups with updated or deleted keys are written anew. Phantom files
        are in the metadata table and in no folder: enough for planning, not for reading.
        """
        if (updates is not None or len(deletes)) and self.table_type == "mor":
            raise ValueError("a merge-on-read table takes changes by log_commit")
        time, action = self._begin()
        pieces, inserted = self._insert_pieces(inserts, time)
        effects = Effects(time, inserted=inserted)
        for group, rows in pieces:
            effects.add_file(group, rows)
        wanted = Deletes(pa.array(deletes, pa.string()))
        for group, own_updates, own_deletes in self._split(updates, wanted, time):
            merged = merge(group.rows, own_updates, own_deletes, self._ordering)
            effects.add_merge(merged)
            effects.add_file(group, merged.rows)
        self._write_bases(effects, time, phantom=phantom_files)
        self._complete(effects, action)
        return time

    def log_commit(
        self,
        updates: pa.Table | None = None,
        deletes: Sequence[str] = (),
        *,
        delete_ordering: pa.Array | None = None,
        block: str = "avro",
    ) -> str:
        """Commit log files with the new versions of rows, and deletes by record key.

        `delete_ordering` makes the deletes conditional; `block` is `avro` or `parquet`.
        """
        if self.table_type != "mor":
            raise ValueError("a copy-on-write table has no log files")
        time, action = self._begin()
        effects = Effects(time, is_log=True)
        wanted = Deletes(pa.array(deletes, pa.string()), delete_ordering)
        for group, own_updates, own_deletes in self._split(updates, wanted, time):
            merged = merge(group.rows, own_updates, own_deletes, self._ordering)
            effects.add_merge(merged)
            effects.add_file(group, own_updates)
            name = f".{group.file_id}_{time}.log.1_{_TOKEN}"
            path = _join(group.partition, name)
            size = self._files.write_log(
                path, time, own_updates, own_deletes, group.partition, block
            )
            effects.set_log(name, size, len(own_deletes.keys))
            group.rows = merged.rows
        self._complete(effects, action)
        return time

    def finish(self) -> str:
        """Make sure that the metadata table is there, and return the table's path."""
        if self._metadata is not None:
            self._metadata.ensure(self._clock)
        return str(self.path)

    def rows(self, *, meta: bool = False) -> pa.Table:
        """The rows that readers must see, with all meta columns or none, in no order."""
        whole = pa.concat_tables(
            [self._files.full_schema.empty_table(), *(group.rows for group in self._groups)]
        )
        return whole if meta else whole.select(self.schema.names)

    @property
    def file_ids(self) -> list[str]:
        """The file ids of all file groups, in the order of their insertion."""
        return [group.file_id for group in self._groups]

    def file_id_of(self, record_key: str) -> str:
        """The file group that holds a live record."""
        return next(
            group.file_id
            for group in self._groups
            if pc.index(group.rows[RECORD_KEY], record_key).as_py() >= 0
        )

    def _write_properties(self, name: str) -> None:
        props = data_properties(
            name,
            self.table_type,
            record_key=self._record_key,
            partition_by=self._partition_by,
            ordering=self._ordering,
            hive_style=self._hive_style,
        )
        if self._metadata is not None:
            props[names.METADATA_PARTITIONS] = ",".join(sorted(self._plan.partitions()))
            props[names.METADATA_PARTITIONS_INFLIGHT] = ""
            definitions = self._plan.definitions()
            if definitions:
                props[names.INDEX_DEFS_PATH] = _DEFS_PATH
                (self.path / _DEFS_PATH).parent.mkdir(parents=True)
                (self.path / _DEFS_PATH).write_bytes(format_definitions(definitions))
        write_properties(self.path, props)

    def _begin(self) -> tuple[str, Action]:
        time = self._clock.next()
        action = Action.COMMIT if self.table_type == "cow" else Action.DELTACOMMIT
        write_pending(self.path, time, action)
        return time, action

    def _insert_pieces(
        self, inserts: Sequence[tuple[object, pa.Table]], time: str
    ) -> tuple[list[tuple[Group, pa.Table]], pa.Table]:
        """New groups with their rows, and all inserted rows with the columns of their place."""
        if not inserts:
            return [], self._files.full_schema.empty_table()
        nothing = self._files.full_schema.empty_table()
        tables, groups = [], []
        for partition, table in inserts:
            values = partition if isinstance(partition, tuple) else (partition,)
            tables.append(self._conform(table, values[: len(self._partition_by)]))
            number = len(self._groups) + len(groups)
            file_id = f"{uuid.uuid5(_NAMESPACE, f'{self.path.name}/{number}')}-0"
            groups.append(Group(self._partition_path(values), file_id, nothing))
        numbers = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        # Slicing a table of many chunks walks all of them.
        rows = pa.concat_tables(tables).combine_chunks()
        keys = record_keys(rows, self._record_key, named=self._named_keys)
        paths = pa.array([group.partition for group in groups], pa.string())
        rows = self._files.with_meta(
            rows, keys, paths.take(pa.array(numbers)), time, pa.array(numbers)
        )
        ends = np.cumsum([0, *(len(table) for table in tables)]).tolist()
        pieces = [
            (group, rows.slice(start, end - start))
            for group, start, end in zip(groups, ends[:-1], ends[1:], strict=True)
        ]
        self._groups += groups
        return pieces, rows

    def _split(
        self, updates: pa.Table | None, deletes: Deletes, time: str
    ) -> list[tuple[Group, pa.Table, Deletes]]:
        """Updates (with meta columns) and deletes by the group that holds their keys."""
        table = self.schema.empty_table() if updates is None else self._conform(updates, ())
        keys = record_keys(table, self._record_key, named=self._named_keys)
        if not len(keys) and not len(deletes.keys):
            return []
        if pc.any(pc.is_in(deletes.keys, keys)).as_py():
            raise ValueError("a commit may not both update and delete a key")
        update_groups, delete_groups = self._locate(keys), self._locate(deletes.keys)
        paths = pa.array([group.partition for group in self._groups], pa.string())
        rows = self._files.with_meta(
            table, keys, paths.take(pa.array(update_groups)), time, pa.array(update_groups)
        )
        rows = set_file_names(rows, self.file_ids, update_groups)
        touched = np.union1d(update_groups, delete_groups).tolist()
        return [
            (
                self._groups[number],
                rows.filter(pa.array(update_groups == number)),
                deletes.filter(delete_groups == number),
            )
            for number in touched
        ]

    def _locate(self, keys: pa.Array) -> np.ndarray:
        """The number of the group that holds each key."""
        lengths = [len(group.rows) for group in self._groups]
        owners = np.repeat(np.arange(len(lengths)), lengths)
        stored = pa.chunked_array(
            [chunk for group in self._groups for chunk in group.rows[RECORD_KEY].chunks],
            pa.string(),
        )
        at = pc.index_in(keys, stored)
        if at.null_count:
            raise ValueError(f"no row has the key {keys.filter(at.is_null())[0].as_py()!r}")
        return owners[at.to_numpy()].astype(np.int64)

    def _write_bases(self, effects: Effects, time: str, *, phantom: bool) -> None:
        for group, rows, _ in effects.files:
            group.base_name = f"{group.file_id}_{_TOKEN}_{time}.parquet"
            if not phantom:
                self._mark_partition(group.partition, time)
            group.rows = set_file_names(rows, [group.base_name], np.zeros(len(rows), np.int64))
            path = _join(group.partition, group.base_name)
            written = self._files.write_base(path, group.rows, phantom=phantom)
            effects.set_base(group.base_name, written)

    def _mark_partition(self, partition: str, time: str) -> None:
        depth = len(partition.split("/")) if partition else 0
        write_partition_metafile(self.path / partition, time, depth)

    def _complete(self, effects: Effects, action: Action) -> None:
        if self._metadata is not None:
            instant_ms = to_epoch_ms(effects.time, TimelineZone.UTC)
            changes = self._keeper.changes(effects, instant_ms)
            self._metadata.commit(effects.time, self._clock, changes)
        metadata = CommitMetadata(
            write_stats(effects),
            {"schema": self._files.schema_text},
            operation_type="UPSERT" if len(effects.old) or effects.is_log else "INSERT",
            version=1,
        )
        write_completed(self.path, effects.time, self._clock.next(), action, metadata)

    def _conform(self, table: pa.Table, values: tuple[object, ...]) -> pa.Table:
        for name, value in zip(self._partition_by, values, strict=False):
            if name not in table.column_names:
                constant = pa.repeat(pa.scalar(value, self.schema.field(name).type), len(table))
                table = table.append_column(name, constant)
        return table.select(self.schema.names).cast(self.schema)

    def _partition_path(self, values: tuple[object, ...]) -> str:
        levels = [
            f"{name}={value}" if self._hive_style else str(value)
            for name, value in zip(self._partition_by, values, strict=False)
        ]
        return "/".join(levels)


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _join(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name
