"""What the newest write noted in its commit, for whoever comes after it."""

from __future__ import annotations

from lakedex.timeline.commit_metadata import CommitMetadata
from lakedex.timeline.instant import Instant
from lakedex.timeline.instant_time import instant_key
from lakedex.timeline.timeline import Timeline

_LOG_COMPACT = "LOG_COMPACT"


def newest_note(timeline: Timeline, name: str) -> str | None:
    """What the newest write says under a name; None when it says nothing.

    Compactions and clusterings move rows and neither add nor remove any, so the write before them
    is asked.
    """
    for instant in _newest_first(timeline):
        summary = timeline.commit_summary(instant)
        if name in summary.extra:
            return summary.extra[name]
        if not (_is_compaction(summary) or summary.is_clustering):
            return None
    return None


def newest_change(timeline: Timeline) -> Instant | None:
    """The newest write that is no compaction: it changed rows, or the file groups that hold them.

    Compactions leave every row in its file group.
    """
    for instant in _newest_first(timeline):
        if not _is_compaction(timeline.commit_summary(instant)):
            return instant
    return None


def _newest_first(timeline: Timeline) -> list[Instant]:
    return sorted(
        timeline.write_instants(),
        key=lambda instant: instant_key(instant.completion_time or instant.requested_time),
        reverse=True,
    )


def _is_compaction(summary: CommitMetadata) -> bool:
    return summary.compacted or summary.operation_type == _LOG_COMPACT
