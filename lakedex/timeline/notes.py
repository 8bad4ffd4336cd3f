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
        if not _moves_only(summary):
            return None
    return None


def newest_change(timeline: Timeline) -> str:
    """The time of the newest write that changed rows or columns, empty where there is none."""
    for instant in _newest_first(timeline):
        if not _moves_only(timeline.commit_summary(instant)):
            return instant.requested_time
    return ""


def newest_placing(timeline: Timeline) -> Instant | None:
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


def _moves_only(summary: CommitMetadata) -> bool:
    return _is_compaction(summary) or summary.is_clustering


def _is_compaction(summary: CommitMetadata) -> bool:
    return summary.compacted or summary.operation_type == _LOG_COMPACT
