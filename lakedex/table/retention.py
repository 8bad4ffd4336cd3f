"""Refuses to travel to a time whose files were cleaned: a part of the rows would be missing."""

from __future__ import annotations

from collections.abc import Iterator

from lakedex.errors import CorruptFile, FileMissing, InvalidInput, UnsafePath
from lakedex.timeline import Action, Instant, PlanKind, State, Timeline, instant_key, read_plan
from lakedex.timeline.clean_plan import CleanPlan


def check_retained(full: Timeline, view: Timeline) -> None:
    """Raise unless every file that the view shows is kept by the cleans done so far."""
    newest = _newest_write(view)
    if newest is None or is_retained(full, newest):
        return
    raise InvalidInput(
        f"the table as of {view.limit} cannot be read: older file versions were cleaned, "
        f"{earliest_retained(full)} is the earliest instant that is complete"
    )


def is_retained(full: Timeline, requested_time: str) -> bool:
    """Whether the cleans done so far kept every file of the table as of a write."""
    last = full.last_completed
    if last is not None and last.requested_time == requested_time:
        return True
    earliest = earliest_retained(full)
    if earliest is None or instant_key(requested_time) >= instant_key(earliest):
        return True
    return requested_time in full.savepoints()


def earliest_retained(full: Timeline) -> str | None:
    """The earliest instant that all cleans left complete; None where nothing was cleaned."""
    return max(_retained_by_cleans(full), key=instant_key, default=None)


def _newest_write(view: Timeline) -> str | None:
    """The requested time of the last write that a view shows, archived ones too."""
    newest = view.last_completed
    if newest is not None:
        return newest.requested_time
    archived = [each for each in view.between(None) if each.is_completed]
    return archived[-1].requested_time if archived else None


def _retained_by_cleans(timeline: Timeline) -> Iterator[str]:
    """For each clean, the earliest instant that it left readable, begun ones too."""
    cleans = [each for each in timeline.completed() if each.action is Action.CLEAN]
    found = [(each.requested_time, timeline.read(each)) for each in cleans]
    if not cleans:
        archived = timeline.archived.instants()
        found = [
            (each.requested_time, timeline.archived.metadata(each.requested_time) or b"")
            for each in archived
            if each.action is Action.CLEAN
        ]
    for requested_time, data in found:
        retained = retained_by_clean(data, requested_time) if data else None
        if retained:
            yield retained
    for clean in timeline.pending_of(Action.CLEAN):
        if clean.state is State.INFLIGHT:
            yield from _about_to_be_retained(timeline, clean.requested_time)


def _about_to_be_retained(timeline: Timeline, time: str) -> Iterator[str]:
    """What a clean that was begun leaves: some of its files may be gone already."""
    try:
        data = timeline.read(Instant(time, Action.CLEAN, State.REQUESTED))
        plan = CleanPlan.decode(data, path=f"clean {time}")
    except (CorruptFile, FileMissing, UnsafePath):
        return  # it cannot be carried out
    retained = plan.last_completed if plan.earliest is None else plan.earliest.requested_time
    if retained and not plan.is_empty:
        yield retained


def retained_by_clean(data: bytes, path: str) -> str | None:
    """The earliest instant that a completed clean left readable; None where it removed nothing.

    Raises:
        CorruptFile: the bytes are not those of a completed clean.
    """
    record = read_plan(PlanKind.CLEAN_METADATA, data, path=path)
    parts = record["partitionMetadata"].values()
    if not any(part["successDeleteFiles"] or part.get("isPartitionDeleted") for part in parts):
        return None
    # Cleaning by file versions names no instant: only what was newest then is surely whole.
    return record["earliestCommitToRetain"] or record["lastCompletedCommitTimestamp"] or None
