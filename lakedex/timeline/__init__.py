"""What happened to a table: instants, their states, commit metadata, active and archived."""

from __future__ import annotations

from lakedex.timeline.archived import ArchivedTimeline
from lakedex.timeline.clustering_plan import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    RequestedReplace,
)
from lakedex.timeline.commit_metadata import (
    CommitMetadata,
    WriteStat,
    decode_commit_metadata,
    encode_commit_metadata,
)
from lakedex.timeline.instant import Action, Instant, State, file_name, parse_instant_file
from lakedex.timeline.instant_time import (
    QueryTime,
    from_epoch_ms,
    instant_key,
    parse_query_time,
    query_time_text,
    to_epoch_ms,
)
from lakedex.timeline.plans import (
    CompactionOperation,
    CompactionPlan,
    PlanKind,
    read_plan,
    write_plan,
)
from lakedex.timeline.properties_file import load_table_config, update_properties
from lakedex.timeline.timeline import (
    Timeline,
    new_instant_time,
    newest_change,
    newest_note,
    newest_placing,
    write_instant,
)

__all__ = [
    "Action",
    "ArchivedTimeline",
    "ClusteringGroup",
    "ClusteringPlan",
    "ClusteringSlice",
    "CommitMetadata",
    "CompactionOperation",
    "CompactionPlan",
    "Instant",
    "PlanKind",
    "QueryTime",
    "RequestedReplace",
    "State",
    "Timeline",
    "WriteStat",
    "decode_commit_metadata",
    "encode_commit_metadata",
    "file_name",
    "from_epoch_ms",
    "instant_key",
    "load_table_config",
    "new_instant_time",
    "newest_change",
    "newest_note",
    "newest_placing",
    "parse_instant_file",
    "parse_query_time",
    "query_time_text",
    "read_plan",
    "to_epoch_ms",
    "update_properties",
    "write_instant",
    "write_plan",
]
