"""Streams of tables in a session: what Spark's micro-batches ask, answered from the timeline."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from lakedex.errors import InvalidInput
from lakedex.read.change_stream import ChangeStream
from lakedex.read.stream_position import StreamOptions, StreamPosition
from lakedex.spark.read_spec import QueryType, ReadSpec
from lakedex.storage.address import StorageAddress
from lakedex.write.stream_batches import StreamBatch

AddressOf = Callable[[str], StorageAddress]
"""Where a path lies, with the settings of its store."""
STREAM_NAME = "hoodie.datasource.write.streaming.checkpoint.identifier"
_QUERY = "sql.streaming.queryId"
_KEPT_STREAMS = 64


class Streams:
    """The streams that run, or ran, in a session; each knows what it saw of its timeline."""

    def __init__(self) -> None:
        """None yet."""
        self._streams: OrderedDict[str, ChangeStream] = OrderedDict()
        self._lock = threading.Lock()

    def newest(self, address_of: AddressOf, message: Sequence[Any]) -> str:
        """The last commit that there is now, for a query that takes what is there and ends."""
        return self._stream(address_of, message).newest()

    def next(self, address_of: AddressOf, message: Sequence[Any]) -> str:
        """Where the next batch ends; empty if nothing was committed since."""
        after, up_to, everything = str(message[3]), str(message[4]), bool(message[5])
        position = self._stream(address_of, message).next(
            StreamPosition.parse(after) if after else None,
            up_to=up_to or None,
            limited=not everything,
        )
        return "" if position is None else str(position)

    def batch(self, address_of: AddressOf, message: Sequence[Any]) -> str:
        """How the table is to be read for the rows of one batch."""
        after, position = str(message[3]), StreamPosition.parse(str(message[4]))
        if after:
            position = StreamPosition(StreamPosition.parse(after).end, position.end)
        view = self._stream(address_of, message).view(position)
        path = dict(message[2])["path"]
        if view.as_of is not None:
            return str(ReadSpec(path, as_of=view.as_of))
        return str(
            ReadSpec(
                path,
                QueryType.INCREMENTAL.value,
                begin=position.begin,
                end=position.end,
                at_newest=view.at_newest,
            )
        )

    def _stream(self, address_of: AddressOf, message: Sequence[Any]) -> ChangeStream:
        name, options = str(message[1]), dict(message[2])
        with self._lock:
            known = self._streams.get(name)
            if known is None:
                storage = address_of(options["path"]).open()
                known = ChangeStream(storage, StreamOptions.of(options))
                self._streams[name] = known
                while len(self._streams) > _KEPT_STREAMS:
                    self._streams.popitem(last=False)
            self._streams.move_to_end(name)
            return known


def batch_of(rows: DataFrame, number: int, stream: str | None = None) -> StreamBatch:
    """The batch that `foreachBatch` hands over: of a named stream, or of the query that runs.

    Raises:
        InvalidInput: No streaming query runs here, and no stream is named.
    """
    name = stream or rows.sparkSession.sparkContext.getLocalProperty(_QUERY)
    if not name:
        raise InvalidInput(
            "no streaming query runs here: call this from foreachBatch, or name the stream"
        )
    return StreamBatch(str(name), number)
