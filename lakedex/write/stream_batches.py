"""Batches of a stream, each written once: a commit's metadata names the batch that it holds.

Hudi's streaming sink keeps the same entry, a JSON map from the stream to its last batch, so that
either engine goes on where the other one stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from lakedex.errors import CommitConflict, InvalidInput
from lakedex.timeline import CommitMetadata, Timeline, decode_commit_metadata

_NOTE = "_hudi_streaming_sink_checkpoint"


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One batch of a stream.

    Example:
        >>> StreamBatch("orders", 7).note()
        {'_hudi_streaming_sink_checkpoint': '{"orders": "7"}'}
    """

    stream: str
    """What names the stream, the same after every restart."""
    number: int

    def __post_init__(self) -> None:
        if not self.stream:
            raise InvalidInput(
                "a batch needs the name of its stream: say which by "
                "hoodie.datasource.write.streaming.checkpoint.identifier"
            )
        if self.number < 0:
            raise InvalidInput(f"a batch has a number from 0 on, not {self.number!r}")

    def note(self) -> dict[str, str]:
        """What the commit that holds the batch says of it."""
        return {_NOTE: json.dumps({self.stream: str(self.number)})}

    def is_written(self, timeline: Timeline) -> bool:
        """Whether a completed commit holds this batch of the stream, or a later one."""
        last = last_batch(timeline, self.stream)
        return last is not None and last >= self.number

    def check_unwritten(self, timeline: Timeline) -> None:
        """Refuse to commit what another run of the stream committed meanwhile.

        Raises:
            CommitConflict: It did.
        """
        if self.is_written(timeline):
            raise CommitConflict(
                f"batch {self.number} of stream {self.stream} was committed by another run of it; "
                "let only one run"
            )


def last_batch(timeline: Timeline, stream: str) -> int | None:
    """The number of the last batch of a stream that was committed; None if none was."""
    for metadata in _newest_first(timeline):
        number = _batch_in(metadata, stream)
        if number is not None:
            return number
    return None


def _newest_first(timeline: Timeline) -> Iterator[CommitMetadata]:
    """What commits say of themselves, archived ones after all others."""
    for instant in reversed(timeline.write_instants()):
        yield timeline.commit_summary(instant)
    for instant in reversed(timeline.archived.instants()):
        time = instant.requested_time
        if instant.action.is_write and timeline.find(time) is None:
            data = timeline.archived.metadata(time)
            if data:
                yield decode_commit_metadata(data, path=time, with_stats=False)


def _batch_in(metadata: CommitMetadata, stream: str) -> int | None:
    text = metadata.extra.get(_NOTE)
    if not text:
        return None
    try:
        number = json.loads(text).get(stream)
        return None if number is None else int(number)
    except (ValueError, TypeError, AttributeError):
        # Whoever wrote this has another way to keep its batches.
        return None
