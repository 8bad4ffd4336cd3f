"""What an upgrade is about to do, kept in the table until it is done, and what it did.

The file is written before anything else is changed and removed last, so that an upgrade can be
resumed. Whether it is past its point of no return is not said here: the table's version says it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lakedex.config import keys
from lakedex.config.table_config import inside_table
from lakedex.errors import CorruptFile, FileMissing
from lakedex.storage import Storage

PATH = f"{keys.META_FOLDER}/.lakedex/upgrade.json"


@dataclass(frozen=True)
class UpgradeState:
    """The table as it was, as far as it is needed later."""

    from_version: int
    groups: Mapping[str, int] = field(default_factory=dict)
    """The metadata partitions to make, with their numbers of file groups."""
    stat_columns: tuple[str, ...] = ()
    has_partitioned_record_index: bool = False
    dropped: tuple[str, ...] = ()
    """The indexes that are left out."""
    archive_folder: str = ""
    """The old archive, to be removed in the end."""
    compaction: str | None = None
    """The compaction that the upgrade began on the old timeline."""

    def save(self, storage: Storage) -> None:
        """Write it into the table."""
        record = {
            "fromVersion": self.from_version,
            "metadataPartitions": dict(self.groups),
            "statColumns": list(self.stat_columns),
            "isPartitionedRecordIndex": self.has_partitioned_record_index,
            "droppedIndexes": list(self.dropped),
            "archiveFolder": self.archive_folder,
            "compaction": self.compaction,
        }
        storage.replace(PATH, json.dumps(record, indent=2).encode())

    @classmethod
    def load(cls, storage: Storage) -> UpgradeState | None:
        """The upgrade that was begun; None when none was.

        Raises:
            CorruptFile: the file is not one that an upgrade wrote.
        """
        try:
            data = storage.read(PATH)
        except FileMissing:
            return None
        try:
            record = json.loads(data)
            return cls._parsed(record)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CorruptFile(PATH, 0, expected="the state of an upgrade", actual=error) from error

    @classmethod
    def _parsed(cls, record: Mapping[str, Any]) -> UpgradeState:
        folder = str(record["archiveFolder"])
        compaction = record["compaction"]
        return cls(
            from_version=int(record["fromVersion"]),
            groups={str(name): int(count) for name, count in record["metadataPartitions"].items()},
            stat_columns=tuple(str(name) for name in record["statColumns"]),
            has_partitioned_record_index=bool(record["isPartitionedRecordIndex"]),
            dropped=tuple(str(name) for name in record["droppedIndexes"]),
            archive_folder=inside_table(folder, key="archiveFolder") if folder else "",
            compaction=None if compaction is None else str(compaction),
        )


def forget(storage: Storage) -> None:
    """The upgrade is done."""
    storage.delete(PATH)


@dataclass(frozen=True)
class UpgradeReport:
    """What an upgrade came to; the numbers are those of the call that finished it."""

    table: str
    from_version: int
    to_version: int
    instants: int = 0
    """The files of the active timeline that were written again."""
    archived: int = 0
    """The archived instants that were written again."""
    compacted: int = 0
    """The file slices whose log files were merged into a base file."""
    indexes: tuple[str, ...] = ()
    """The metadata partitions that were built."""
    dropped: tuple[str, ...] = ()
    """The indexes that the table no longer has."""
    rolled_back: tuple[str, ...] = ()
    """The instants of dead writers that were rolled back."""
    seconds: float = 0.0

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return self.from_version != self.to_version

    def as_dict(self) -> Mapping[str, Any]:
        """The report in plain values."""
        return asdict(self)
