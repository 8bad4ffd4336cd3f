"""File slices of a bucket index in memory: the record keys of each bucket in a Parquet file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.config import TableConfig
from lakedex.config.bucket_options import BucketEngineType, BucketOptions
from lakedex.filegroup import (
    RECORD_KEY,
    FileSlice,
    FileSliceId,
    ReadContext,
    Slices,
    parse_data_file,
)
from lakedex.index.contract import IndexedTable
from lakedex.index.kinds.bucket.engine import bucket_engine
from lakedex.index.kinds.bucket.hashes import hash_keys
from lakedex.index.kinds.bucket.table import BucketSource
from lakedex.index.metadata_table import MetadataTable
from lakedex.keys.generator import KeyGenerator
from lakedex.storage.object_store import memory_storage
from lakedex.storage.paths import join
from lakedex.storage.protocol import Storage
from lakedex.timeline import Timeline

INSTANT = "20260101000000000"


@dataclass
class BucketFiles:
    """The files of a table with a bucket index, as another engine leaves it."""

    key_fields: tuple[str, ...]
    options: BucketOptions
    storage: Storage
    slices: list[FileSlice]
    kept: dict[str, str]
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """The columns beside the record key."""
    keys: dict[tuple[str, str], pa.Array] = field(default_factory=dict)
    """The keys of each file group, by partition and file id."""
    rows: dict[FileSliceId, pa.Table] = field(default_factory=dict)
    """All columns of each file group."""

    @classmethod
    def empty(
        cls,
        key_fields: Sequence[str],
        options: BucketOptions,
        kept: Mapping[str, str] | None = None,
        *,
        schema: pa.Schema | None = None,
    ) -> BucketFiles:
        """A table without files."""
        files = cls(tuple(key_fields), options, memory_storage(), [], dict(kept or {}))
        files.schema = schema or files.schema
        return files

    def add(self, partition: str, keys: Sequence[str]) -> None:
        """Put record keys into their buckets, in a partition that has none yet."""
        self.add_rows(partition, pa.table({RECORD_KEY: pa.array(keys, pa.string())}))

    def add_rows(self, partition: str, rows: pa.Table) -> None:
        """The same for rows, with their record keys or with the columns that they are made of."""
        if RECORD_KEY not in rows.column_names:
            keys = KeyGenerator.of(self._config, rows.schema).keys(rows)
            rows = rows.append_column(RECORD_KEY, keys)
        engine = bucket_engine(self.options, self.storage, self._timeline)
        buckets = engine.created(partition, [])
        keys = rows[RECORD_KEY].combine_chunks()
        ids = np.array(buckets.file_ids(hash_keys(keys, self.options.fields)).to_pylist())
        for file_id in sorted(set(ids.tolist())):
            self.put_rows(partition, file_id, rows.filter(pa.array(ids == file_id)))

    def put(self, partition: str, file_id: str, keys: pa.Array) -> None:
        """Write a file group with these record keys."""
        self.put_rows(partition, file_id, pa.table({RECORD_KEY: keys}))

    def put_rows(self, partition: str, file_id: str, rows: pa.Table) -> None:
        """Write a file group with these rows."""
        self.keys[partition, file_id] = rows[RECORD_KEY].combine_chunks()
        self.rows[FileSliceId(partition, file_id)] = rows
        data = BytesIO()
        pq.write_table(rows, data)
        name = f"{file_id}_0-0-0_{INSTANT}.parquet"
        self.storage.create(join(partition, name), data.getvalue())
        base = parse_data_file(name, len(data.getvalue()))
        self.slices.append(FileSlice(partition, file_id, INSTANT, base))

    @property
    def engine(self) -> BucketEngineType:
        """The engine that the files show."""
        is_simple = self.options.engine is BucketEngineType.SIMPLE
        return BucketEngineType.SIMPLE if is_simple else BucketEngineType.CONSISTENT_HASHING

    @property
    def source(self) -> BucketSource:
        """The table for those that look for its bucket index."""
        return BucketSource(self._read, self._timeline, lambda: Slices(self.slices), self.kept)

    @property
    def indexed(self) -> IndexedTable:
        """The table for queries."""
        return IndexedTable(
            read=self._read,
            timeline=self._timeline,
            metadata=MetadataTable.empty(self._timeline),
            definitions={},
            slices=Slices(self.slices),
            is_latest=True,
            own=lambda: self.kept,
        )

    @property
    def _read(self) -> ReadContext:
        schema = pa.schema([pa.field(RECORD_KEY, pa.string()), *self.schema])
        return ReadContext(self.storage, self._config, schema, None, lambda _: True)

    @property
    def _config(self) -> TableConfig:
        properties = {
            "hoodie.table.name": "t",
            "hoodie.table.version": "9",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.keygenerator.type": "NON_PARTITION"
            if len(self.key_fields) == 1
            else "COMPLEX",
            "hoodie.table.recordkey.fields": ",".join(self.key_fields),
        }
        return TableConfig.from_properties(properties, "hoodie.properties")

    @property
    def _timeline(self) -> Timeline:
        return Timeline(self.storage, self._config, ())
