"""One block of a log file, with decoded header and unread content, and the kinds of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from lakedex.errors import CorruptFile, UnsupportedFeature
from lakedex.storage.source import SourceWindow

ROLLBACK_COMMAND = "0"
"""The only value of `COMMAND_BLOCK_TYPE` that Hudi writes."""


class BlockKind(IntEnum):
    """The block types, by their number in the file.

    All are Hudi's but `VIRTUAL`, which says that the records are in other log files. Hudi and
    hudi-rs refuse to read a log file with a type that they do not know, so they fail and do not
    miss rows. Its number is far from theirs, for they may get more.
    """

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6
    VIRTUAL = 19_524

    @property
    def holds_records(self) -> bool:
        """Whether such a block contains records or deletes, so its instant must be committed."""
        return self not in (BlockKind.COMMAND, BlockKind.CORRUPT)


class HeaderKey(IntEnum):
    """The keys of a block header, by their number in the file."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class LogBlock:
    """A block, its position, and a window on its content.

    A `CORRUPT` block has no header; its content is all bytes up to the next block.
    """

    kind: BlockKind
    header: Mapping[HeaderKey, str]
    offset: int
    content: SourceWindow
    found_through: str = ""
    """The log file that names the one with the block; empty where none does."""

    @property
    def path(self) -> str:
        """The log file that contains the block."""
        return self.content.path

    @property
    def log_of_slice(self) -> str:
        """The log file of the file slice that contains the block, or refers to it."""
        return self.found_through or self.path

    @property
    def instant_time(self) -> str:
        """The instant that wrote the block."""
        return self._required(HeaderKey.INSTANT_TIME)

    @property
    def target_instant_time(self) -> str:
        """The instant that a rollback command rolls back."""
        return self._required(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def schema_text(self) -> str:
        """The Avro schema of the records, as JSON."""
        return self._required(HeaderKey.SCHEMA)

    @property
    def compacted_times(self) -> tuple[str, ...]:
        """The instants whose blocks this block replaces; empty unless log-compacted."""
        text = self.header.get(HeaderKey.COMPACTED_BLOCK_TIMES, "")
        return tuple(part.strip() for part in text.split(",") if part.strip())

    @property
    def is_partial(self) -> bool:
        """Whether the records contain only the changed columns."""
        return self.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"

    def check_rollback(self) -> None:
        """Reject a command block that is not a rollback."""
        command = self._required(HeaderKey.COMMAND_BLOCK_TYPE)
        if command != ROLLBACK_COMMAND:
            raise UnsupportedFeature(f"log command {command[:40]!r} in {self.path}")

    def _required(self, key: HeaderKey) -> str:
        if key not in self.header:
            raise CorruptFile(
                self.path,
                self.offset,
                expected=f"a {self.kind.name} block with {key.name} in its header",
                actual=[present.name for present in self.header],
            )
        return self.header[key]
