"""The schema of a table in a write: as stored, as committed, and its history.

A schema history begins with the first change that names and types alone cannot express: a column
renamed, dropped or moved. From then on every commit contains the newest version, and a file beside
it all of them, as in Hudi's schema-on-read evolution. Tables that cannot be written are refused
here (`check_writable`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.config.table_config import MergeMode
from lakedex.config.write_index import WriteIndex
from lakedex.config.write_option_names import INDEX_TYPE
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import META_COLUMNS
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index.definitions import file_index_definitions
from lakedex.index.metadata_table import Kind, metadata_partition
from lakedex.keys.generator import check_virtual_keys
from lakedex.schema import AvroRecord, SchemaHistory, arrow_schema, avro_schema, parse_avro_record
from lakedex.schema.arrow_types import keep_avro_types
from lakedex.schema.defaults import column_defaults, keep_defaults
from lakedex.schema.field_paths import type_at
from lakedex.schema.hudi_types import unknown_logical_type
from lakedex.schema.internal_schema import history_text, version_text
from lakedex.schema.numbered_columns import evolved, numbered
from lakedex.storage import Storage
from lakedex.table import Snapshot
from lakedex.table.bucket_index import BucketIndex, find_bucket_index
from lakedex.table.schema_resolution import HISTORY_FOLDER, HISTORY_KEY, HISTORY_SUFFIX
from lakedex.timeline import Action, Instant, Timeline

WRITABLE_VERSION = 9
_KEPT_KINDS = (
    Kind.FILES,
    Kind.COLUMN_STATS,
    Kind.PARTITION_STATS,
    Kind.BLOOM_FILTERS,
    Kind.RECORD_INDEX,
    Kind.SECONDARY_INDEX,
    Kind.EXPRESSION_INDEX,
)
_OF_KEYS = (Kind.BLOOM_FILTERS, Kind.RECORD_INDEX, Kind.SECONDARY_INDEX)
_NAMED_KINDS = (Kind.SECONDARY_INDEX, Kind.EXPRESSION_INDEX)
META_FIELDS = tuple(pa.field(name, pa.string()) for name in META_COLUMNS)


@dataclass(frozen=True)
class StoredSchema:
    """The table's own columns as its newest commit, or its creation, says."""

    record: AvroRecord
    columns: pa.Schema
    """Without meta columns, nullability included."""
    defaults: Mapping[str, pa.Scalar]
    """What columns hold in rows that leave them out."""
    dropped: tuple[str, ...] = ()
    """The columns that files leave out, as partition paths tell their values."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> StoredSchema:
        """The schema that rows are brought to."""
        record = _record(snapshot)
        columns = pa.schema([f for f in arrow_schema(record) if f.name not in META_COLUMNS])
        dropped = snapshot.config.dropped_columns
        return cls(record, columns, column_defaults(record), dropped)


@dataclass(frozen=True)
class WriteSchema:
    """The columns of a table as a write commits them, in every form that is needed."""

    columns: pa.Schema
    """The table's own columns, nullability included."""
    full: pa.Schema
    """Meta columns first; all nullable, as files have them."""
    text: str
    """The Avro schema of `columns`, as the commit says it."""
    full_text: str
    """The Avro schema of `full`."""
    file_text: str
    """The same without the columns that files leave out, as footers and log blocks say it."""

    @classmethod
    def of(cls, columns: pa.Schema, stored: StoredSchema) -> WriteSchema:
        """All forms of some columns, under the name and with the defaults that the table has."""
        name, space = stored.record.name, stored.record.namespace or ""
        full = pa.schema([*META_FIELDS, *columns])
        in_files = pa.schema([field for field in full if field.name not in stored.dropped])
        return cls(
            columns,
            pa.schema([field.with_nullable(nullable=True) for field in full]),
            _spelled(avro_schema(columns, name, space), stored.record),
            _spelled(avro_schema(full, name, space), stored.record),
            _spelled(avro_schema(in_files, name, space), stored.record),
        )


def _spelled(record: AvroRecord, stored: AvroRecord) -> str:
    """The text of a schema, with what only the stored one tells of its columns."""
    return keep_defaults(keep_avro_types(record, stored), stored).to_json()


def _record(snapshot: Snapshot) -> AvroRecord:
    name = snapshot.config.name
    for instant in reversed(snapshot.timeline.write_instants()):
        text = snapshot.timeline.commit_summary(instant).extra.get("schema")
        if text:
            return parse_avro_record(text, path=name)
    if snapshot.config.create_schema:
        return parse_avro_record(snapshot.config.create_schema, path=name)
    return avro_schema(snapshot.schema, f"{name}_record", f"hoodie.{name}")


def check_writable(snapshot: Snapshot) -> None:
    """Refuse a table that lakedex would not keep whole.

    Raises:
        UnsupportedFeature: names what the table has that is not written.
    """
    config = snapshot.config
    if config.version != WRITABLE_VERSION:
        raise UnsupportedFeature(
            f"writing a table of version {config.version}",
            instead=f"run `lakedex upgrade {snapshot.storage.root}` first",
        )
    for feature in _refused(config):
        raise UnsupportedFeature(f"writing a table with {feature}")
    check_virtual_keys(config, snapshot.schema)
    for field in _record(snapshot).fields:
        unknown = unknown_logical_type(field.type)
        if unknown is not None:
            # The commit would say the column without it, for all readers to come.
            raise UnsupportedFeature(
                f"writing a table whose column {field.name} has the logical type {unknown}"
            )
    if config.merge_mode is MergeMode.CUSTOM:
        raise UnsupportedFeature(f"writing a table that merges by {config.custom_payload}")
    for name in (*config.metadata_partitions, *config.metadata_partitions_inflight):
        if metadata_partition(name).kind not in _KEPT_KINDS:
            raise UnsupportedFeature(f"writing a table with the index {name}")
    known = {name for build in snapshot.builds for name in build.names}
    for name in config.metadata_partitions_inflight:
        is_named = metadata_partition(name).kind in _NAMED_KINDS
        if name not in known and is_named and snapshot.timeline.pending_of(Action.INDEXING):
            # Who builds it would not hear of the values that this write changes.
            raise UnsupportedFeature(f"writing a table while another engine builds {name}")


def newest_write(timeline: Timeline) -> Instant | None:
    """The newest completed write of a timeline; None before the first one."""
    return next(reversed(timeline.write_instants()), None)


def shown_bucket_index(snapshot: Snapshot, kept: Mapping[str, str]) -> BucketIndex | None:
    """The bucket index that the files of a table show, where the table keeps no write index.

    Args:
        snapshot: The table.
        kept: What it keeps for its writers.

    Raises:
        UnsupportedFeature: it keeps another write index than its files show.
    """
    said = INDEX_TYPE.given(kept)
    if said is not None and said.upper() == WriteIndex.BUCKET.value:
        return None
    found = find_bucket_index(snapshot)
    if found is not None and said is not None:
        raise UnsupportedFeature(
            f"writing table {snapshot.config.name}, which has a bucket index ({found.evidence}) "
            f"and keeps {INDEX_TYPE.name}={said} (copy it: CREATE TABLE ... AS SELECT)"
        )
    return found


def refuse_bucket_index(snapshot: Snapshot, kept: Mapping[str, str], work: str) -> None:
    """Refuse work that puts records into other file groups than those of their buckets.

    Raises:
        UnsupportedFeature: the table has a bucket index.
    """
    said = INDEX_TYPE.given(kept)
    is_kept = said is not None and said.upper() == WriteIndex.BUCKET.value
    found = None if is_kept else find_bucket_index(snapshot)
    if is_kept or found is not None:
        evidence = f"{INDEX_TYPE.name}={said}" if found is None else found.evidence
        raise UnsupportedFeature(
            f"{work} table {snapshot.config.name}, which has a bucket index ({evidence}), as a "
            "hash of its key names the file group of every record,"
        )


def check_key_indexes(config: TableConfig) -> None:
    """Refuse rows for a table without meta columns that has an index of keys.

    Hudi's own writers do not bring one up to date, so that keys are missing in it.

    Raises:
        UnsupportedFeature: naming the index.
    """
    for name in () if config.populate_meta_fields else config.metadata_partitions:
        if metadata_partition(name).kind in _OF_KEYS:
            raise UnsupportedFeature(
                f"writing a table with the index {name} but no meta columns (drop that index first)"
            )


def check_indexed_columns(snapshot: Snapshot, before: pa.Schema, after: pa.Schema) -> None:
    """Refuse rows that would change the type of a column with a secondary or expression index.

    The entries spell values as the type does, and would no longer be found.

    Raises:
        InvalidInput: naming the column and the index.
    """
    building: dict[str, IndexDefinition] = {}
    for build in snapshot.builds:
        building |= build.definitions
    named = file_index_definitions(snapshot.config)
    for name in (*snapshot.config.metadata_partitions, *building):
        definition = building.get(name) or snapshot.definitions.get(name)
        if definition is not None and metadata_partition(name).kind in _NAMED_KINDS:
            named[name] = definition
    for name, definition in named.items():
        for field in definition.source_fields:
            # Of a struct only the indexed field counts: others may come beside it.
            old, new = type_at(field, before), type_at(field, after)
            if new is None:
                raise InvalidInput(f"column {field!r} has the index {name}; drop that first")
            if old != new:
                raise InvalidInput(
                    f"column {field!r} of type {old} would become {new}, but it has the index "
                    f"{name}, which spells its values; drop the index first"
                )


def _refused(config: TableConfig) -> list[str]:
    found = []
    if config.is_metadata_table:
        found.append("a metadata table's payload")
    if not config.populate_meta_fields and not config.record_key_fields:
        found.append("neither meta columns (hoodie.populate.meta.fields=false) nor a record key")
    if config.cdc_enabled:
        found.append("change data capture (hoodie.table.cdc.enabled)")
    if config.base_file_format != "PARQUET":
        found.append(f"base files of {config.base_file_format}")
    if config.partition_metafile_in_base_format:
        found.append("partition metafiles in the base file format")
    return found


Change = Callable[[pa.Schema], pa.Schema]
"""Takes a table's own columns, numbered, and gives them as they shall be."""


def history_before(snapshot: Snapshot, stored: StoredSchema) -> SchemaHistory:
    """The history of a table, begun with the columns that it has if there is none."""
    if snapshot.history is not None:
        return snapshot.history
    now = WriteSchema.of(stored.columns, stored)
    return evolved(None, now.full, parse_avro_record(now.full_text), 0)


def history_after(
    snapshot: Snapshot, schema: WriteSchema, instant: str, changed: pa.Schema | None
) -> SchemaHistory | None:
    """The history once a write has committed; None where there is none and none begins.

    Args:
        snapshot: The table before the write.
        schema: The columns that the write commits.
        instant: The time of the write.
        changed: The table's own columns with their ids, where the write changes just that.
    """
    if snapshot.history is None and changed is None:
        return None
    before = history_before(snapshot, StoredSchema.of(snapshot))
    newest = before.newest
    full = numbered(schema.full, newest)
    if changed is not None:
        full = pa.schema([*numbered(pa.schema(META_FIELDS), newest), *changed])
    return evolved(before, full, parse_avro_record(schema.full_text), int(instant))


def history_metadata(history: SchemaHistory) -> dict[str, str]:
    """The entries of a commit's extra metadata for the history."""
    return {HISTORY_KEY: version_text(history.newest)}


def keep_history(storage: Storage, instant: str, completion: str, history: SchemaHistory) -> None:
    """Write all versions beside a commit that is about to complete; it counts with that."""
    place = f"{HISTORY_FOLDER}/{instant}"
    for state in ("requested", "inflight"):
        storage.create(f"{place}{HISTORY_SUFFIX}.{state}", b"")
    storage.create(f"{place}_{completion}{HISTORY_SUFFIX}", history_text(history).encode())
