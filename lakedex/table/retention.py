"""Refuses to travel to a time whose files were cleaned: a part of the rows would be missing."""

from __future__ import annotations

from collections.abc import Iterator

from lakedex.errors import InvalidInput
from lakedex.timeline import Action, PlanKind, Timeline, instant_key, read_plan


def check_retained(full: Timeline, view: Timeline) -> None:
    """Raise unless every file that the view shows is kept by the cleans done so far."""
    newest = view.last_completed
    if newest is None or newest.requested_time in full.savepoints():
        return
    last = full.last_completed
    if last is not None and last.requested_time == newest.requested_time:
        return
    for retained in _earliest_retained(full):
        if instant_key(newest.requested_time) < instant_key(retained):
            raise InvalidInput(
                f"the table as of {view.limit} cannot be read: older file versions were cleaned, "
                f"{retained} is the earliest instant that is complete"
            )


def _earliest_retained(timeline: Timeline) -> Iterator[str]:
    """For each clean, the earliest instant that it left readable."""
    for instant in timeline.completed():
        if instant.action is not Action.CLEAN:
            continue
        record = read_plan(
            PlanKind.CLEAN_METADATA, timeline.read(instant), path=instant.requested_time
        )
        if not any(
            part["successDeleteFiles"] or part.get("isPartitionDeleted")
            for part in record["partitionMetadata"].values()
        ):
            continue
        # Cleaning by file versions names no instant: only what was newest then is surely whole.
        retained = record["earliestCommitToRetain"] or record["lastCompletedCommitTimestamp"]
        if retained:
            yield retained
