"""Which instants are committed, in a form that travels to workers."""

from __future__ import annotations

from dataclasses import dataclass

from lakedex.timeline.instant_time import instant_key
from lakedex.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class CommittedInstants:
    """Answers as `Timeline.is_committed_write` does, and can be pickled.

    Example:
        >>> committed = CommittedInstants(frozenset({"20260102000000000"}), "20260102000000000")
        >>> committed("20260101000000000"), committed("20260103000000000")
        (True, False)
    """

    times: frozenset[str]
    first_active: str | None

    @classmethod
    def of(cls, timeline: Timeline) -> CommittedInstants:
        """What a timeline knows, as of its newest instant."""
        times = frozenset(instant.requested_time for instant in timeline.write_instants())
        first = timeline.first_active
        return cls(times, None if first is None else first.requested_time)

    def __call__(self, requested_time: str) -> bool:
        """Whether files and log blocks of this instant are visible."""
        if requested_time in self.times:
            return True
        first = self.first_active
        return first is not None and instant_key(requested_time) < instant_key(first)
