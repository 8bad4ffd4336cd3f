"""What an upgrade is about to do, kept in the table until it is done, so that it can be resumed.

The file is written before anything else is changed and removed last. Whether the upgrade is past
its point of no return is not said here: the table's version says it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
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
