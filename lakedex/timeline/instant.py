"""Instants: what happened to a table, and how far it got, as the names of timeline files.

    state      layout 2 (`.hoodie/timeline/`)      layout 1 (`.hoodie/`)
    requested  T.action.requested                  the same
    inflight   T.action.inflight, commit: T.inflight   the same
    completed  T_C.action                          T.action

T is the requested time, C the completion time. Compaction completes as `commit`, log compaction
as `deltacommit`, clustering as `replacecommit`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, total_ordering

from lakedex.errors import InvalidInput
from lakedex.timeline.instant_time import instant_key, is_instant_time

_NAME = re.compile(r"([0-9]+)(?:_([0-9]+))?\.([a-z]+)(?:\.(requested|inflight))?")


class Action(Enum):
    """What an instant does; the values are the names in timeline files."""

    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    REPLACECOMMIT = "replacecommit"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"
    SCHEMACOMMIT = "schemacommit"

    @property
    def completed(self) -> Action:
        """The action under whose name this one completes.

        Example:
            >>> Action.COMPACTION.completed
            <Action.COMMIT: 'commit'>
        """
        return _COMPLETED_AS.get(self, self)

    @property
    def is_write(self) -> bool:
        """Whether the completed instant brings base or log files."""
        return self.completed in _WRITES


_COMPLETED_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}
_WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
_ACTIONS = {action.value: action for action in Action}


class State(Enum):
    """How far an instant got, in order."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


_STATES = {None: State.COMPLETED, "requested": State.REQUESTED, "inflight": State.INFLIGHT}


@total_ordering
@dataclass(frozen=True, slots=True)
class Instant:
    """One instant in one state, ordered by requested time.

    `completion_time` is `None` while the instant pends, and always in layout 1.

    Example:
        >>> first = Instant("20261115183539394", Action.DELTACOMMIT, State.COMPLETED)
        >>> first < Instant("20261115183539394001", Action.COMMIT, State.COMPLETED)
        True
    """

    requested_time: str
    action: Action
    state: State
    completion_time: str | None = None

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Instant):
            return NotImplemented
        return self.sort_key < other.sort_key

    @property
    def sort_key(self) -> tuple[str, str, int]:
        """What instants are ordered by: time, then action name, then state."""
        return instant_key(self.requested_time), self.action.value, self.state.value

    @property
    def is_completed(self) -> bool:
        """Whether the instant is complete, and so visible."""
        return self.state is State.COMPLETED


@lru_cache(maxsize=8192)
def parse_instant_file(name: str, layout: int) -> Instant | None:
    """The instant of a timeline file name, or `None` when the name is of something else.

    A completed name without completion time is taken in layout 2 too, as the JVM does for
    tables that were upgraded. Names are remembered: a timeline is listed over and over.

    Example:
        >>> parse_instant_file("20261115183749440.inflight", 2).action.value
        'commit'
        >>> parse_instant_file("hoodie.properties", 1)
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    requested, completed, word, suffix = match.groups()
    state = _STATES[suffix]
    action = _ACTIONS.get(word)
    if word == "inflight" and suffix is None:
        action, state = Action.COMMIT, State.INFLIGHT
    if action is None or not is_instant_time(requested):
        return None
    if completed is not None and (
        layout == 1 or state is not State.COMPLETED or not is_instant_time(completed)
    ):
        return None
    return Instant(requested, action, state, completed)


def file_name(instant: Instant, layout: int) -> str:
    """The name of an instant's file.

    Example:
        >>> file_name(Instant("20261115183749440", Action.COMMIT, State.INFLIGHT), 2)
        '20261115183749440.inflight'

    Raises:
        InvalidInput: the times are not instant times.
    """
    times = [instant.requested_time]
    if instant.is_completed:
        if layout > 1 and instant.completion_time is not None:
            times.append(instant.completion_time)
        suffix = f".{instant.action.completed.value}"
    elif instant.action is Action.COMMIT and instant.state is State.INFLIGHT:
        suffix = ".inflight"
    else:
        suffix = f".{instant.action.value}.{instant.state.name.lower()}"
    if not all(is_instant_time(time) for time in times):
        raise InvalidInput(f"{'_'.join(times)!r} is not an instant time")
    return "_".join(times) + suffix
