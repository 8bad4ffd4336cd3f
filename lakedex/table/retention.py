"""Refuses to travel to a time whose files were cleaned: a part of the rows would be missing."""

from __future__ import annotations

from collections.abc import Iterator

from lakedex.errors import InvalidInput
from lakedex.timeline import Action, PlanKind, Timeline, instant_key, read_plan


def check_retained(full: Timeline, view: Timeline) -> None:
    """Raise unless every file that the view shows is kept by the cleans done so far."""
    newest, last = _newest_write(view), full.last_completed
    if newest is None or newest in full.savepoints():
        return
    if last is not None and last.requested_time == newest:
        return
    for retained in _earliest_retained(full):
        if instant_key(newest) < instant_key(retained):
            raise InvalidInput(
                f"the table as of {view.limit} cannot be read: older file versions were cleaned, "
                f"{retained} is the earliest instant that is complete"
            )


def _newest_write(view: Timeline) -> str | None:
    """The requested time of the last write that a view shows, archived ones too."""
    newest = view.last_completed
    if newest is not None:
        return newest.requested_time
    archived = [each for each in view.between(None) if each.is_completed]
    return archived[-1].requested_time if archived else None


def _earliest_retained(timeline: Timeline) -> Iterator[str]:
    """For each clean, the earliest instant that it left readable; the last one counts most."""
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
        retained = _retained(data, requested_time) if data else None
        if retained:
            yield retained


def _retained(data: bytes, path: str) -> str | None:
    record = read_plan(PlanKind.CLEAN_METADATA, data, path=path)
    parts = record["partitionMetadata"].values()
    if not any(part["successDeleteFiles"] or part.get("isPartitionDeleted") for part in parts):
        return None
    # Cleaning by file versions names no instant: only what was newest then is surely whole.
    return record["earliestCommitToRetain"] or record["lastCompletedCommitTimestamp"] or None
