"""Virtual blocks: a log file without records, which names the log files that have them.

RFC-42 has them for writes beside a resize of buckets: the records go to the file groups that the
resize is about to make, and the present one refers to them. The content of a block is JSON, with
the names of log files of the same partition and their sizes:

    {"logFiles": [{"name": ".<fileId>_<resize>.log.1_0-0-0", "size": 812}, ...]}

All blocks of a named file are of the instant that the header of the virtual block has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakedex.errors import CorruptFile
from lakedex.format.logfile.blocks import BlockKind, LogBlock

_FILES: Final = "logFiles"
_NAME: Final = "name"
_SIZE: Final = "size"


@dataclass(frozen=True, slots=True)
class NamedLog:
    """A log file that a virtual block names."""

    name: str
    size_bytes: int


def encode_virtual_content(files: Sequence[NamedLog]) -> bytes:
    """Encode the content of a virtual block.

    Example:
        >>> encode_virtual_content([NamedLog(".f-0_20260101.log.1_0-0-0", 80)])
        b'{"logFiles": [{"name": ".f-0_20260101.log.1_0-0-0", "size": 80}]}'
    """
    named = [{_NAME: each.name, _SIZE: each.size_bytes} for each in files]
    return json.dumps({_FILES: named}).encode("utf-8")


def decode_virtual_block(block: LogBlock) -> tuple[NamedLog, ...]:
    """The log files that a block names.

    Raises:
        CorruptFile: the block is of another kind, or its content is damaged.
    """
    data = block.content.read(0, block.content.size) if block.kind is BlockKind.VIRTUAL else b""
    try:
        named = [NamedLog(str(each[_NAME]), int(each[_SIZE])) for each in json.loads(data)[_FILES]]
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(block, data) from error
    for each in named:
        if "/" in each.name or each.size_bytes < 0:
            raise _damaged(block, data)
    if not named:
        raise _damaged(block, data)
    return tuple(named)


def _damaged(block: LogBlock, data: bytes) -> CorruptFile:
    return CorruptFile(
        block.path,
        block.offset,
        expected="a virtual block with names of log files",
        actual=data[:80],
    )
