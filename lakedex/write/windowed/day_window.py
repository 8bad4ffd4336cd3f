"""Which partitions lie in the window: the newest day that a table has, and so many days before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakedex.config import TableConfig
from lakedex.config.write_index import RecordIndexWindow
from lakedex.config.write_option_names import RECORD_INDEX_WINDOW_FORMAT
from lakedex.errors import InvalidInput
from lakedex.keys.partition_path import DEFAULT_PARTITION, PartitionDays


@dataclass(frozen=True)
class DayWindow:
    """The partitions of a table that a windowed record index is for.

    A partition without a day, as that of null, never leaves the window.
    """

    outside: frozenset[str]

    @classmethod
    def of(
        cls, config: TableConfig, window: RecordIndexWindow, partitions: Iterable[str]
    ) -> DayWindow:
        """The window over all partitions of a table; the newest of them says where it ends."""
        days = partition_days(config, window).of_paths(partitions)
        first = max(days.values(), default=0) - window.days + 1
        return cls(frozenset(path for path, day in days.items() if day < first))

    def holds(self, partition: str) -> bool:
        """Whether a partition lies in the window."""
        return partition not in self.outside


def partition_days(config: TableConfig, window: RecordIndexWindow) -> PartitionDays:
    """How days are read out of the paths of a table."""
    return PartitionDays.of(config, window.date_format, option=RECORD_INDEX_WINDOW_FORMAT.name)


def check_partitions(
    config: TableConfig, window: RecordIndexWindow, partitions: Iterable[str]
) -> None:
    """Refuse rows of which no partition is a day: their window would never move.

    Raises:
        InvalidInput: naming the option, a partition and the pattern.
    """
    days = partition_days(config, window)
    named = [path for path in partitions if DEFAULT_PARTITION not in path]
    if named and not days.of_paths(named):
        raise InvalidInput(
            f"the partition {named[0][:200]!r} is no day in the form {days.pattern.text!r}; "
            f"{RECORD_INDEX_WINDOW_FORMAT.name} says how days are written"
        )
