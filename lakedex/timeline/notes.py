"""What the newest write noted in its commit, for whoever comes after it."""

from __future__ import annotations

from lakedex.timeline.instant_time import instant_key
from lakedex.timeline.timeline import Timeline

_LOG_COMPACT = "LOG_COMPACT"


def newest_note(timeline: Timeline, name: str) -> str | None:
    """What the newest write says under a name; None when it says nothing.

    Compactions and clusterings move rows and neither add nor remove any, so the write before them
    is asked.
    """
    done = sorted(
        timeline.write_instants(),
        key=lambda instant: instant_key(instant.completion_time or instant.requested_time),
    )
    for instant in reversed(done):
        summary = timeline.commit_summary(instant)
        if name in summary.extra:
            return summary.extra[name]
        moves_only = summary.compacted or summary.operation_type == _LOG_COMPACT
        if not (moves_only or summary.is_clustering):
            return None
    return None
