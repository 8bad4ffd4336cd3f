"""Where a stream of changes starts, stands and how much it takes at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lakedex.errors import InvalidInput, UnsupportedFeature

BEGINNING = "00000000000000000"
"""A time before all commits."""
EARLIEST = "earliest"
LATEST = "latest"
TAKES_WHAT_IS_LEFT = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
_START_NAMES = (
    "hoodie.datasource.streaming.startoffset",
    "hoodie.datasource.read.begin.instanttime",
    "hoodie.datasource.read.start.timestamp",
)
_MOST_COMMITS = "maxCommitsPerTrigger"
_MOST_BYTES = "maxBytesPerTrigger"
_MOST_FILES = "maxFilesPerTrigger"
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_FIRST = (EARLIEST, "000", "00", "0")
_FORMAT, _ROW_CHANGES = "hoodie.datasource.query.incremental.format", "cdc"


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
            UnsupportedFeature: What happened to rows is asked for; only rows are streamed. Or a
                batch should end within a commit.
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
        start = next((given[name] for name in _START_NAMES if name in given), EARLIEST).strip()
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
