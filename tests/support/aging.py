"""What services do to an old table, by hand: file versions deleted, instants archived.

Written from the format's description alone, so that readers are not judged by our own services.
"""

from __future__ import annotations

import time
from pathlib import Path

import lakedex
from lakedex.storage import open_storage
from lakedex.timeline import (
    Action,
    Instant,
    PlanKind,
    State,
    Timeline,
    file_name,
    from_epoch_ms,
    load_table_config,
    new_instant_time,
    write_instant,
    write_plan,
)
from lakedex.timeline.history_writer import ArchivedInstant, start_history


def clean(path: str | Path) -> list[str]:
    """Delete every base file that the newest snapshot does not read; answers their names."""
    storage = open_storage(str(path))
    view = lakedex.open(path).snapshot
    kept = {each.base.name for each in view.slices if each.base is not None}
    gone = [file for file in Path(path).rglob("*.parquet") if ".hoodie" not in file.parts]
    gone = [file for file in gone if file.name not in kept]
    for file in gone:
        file.unlink()
    config, timeline = view.config, view.timeline
    began = new_instant_time(timeline, int(time.time() * 1000))
    newest = timeline.last_completed
    assert newest is not None
    parts: dict[str, list[str]] = {}
    for file in gone:
        parts.setdefault(file.parent.relative_to(path).as_posix(), []).append(file.name)
    record = {
        "startCleanTime": began,
        "timeTakenInMillis": 1,
        "totalFilesDeleted": len(gone),
        "earliestCommitToRetain": newest.requested_time,
        "lastCompletedCommitTimestamp": newest.requested_time,
        "partitionMetadata": {
            part: {
                "partitionPath": part,
                "policy": "KEEP_LATEST_COMMITS",
                "deletePathPatterns": names,
                "successDeleteFiles": names,
                "failedDeleteFiles": [],
            }
            for part, names in parts.items()
        },
    }
    for state in (State.REQUESTED, State.INFLIGHT):
        write_instant(storage, config, Instant(began, Action.CLEAN, state), b"")
    ended = from_epoch_ms(int(time.time() * 1000) + 5, config.timezone)
    done = Instant(began, Action.CLEAN, State.COMPLETED, ended)
    write_instant(storage, config, done, write_plan(PlanKind.CLEAN_METADATA, record))
    return [file.name for file in gone]


def archive(path: str | Path, count: int) -> None:
    """Move the first completed writes from the active timeline to the history."""
    storage = open_storage(str(path))
    config = load_table_config(storage)
    timeline = Timeline.load(storage, config)
    first = timeline.write_instants()[:count]
    moved = [
        ArchivedInstant(
            each.requested_time, each.completion_time or "", each.action, timeline.read(each), None
        )
        for each in first
    ]
    start_history(storage, config.history_folder, moved)
    folder = Path(path) / config.timeline_folder
    for each in first:
        (folder / file_name(each, config.timeline_layout)).unlink()
        for file in folder.glob(f"{each.requested_time}.*"):
            file.unlink()
