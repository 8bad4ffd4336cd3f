"""Every `hoodie.*` name that lakedex reads or writes; no other module spells one out.

Where Hudi renamed a key, the tuple of its names has the newest first.
"""

from __future__ import annotations

from typing import Final

PROPERTIES_FILE: Final = "hoodie.properties"
PROPERTIES_BACKUP_FILE: Final = "hoodie.properties.backup"
META_FOLDER: Final = ".hoodie"
METADATA_TABLE_FOLDER: Final = ".hoodie/metadata"
BUCKET_INDEX_FOLDER: Final = ".hoodie/.bucket_index"
PARTITION_METAFILE: Final = ".hoodie_partition_metadata"

# What the table is.
TABLE_NAME: Final = "hoodie.table.name"
DATABASE_NAME: Final = "hoodie.database.name"
TABLE_TYPE: Final = "hoodie.table.type"
TABLE_VERSION: Final = "hoodie.table.version"
TABLE_INITIAL_VERSION: Final = "hoodie.table.initial.version"
TABLE_CHECKSUM: Final = "hoodie.table.checksum"
TABLE_FORMAT: Final = "hoodie.table.format"
CREATE_SCHEMA: Final = "hoodie.table.create.schema"
BASE_FILE_FORMAT: Final = "hoodie.table.base.file.format"
BASE_FILE_FORMAT_OLD: Final = "hoodie.table.ro.file.format"
LOG_FILE_FORMAT: Final = "hoodie.table.log.file.format"
MULTIPLE_BASE_FILE_FORMATS: Final = "hoodie.table.multiple.base.file.formats.enable"
POPULATE_META_FIELDS: Final = "hoodie.populate.meta.fields"
BOOTSTRAP_BASE_PATH: Final = "hoodie.bootstrap.base.path"

# The folder of its timeline.
TIMELINE_LAYOUT_VERSION: Final = "hoodie.timeline.layout.version"
TIMELINE_PATH: Final = "hoodie.timeline.path"
TIMELINE_HISTORY_PATH: Final = "hoodie.timeline.history.path"
ARCHIVELOG_FOLDER: Final = "hoodie.archivelog.folder"
TIMELINE_TIMEZONE: Final = "hoodie.table.timeline.timezone"

# Keys and partitions.
RECORD_KEY_FIELDS: Final = "hoodie.table.recordkey.fields"
PARTITION_FIELDS: Final = "hoodie.table.partition.fields"
KEY_GENERATOR_TYPE: Final = "hoodie.table.keygenerator.type"
KEY_GENERATOR_CLASS: Final = "hoodie.table.keygenerator.class"
HIVE_STYLE_PARTITIONING: Final = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODE_PARTITIONING: Final = "hoodie.datasource.write.partitionpath.urlencode"
DROP_PARTITION_COLUMNS: Final = "hoodie.datasource.write.drop.partition.columns"
PARTITION_METAFILE_USE_BASE_FORMAT: Final = "hoodie.partition.metafile.use.base.format"
CONSISTENT_LOGICAL_TIMESTAMP: Final = (
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
)
SLASH_SEPARATED_DATES: Final = "hoodie.datasource.write.slash.separated.date.partitioning"
TIMEBASED_KEYGEN_PREFIX: Final = "hoodie.keygen.timebased."
TIMEBASED_KEYGEN_PREFIX_OLD: Final = "hoodie.deltastreamer.keygen.timebased."

# How folders of new files are named, where that is not how older ones are.
NEW_PARTITION_FIELDS: Final = "lakedex.partition.new.fields"
NEW_PARTITION_FORMAT: Final = "lakedex.partition.new.dateformat"
HASHED_FOLDERS: Final = "lakedex.partition.hashed.folders"
OTHER_ROOTS: Final = "lakedex.partition.roots"
"""Roots for new files outside of the table's own root: addresses separated by commas."""

# How two versions of a record merge.
ORDERING_FIELDS: Final = "hoodie.table.ordering.fields"
PRECOMBINE_FIELD: Final = "hoodie.table.precombine.field"
ORDERING_FIELD_NAMES: Final = (ORDERING_FIELDS, PRECOMBINE_FIELD)
MERGE_MODE: Final = "hoodie.record.merge.mode"
MERGE_STRATEGY_ID: Final = "hoodie.record.merge.strategy.id"
MERGE_STRATEGY_ID_OLD: Final = "hoodie.compaction.record.merger.strategy"
MERGE_STRATEGY_ID_NAMES: Final = (MERGE_STRATEGY_ID, MERGE_STRATEGY_ID_OLD)
PAYLOAD_CLASS: Final = "hoodie.compaction.payload.class"
LEGACY_PAYLOAD_CLASS: Final = "hoodie.table.legacy.payload.class"
PARTIAL_UPDATE_MODE: Final = "hoodie.table.partial.update.mode"
MERGE_PROPERTY_PREFIX: Final = "hoodie.record.merge.property."

# Indexes and change capture.
METADATA_PARTITIONS: Final = "hoodie.table.metadata.partitions"
METADATA_PARTITIONS_INFLIGHT: Final = "hoodie.table.metadata.partitions.inflight"
FILE_INDEXES: Final = "lakedex.file.indexes"
"""Definitions of indexes that only lakedex has, outside of the metadata table."""
BITMAP_INDEXES: Final = "lakedex.bitmap.indexes"
"""The same in tables of older releases, which had bitmap indexes only."""
INDEX_DEFS_PATH: Final = "hoodie.table.index.defs.path"
OWN_METADATA_PARTITIONS: Final = "lakedex.table.metadata.partitions"
OWN_METADATA_PARTITIONS_INFLIGHT: Final = "lakedex.table.metadata.partitions.inflight"
OWN_INDEX_DEFS_PATH: Final = f"{META_FOLDER}/.index_defs/lakedex.json"
CDC_ENABLED: Final = "hoodie.table.cdc.enabled"
CDC_LOGGING_MODE: Final = "hoodie.table.cdc.supplemental.logging.mode"

# Wire values: strategy ids and JVM class names that are known by name, never loaded.
EVENT_TIME_STRATEGY_ID: Final = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_TIME_STRATEGY_ID: Final = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
PAYLOAD_STRATEGY_ID: Final = "00000000-0000-0000-0000-000000000000"
DEFAULT_PAYLOAD: Final = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
EVENT_TIME_PAYLOAD: Final = "org.apache.hudi.common.model.EventTimeAvroPayload"
OVERWRITE_PAYLOAD: Final = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
METADATA_PAYLOAD: Final = "org.apache.hudi.metadata.HoodieMetadataPayload"
