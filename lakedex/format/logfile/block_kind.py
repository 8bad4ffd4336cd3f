"""The closed sets of a log file: what a block is, and what its header may say."""

from __future__ import annotations

from enum import IntEnum


class BlockKind(IntEnum):
    """The block types, by their number on the wire."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6

    @property
    def holds_records(self) -> bool:
        """Whether such a block holds records or deletes, so that its instant must be committed."""
        return self not in (BlockKind.COMMAND, BlockKind.CORRUPT)


class HeaderKey(IntEnum):
    """The keys of a block header, by their number on the wire."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


ROLLBACK_COMMAND = "0"
"""The only value of `COMMAND_BLOCK_TYPE` that Hudi writes."""
