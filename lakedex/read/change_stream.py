"""A table's commits as a stream: where its next batch ends, and how that is read.

A position is a pair of times on the timeline, in the order of `Timeline.between`: by completion
in layout 2. A batch holds the rows of the commits after its `begin` and up to its `end`, so that
every commit is in one batch, also when the stream is stopped and goes on later. Options say where a
stream starts and limit its batches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from lakedex.config import TimelineZone
from lakedex.errors import InvalidInput, TimelineDamaged, UnsupportedFeature
from lakedex.storage import Storage
from lakedex.table import Snapshot
from lakedex.table.lost_instants import check_still_there
from lakedex.table.retention import earliest_retained, is_retained
from lakedex.timeline import (
    Action,
    Instant,
    Timeline,
    instant_key,
    parse_query_time,
)

BEGINNING = "00000000000000000"
"""A time before all commits."""
EARLIEST = "earliest"
LATEST = "latest"
TAKES_WHAT_IS_LEFT = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
START_OFFSET = "hoodie.datasource.streaming.startOffset"
_START_NAMES = (
    START_OFFSET.lower(),
    "hoodie.datasource.read.begin.instanttime",
    "hoodie.datasource.read.start.timestamp",
)
_MOST_COMMITS = "maxCommitsPerTrigger"
_MOST_BYTES = "maxBytesPerTrigger"
_MOST_FILES = "maxFilesPerTrigger"
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_FIRST = (EARLIEST, "000", "00", "0")
_FORMAT, _ROW_CHANGES = "hoodie.datasource.query.incremental.format", "cdc"
_OTHER_ROWS = {
    "as.of.instant": "a stream reads what is committed from its start on",
    "hoodie.datasource.read.end.instanttime": "a stream has no end; trigger(availableNow=True)",
    "hoodie.datasource.read.end.timestamp": "a stream has no end; trigger(availableNow=True)",
}
"""Options by which other rows are meant, and what happens."""
_QUERY_TYPES = ("hoodie.datasource.query.type", "hoodie.datasource.view.type")
_BASE_FILES_ONLY = "hoodie.query.as.ro.table"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Where a stream starts and how much it takes at once.

    Example:
        >>> StreamOptions.of({"maxCommitsPerTrigger": "5"})
        StreamOptions(start='earliest', most_commits=5, most_bytes=None, takes_what_is_left=False)
    """

    start: str = EARLIEST
    """`earliest`, `latest`, or a time after which commits count."""
    most_commits: int | None = None
    most_bytes: int | None = None
    """Bytes that commits wrote; a batch has one commit at least."""
    takes_what_is_left: bool = False
    """Whether to go on where files of the commits to come were cleaned."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamOptions:
        """What options say, whatever the case of their names.

        Raises:
            InvalidInput: A value is wrong.
            UnsupportedFeature: Changes of rows (CDC) are requested; only rows are streamed. Or
                other rows than those that commits write, or a batch that ends within a commit.
        """
        given = {name.lower(): value for name, value in options.items()}
        if _MOST_FILES.lower() in given:
            raise UnsupportedFeature(
                f"a stream with {_MOST_FILES} (a commit is in one batch as a whole: "
                f"{_MOST_COMMITS} or {_MOST_BYTES})"
            )
        if given.get(_FORMAT, "").lower() == _ROW_CHANGES:
            raise UnsupportedFeature(
                f"a stream with {_FORMAT}={_ROW_CHANGES} (stream the rows, and ask what happened "
                "to them in foreachBatch: table.changes(begin, end, cdc=True))"
            )
        for name in set(_OTHER_ROWS).intersection(given):
            raise UnsupportedFeature(f"a stream with {name} ({_OTHER_ROWS[name]})")
        kinds = [given[name].lower() for name in _QUERY_TYPES if name in given]
        if "read_optimized" in kinds or given.get(_BASE_FILES_ONLY, "").lower() == "true":
            raise UnsupportedFeature(
                "a stream of base files only (it reads the rows that commits wrote, log files too)"
            )
        start = next((given[name] for name in _START_NAMES if name in given), EARLIEST).strip()
        if start.lower() not in (*_FIRST, EARLIEST, LATEST):
            parse_query_time(start, TimelineZone.UTC)  # refuses what is no time
        fallback = given.get(TAKES_WHAT_IS_LEFT, "false").strip().lower()
        if fallback not in ("true", "false"):
            raise InvalidInput(f"{TAKES_WHAT_IS_LEFT} is true or false, not {fallback!r}")
        return cls(
            EARLIEST if start.lower() in _FIRST else start,
            _count(given, _MOST_COMMITS),
            _bytes(given),
            fallback == "true",
        )

    @property
    def is_limited(self) -> bool:
        """Whether a batch may leave commits to the next one."""
        return self.most_commits is not None or self.most_bytes is not None


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The end of a batch, and where the batch began; its text form is kept in checkpoints.

    Example:
        >>> position = StreamPosition(BEGINNING, "20260102030405678")
        >>> StreamPosition.parse(str(position)) == position
        True
    """

    begin: str
    end: str

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """The position of a text form.

        Raises:
            InvalidInput: It is none; the checkpoint is of another source.
        """
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            raise InvalidInput(
                f"{text[:200]!r} is no position of a stream of lakedex; start the query with a new "
                "checkpointLocation"
            ) from None

    def __str__(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def _bytes(given: Mapping[str, str]) -> int | None:
    """A number of bytes, also as `64m` or `1gb`, as Spark takes it of its own sources."""
    text = given.get(_MOST_BYTES.lower())
    if text is None:
        return None
    number = text.strip().lower().removesuffix("b")
    unit = _UNITS.get(number[-1:], 1)
    return unit * _whole(number[:-1] if unit > 1 else number, _MOST_BYTES, text)


def _count(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    return None if text is None else _whole(text.strip(), name, text)


def _whole(number: str, name: str, text: str) -> int:
    if not (number.isascii() and number.isdigit() and int(number)):
        raise InvalidInput(f"{name} is a whole number from 1 on, not {text!r}")
    return int(number)


_LOOKS_APART_S = 0.1


@dataclass(frozen=True, slots=True)
class BatchView:
    """How the rows of a batch are found."""

    as_of: str | None = None
    """Where the batch is all that the table held at an instant: that instant."""
    at_newest: bool = False
    """Whether the rows are read as they are now, because the files of then are gone."""


class ChangeStream:
    """Looks at a table's timeline for one stream, time after time."""

    def __init__(self, storage: Storage, options: StreamOptions) -> None:
        """Nothing is looked at yet."""
        self._storage = storage
        self._options = options
        self._looked_at = 0.0
        self._seen: Timeline | None = None
        self._writes_rows: dict[str, bool] = {}
        self._first_active: str | None = None
        self._newest_archived: str | None = None

    def newest(self) -> str:
        """The time of the last commit there is now."""
        return _newest(self._look())

    def next(
        self, after: StreamPosition | None, *, up_to: str | None = None, limited: bool = True
    ) -> StreamPosition | None:
        """Where the next batch ends; None if nothing was committed since.

        Args:
            after: Where the last batch ended; None before the first one.
            up_to: Leave later commits out.
            limited: Whether the limits of the options hold.

        Raises:
            InvalidInput: Files of the commits to come were cleaned.
        """
        timeline = self._look()
        if after is None and self._options.start.lower() == LATEST:
            # A batch without rows, so that the checkpoint knows where the stream began.
            newest = _newest(timeline)
            return StreamPosition(newest, newest)
        begin = self._start(timeline) if after is None else after.end
        commits = [
            each
            for each in self._since(timeline, begin)
            if up_to is None or timeline.change_time(each) <= up_to
        ]
        if not commits:
            return None
        # All that is there counts as one change for a stream that starts at the beginning.
        least = _cleaned(timeline, commits) if begin == BEGINNING else 0
        if begin != BEGINNING and not self._options.takes_what_is_left:
            self._check(timeline, commits[0], begin)
        count = self._most(timeline, commits) if limited else len(commits)
        last = commits[min(max(count, least + 1), len(commits)) - 1]
        return StreamPosition(begin, timeline.change_time(last))

    def view(self, position: StreamPosition) -> BatchView:
        """How a batch is to be read.

        Raises:
            InvalidInput: Its files were cleaned, and the options do not say to take what is left.
        """
        timeline = self._look()
        if position.begin == position.end:
            return BatchView()
        since = position.begin if position.begin != BEGINNING else None
        commits = timeline.between(since, position.end, archived=since is not None)
        self._check_end(timeline, commits, position)
        if not commits:
            return BatchView()
        newest = max(commits, key=lambda each: instant_key(each.requested_time))
        if not is_retained(timeline, newest.requested_time):
            if since is not None and not self._options.takes_what_is_left:
                self._check(timeline, newest, since)
            return BatchView(at_newest=True)
        is_whole = since is None and self._archived_until(timeline) <= position.end
        if is_whole and _is_all(timeline, newest, commits):
            return BatchView(as_of=newest.requested_time)
        return BatchView()

    def _look(self) -> Timeline:
        """The timeline as it is now; a stream that waits does not look without a pause.

        Raises:
            TimelineDamaged: It lacks instants.
        """
        pause = self._looked_at + _LOOKS_APART_S - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        snapshot = Snapshot.open(self._storage)
        timeline = snapshot.timeline
        # Rows of a commit that is lost would be in no batch, and nothing would say so.
        snapshot.check_timeline()
        if self._seen is not None:
            check_still_there(self._seen, timeline)
        self._seen = timeline
        self._looked_at = time.monotonic()
        return timeline

    def _start(self, timeline: Timeline) -> str:
        start = self._options.start
        if start == EARLIEST:
            return BEGINNING
        return parse_query_time(start, timeline.config.timezone)

    def _since(self, timeline: Timeline, begin: str) -> list[Instant]:
        """The commits after a time that changed rows: compaction and clustering only move them.

        A batch from the beginning is the table itself, whichever engine wrote its files, and holds
        all that is archived.
        """
        is_first = begin == BEGINNING and bool(timeline.write_instants())
        archived = begin < self._archived_until(timeline) and not is_first
        found = timeline.between(begin, archived=archived)
        held = _held_back(timeline)
        return [
            each
            for each in found
            if (held is None or timeline.change_time(each) < held)
            and (is_first or self._changes_rows(timeline, each))
        ]

    def _archived_until(self, timeline: Timeline) -> str:
        """When the last archived write completed; the archive is read again when it has grown."""
        first = None if timeline.first_active is None else timeline.first_active.requested_time
        if first != self._first_active or self._newest_archived is None:
            old = [each for each in timeline.archived.instants() if each.action.is_write]
            times = [timeline.change_time(each) for each in old]
            self._newest_archived = max(times, default=BEGINNING)
            self._first_active = first
        return self._newest_archived

    def _changes_rows(self, timeline: Timeline, instant: Instant) -> bool:
        known = self._writes_rows.get(instant.requested_time)
        if known is None:
            summary = timeline.commit_summary(instant)
            known = not (summary.compacted or summary.is_clustering)
            self._writes_rows[instant.requested_time] = known
        return known

    def _most(self, timeline: Timeline, commits: Sequence[Instant]) -> int:
        """How many of the commits the limits let into one batch; one at least."""
        count = min(len(commits), self._options.most_commits or len(commits))
        if self._options.most_bytes is None:
            return count
        total = 0
        for number, commit in enumerate(commits[:count]):
            files = timeline.commit_metadata(commit).partition_to_stats.values()
            total += sum(stat.total_write_bytes or 0 for stats in files for stat in stats)
            if total > self._options.most_bytes:
                return max(1, number)
        return count

    def _check_end(
        self, timeline: Timeline, commits: Sequence[Instant], position: StreamPosition
    ) -> None:
        """Refuse a batch whose last commit is gone, unless something was taken back since."""
        if commits and timeline.change_time(commits[-1]) == position.end:
            return
        if position.begin == BEGINNING and self._archived_until(timeline) >= position.end:
            return
        undoes = [each for each in timeline if each.action in (Action.ROLLBACK, Action.RESTORE)]
        if any(timeline.change_time(each) > position.end for each in undoes):
            return
        raise TimelineDamaged(
            timeline.config.timeline_folder,
            f"the commit of {position.end} is missing, with which a batch of the stream ends",
        )

    def _check(self, timeline: Timeline, commit: Instant, begin: str) -> None:
        if is_retained(timeline, commit.requested_time):
            return
        raise InvalidInput(
            f"the stream of table {timeline.config.name} at {self._storage.root} cannot go on "
            f"after {begin}: files of commit {commit.requested_time} were cleaned, and "
            f"{earliest_retained(timeline)} is the earliest instant that is complete. Start it "
            "with a new checkpointLocation, or take the rows that are left, in their newest "
            f"version, by the option {TAKES_WHAT_IS_LEFT}=true. To keep more versions raise "
            "hoodie.clean.commits.retained"
        )


def _newest(timeline: Timeline) -> str:
    held = _held_back(timeline)
    times = [timeline.change_time(each) for each in timeline.write_instants()]
    return max((each for each in times if held is None or each < held), default=BEGINNING)


def _held_back(timeline: Timeline) -> str | None:
    """The time from which on a table of layout 1 may still get commits in between.

    There commits are ordered by when they began, and a long one ends after younger ones.
    """
    if timeline.config.timeline_layout != 1:
        return None
    open_writes = (
        each
        for each in timeline.pending_of(Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
        if each.action is not Action.REPLACECOMMIT
        or timeline.requested_replace(each.requested_time).clustering is None
    )
    return min((instant_key(each.requested_time) for each in open_writes), default=None)


def _is_all(timeline: Timeline, newest: Instant, commits: Sequence[Instant]) -> bool:
    """Whether the table as of a commit shows these commits, and none that completed later."""
    limit = instant_key(newest.requested_time)
    shown = [i for i in timeline.write_instants() if instant_key(i.requested_time) <= limit]
    return set(shown) <= set(commits)


def _cleaned(timeline: Timeline, commits: Sequence[Instant]) -> int:
    """How many of the first commits cannot be read as of then."""
    earliest = earliest_retained(timeline)
    if earliest is None:
        return 0
    low = instant_key(earliest)
    numbers = (n for n, each in enumerate(commits) if instant_key(each.requested_time) >= low)
    return next(numbers, len(commits) - 1)
