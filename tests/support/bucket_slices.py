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
from lakedex.filegroup import RECORD_KEY, FileSlice, ReadContext, Slices, parse_data_file
from lakedex.index.kinds.bucket.engine import bucket_engine
from lakedex.index.kinds.bucket.hashes import hash_keys
from lakedex.index.kinds.bucket.table import BucketSource
from lakedex.storage.memory import memory_storage
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
    keys: dict[tuple[str, str], pa.Array] = field(default_factory=dict)
    """The keys of each file group, by partition and file id."""

    @classmethod
    def empty(
        cls, key_fields: Sequence[str], options: BucketOptions, kept: Mapping[str, str] = {}
    ) -> BucketFiles:
        """A table without files."""
        return cls(tuple(key_fields), options, memory_storage(), [], dict(kept))

    def add(self, partition: str, keys: Sequence[str]) -> None:
        """Put record keys into their buckets, in a partition that has none yet."""
        engine = bucket_engine(self.options, self.storage, self._timeline)
        buckets = engine.created(partition, [])
        array = pa.array(keys, pa.string())
        ids = buckets.file_ids(hash_keys(array, self.options.fields))
        for file_id in sorted(set(ids.to_pylist())):
            own = array.filter(pa.array(np.array(ids.to_pylist()) == file_id))
            self.put(partition, file_id, own)

    def put(self, partition: str, file_id: str, keys: pa.Array) -> None:
        """Write a file group with these record keys."""
        self.keys[partition, file_id] = keys
        data = BytesIO()
        pq.write_table(pa.table({RECORD_KEY: keys}), data)
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
        schema = pa.schema([pa.field(RECORD_KEY, pa.string())])
        read = ReadContext(self.storage, self._config, schema, None, lambda _: True)
        return BucketSource(read, self._timeline, lambda: Slices(self.slices), self.kept)

    @property
    def _config(self) -> TableConfig:
        properties = {
            "hoodie.table.name": "t",
            "hoodie.table.version": "9",
            "hoodie.table.recordkey.fields": ",".join(self.key_fields),
            "hoodie.table.partition.fields": "p",
        }
        return TableConfig.from_properties(properties, "hoodie.properties")

    @property
    def _timeline(self) -> Timeline:
        return Timeline(self.storage, self._config, ())
