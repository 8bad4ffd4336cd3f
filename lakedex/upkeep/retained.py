"""How far back a clean lets the table be read, and whether one is due."""

from __future__ import annotations

from dataclasses import dataclass

from lakedex.config.upkeep_options import CleaningOptions, CleaningPolicy
from lakedex.timeline import Action, Instant, Timeline, from_epoch_ms, instant_key
from lakedex.timeline.clean_plan import CleanOutcome

_HOUR_MS = 3_600_000
_WRITERS = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT, Action.CLUSTERING)


@dataclass(frozen=True, slots=True)
class Look:
    """Until where somebody looked for files to remove, and which savepoints stood in the way."""

    earliest: str
    at: str
    savepoints: frozenset[str]


def earliest_retained(timeline: Timeline, options: CleaningOptions, now_ms: int) -> Instant | None:
    """The earliest write as of which the table must stay whole; None where nothing can be cleaned.

    It is never after a write that goes on: that one may have begun with what is there now.
    """
    commits = timeline.write_instants()
    chosen = None
    if options.policy is CleaningPolicy.COMMITS and len(commits) > options.commits:
        chosen = commits[len(commits) - options.commits]
    elif options.policy is CleaningPolicy.HOURS and commits:
        limit = from_epoch_ms(now_ms - options.hours * _HOUR_MS, timeline.config.timezone)
        young = (each for each in commits if instant_key(each.requested_time) >= limit)
        chosen = next(young, commits[-1])
    pending = timeline.pending_of(*_WRITERS)
    if chosen is None or not pending or chosen < pending[0]:
        return chosen
    before = [each for each in commits if each < pending[0]]
    return before[-1] if before else None


def last_clean(timeline: Timeline) -> Instant | None:
    """The newest completed clean of the active timeline."""
    cleans = (each for each in reversed(timeline.completed()) if each.action is Action.CLEAN)
    return next(cleans, None)


def clean_outcome(timeline: Timeline, clean: Instant) -> CleanOutcome:
    """What a completed clean did."""
    return CleanOutcome.decode(timeline.read(clean), path=clean.requested_time)


def is_clean_due(timeline: Timeline, options: CleaningOptions, seen: Look | None = None) -> bool:
    """Whether it is worth looking for files to clean; no file is read for that."""
    if timeline.pending_of(Action.CLEAN):
        return True
    commits = timeline.write_instants()
    last = last_clean(timeline)
    after = instant_key("" if last is None else last.requested_time)
    after = after if seen is None else max(after, instant_key(seen.at))
    since = sum(instant_key(each.completion_time or "") > after for each in commits)
    if since < options.after_commits:
        return False
    if options.policy is CleaningPolicy.COMMITS:
        return len(commits) > options.commits
    # The first version of anything is the newest one, too.
    return len(commits) > 1
