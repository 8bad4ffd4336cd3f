"""Streams of tables in a session: the micro-batches of a query, from the timeline."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from lakedex.errors import InvalidInput
from lakedex.read.change_stream import ChangeStream, StreamOptions, StreamPosition
from lakedex.spark.jvm_contract import PATH_OPTION, STREAMING_QUERY_PROPERTY
from lakedex.spark.read_spec import QueryType, ReadSpec
from lakedex.storage.open import StorageAddress
from lakedex.write.stream_batches import StreamBatch

AddressOf = Callable[[str], StorageAddress]
"""The address of a path, with the settings of its store."""
STREAM_NAME = "hoodie.datasource.write.streaming.checkpoint.identifier"
_KEPT_STREAMS = 64


class Streams:
    """The streams that run, or ran, in a session; each keeps the state of its timeline."""

    def __init__(self) -> None:
        """None yet."""
        self._streams: OrderedDict[str, ChangeStream] = OrderedDict()
        self._lock = threading.Lock()

    def stream(self, address_of: AddressOf, name: str, options: Mapping[str, str]) -> ChangeStream:
        """The stream of a name; it starts where the options say."""
        with self._lock:
            known = self._streams.get(name)
            if known is None:
                storage = address_of(options[PATH_OPTION]).open()
                known = ChangeStream(storage, StreamOptions.of(options))
                self._streams[name] = known
                while len(self._streams) > _KEPT_STREAMS:
                    self._streams.popitem(last=False)
            self._streams.move_to_end(name)
            return known


def batch_spec(stream: ChangeStream, path: str, after: str, end: str) -> ReadSpec:
    """How the table at a path is to be read for the rows of one batch.

    Args:
        stream: The stream.
        path: The table.
        after: The position after which the batch starts; empty for the first one.
        end: The position at which it ends.
    """
    position = StreamPosition.parse(end)
    if after:
        position = StreamPosition(StreamPosition.parse(after).end, position.end)
    view = stream.view(position)
    if view.as_of is not None:
        return ReadSpec(path, as_of=view.as_of)
    return ReadSpec(
        path,
        QueryType.INCREMENTAL.value,
        begin=position.begin,
        end=position.end,
        at_newest=view.at_newest,
    )


def batch_of(rows: DataFrame, number: int, stream: str | None = None) -> StreamBatch:
    """The batch that `foreachBatch` hands over: of a named stream, or of the query that runs.

    Raises:
        InvalidInput: No streaming query runs here, and no stream is named.
    """
    name = stream or rows.sparkSession.sparkContext.getLocalProperty(STREAMING_QUERY_PROPERTY)
    if not name:
        raise InvalidInput(
            "no streaming query runs here: call this from foreachBatch, or name the stream"
        )
    return StreamBatch(str(name), number)
