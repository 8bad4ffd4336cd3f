"""show_timeline and export_instants: what happened to a table, and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from lakedex.errors import CorruptFile, FileMissing, InvalidInput
from lakedex.spark.sql.calls.procedure import PLACE, Procedure, Rows, Values, named, table_of
from lakedex.spark.sql.context import Context
from lakedex.timeline import Action, Instant, PlanKind, Timeline, read_plan
from lakedex.timeline.instant import State, file_name
from lakedex.timeline.instant_time import instant_key

_SECONDS_DIGITS = 14
_EXPORTED = "clean,commit,deltacommit,rollback,savepoint,restore"


def _show_timeline(context: Context, values: Values) -> Rows:
    timeline = table_of(context, values).snapshot.timeline
    begin, end = values["startTime"].strip(), values["endTime"].strip()
    found = [(each, "ACTIVE") for each in timeline.instants]
    archived: tuple[Instant, ...] = ()
    if values["showArchived"]:
        archived = timeline.archived.instants()
        found += [(each, "ARCHIVED") for each in archived]
    told = _rollbacks(timeline, archived)
    begun = _begun(timeline)
    for each, kind in sorted(found, key=lambda pair: pair[0], reverse=True):
        time = each.requested_time
        if (begin and instant_key(time) < begin) or (end and instant_key(time) > end):
            continue
        yield (
            time,
            each.action.value,
            each.state.name,
            _shown(time),
            begun.get(time) if kind == "ACTIVE" else _shown(time),
            _shown(each.completion_time or (time if kind == "ARCHIVED" else None)),
            kind,
            "; ".join(told[time]) or None,
        )


def _begun(timeline: Timeline) -> dict[str, str]:
    """When instants of the active timeline went to work, as the store noted it."""
    config = timeline.config
    inflight = {
        file_name(Instant(each.requested_time, planned, State.INFLIGHT), config.timeline_layout)
        : each.requested_time
        for each in timeline.instants
        for planned in (timeline.requested_action(each.requested_time) or each.action, each.action)
    }  # fmt: skip
    return {
        inflight[info.path.rpartition("/")[2]]: _clock(info.modified_ms)
        for info in timeline.storage.list(config.timeline_folder)
        if info.path.rpartition("/")[2] in inflight
    }


def _clock(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%m-%d %H:%M:%S")


def _shown(instant: str | None) -> str | None:
    """An instant as month, day and time."""
    if instant is None or len(instant) < _SECONDS_DIGITS:
        return instant
    digits = instant[4:_SECONDS_DIGITS]
    return f"{digits[0:2]}-{digits[2:4]} {digits[4:6]}:{digits[6:8]}:{digits[8:10]}"


def _rollbacks(timeline: Timeline, archived: Iterable[Instant]) -> dict[str, list[str]]:
    """What rollbacks say about themselves, and about the instants that they undid."""
    told: dict[str, list[str]] = defaultdict(list)
    for each in timeline.instants:
        if each.action is not Action.ROLLBACK:
            continue
        time = each.requested_time
        if each.is_completed:
            _tell(told, time, timeline.read(each))
        else:
            undone = _planned(timeline, time)
            if undone is not None:
                told[time].append(f"Rolls back {undone}")
                told[undone].append(f"Rolled back by: {time}")
    for each in archived:
        if each.action is Action.ROLLBACK:
            data = timeline.archived.metadata(each.requested_time)
            _tell(told, each.requested_time, data or b"")
    return told


def _tell(told: dict[str, list[str]], time: str, data: bytes) -> None:
    record = read_plan(PlanKind.ROLLBACK_METADATA, data, path=f"rollback {time}")
    told[time].append(f"Rolled back: {', '.join(record['commitsRollback'])}")
    for undone in record["commitsRollback"]:
        told[undone].append(f"Rolled back by: {time}")


def _planned(timeline: Timeline, time: str) -> str | None:
    """The instant that a pending rollback is about; None where its plan cannot be read."""
    requested = Instant(time, Action.ROLLBACK, State.REQUESTED)
    try:
        record = read_plan(PlanKind.ROLLBACK_PLAN, timeline.read(requested), path=time)
    except (CorruptFile, FileMissing):
        return None
    return str(record["instantToRollback"]["commitTime"])


def _export(context: Context, values: Values) -> Rows:
    """Copy the completed instants of some actions into a folder of this machine."""
    folder = Path(values["local_folder"])
    if not folder.is_dir():
        raise InvalidInput(f"{values['local_folder']} is no folder of this machine")
    timeline = table_of(context, values).snapshot.timeline
    actions = named(values["actions"])
    unknown = set(actions) - {action.value for action in Action}
    if unknown:
        raise InvalidInput(f"{sorted(unknown)[0]!r} is no action of a timeline")
    found = [each for each in timeline.completed() if each.action.value in actions]
    found.sort(reverse=values["desc"])
    found = found if values["limit"] < 0 else found[: values["limit"]]
    for each in found:
        (folder / f"{each.requested_time}.{each.action.value}").write_bytes(timeline.read(each))
    return [(f"Exported {len(found)} Instants to {folder}",)]


TIMELINES = {
    "show_timeline": Procedure(
        {
            **PLACE,
            "limit": 20,
            "showArchived": False,
            "filter": "",
            "startTime": "",
            "endTime": "",
        },
        "instant_time string, action string, state string, requested_time string, "
        "inflight_time string, completed_time string, timeline_type string, rollback_info string",
        _show_timeline,
        range=("startTime", "endTime"),
    ),
    "export_instants": Procedure(
        {
            "table": str,
            "local_folder": str,
            "limit": -1,
            "actions": _EXPORTED,
            "desc": False,
            "path": str,
        },
        "export_detail string",
        _export,
        changes=True,
        needs=("local_folder",),
    ),
}
