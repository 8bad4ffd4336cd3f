"""The options of a record index of the newest days only (`lakedex.record.index.window.*`).

Such an index is a write index beside the metadata table: for other engines the table has no record
index at all, so that none takes a key that it lacks for a key that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lakedex.config import write_option_names as options
from lakedex.config.table_config import TableConfig
from lakedex.config.write_index import WriteIndex
from lakedex.errors import InvalidInput

_RECORD_INDEX = "record_index"
_COMPANIONS = (options.RECORD_INDEX_WINDOW_FORMAT, options.RECORD_INDEX_WINDOW_OUTSIDE)


class Outside(Enum):
    """What becomes of keys that the window does not hold."""

    LOOKUP = "lookup"
    """They are looked for in the files of older partitions."""
    INSERT = "insert"
    """They are taken for new ones."""


@dataclass(frozen=True, slots=True)
class RecordIndexWindow:
    """A record index of the newest days.

    Example:
        >>> config = TableConfig.from_properties(
        ...     {"hoodie.table.name": "t", "hoodie.table.version": "9",
        ...      "hoodie.table.partition.fields": "day"}, "hoodie.properties")
        >>> said = {"lakedex.record.index.window.days": "30"}
        >>> resolve_window(config, {}, said, WriteIndex.GLOBAL_RECORD_LEVEL_INDEX).days
        30
    """

    days: int
    date_format: str | None
    """The pattern of partition paths; None takes that of time-based partitions, or ISO dates."""
    outside: Outside

    def kept(self) -> dict[str, str]:
        """The settings that stay with the table."""
        found = {
            options.RECORD_INDEX_WINDOW_DAYS.name: str(self.days),
            options.RECORD_INDEX_WINDOW_OUTSIDE.name: self.outside.value,
        }
        if self.date_format is not None:
            found[options.RECORD_INDEX_WINDOW_FORMAT.name] = self.date_format
        return found


def resolve_window(
    config: TableConfig, kept: Mapping[str, str], given: Mapping[str, str], index: WriteIndex
) -> RecordIndexWindow | None:
    """The window that a table keeps or that a write asks for; None where there is none.

    Raises:
        InvalidInput: a value is wrong, or goes with neither the table nor the other options.
    """
    settings = {**given, **kept}  # where both say something, it is the same
    days = options.RECORD_INDEX_WINDOW_DAYS
    if days.given(settings) is None:
        for option in _COMPANIONS:
            if option.given(settings) is not None:
                raise InvalidInput(f"{option.name} says nothing without {days.name}")
        return None
    window = RecordIndexWindow(
        days.value(settings),
        options.RECORD_INDEX_WINDOW_FORMAT.given(settings),
        Outside(options.RECORD_INDEX_WINDOW_OUTSIDE.value(settings)),
    )
    if not index.uses_record_index:
        raise InvalidInput(
            f"{days.name} needs a record index as write index, and "
            f"{options.INDEX_TYPE.name} is {index.value}"
        )
    if not config.is_partitioned:
        raise InvalidInput(f"{days.name} needs partitions by date; table {config.name} has none")
    if days.given(kept) is None:
        _check_new(config, kept, days.name)
    for option in (options.GLOBAL_RECORD_INDEX, options.PARTITIONED_RECORD_INDEX):
        if option.given(given) is not None and option.value(given):
            raise InvalidInput(
                f"{option.name}=true asks for a record index of all keys, {days.name} for one of "
                "the newest; leave one of them out"
            )
    return window


def _check_new(config: TableConfig, kept: Mapping[str, str], name: str) -> None:
    whole = (options.GLOBAL_RECORD_INDEX, options.PARTITIONED_RECORD_INDEX)
    if _RECORD_INDEX in config.metadata_partitions or any(option.value(kept) for option in whole):
        raise InvalidInput(
            f"{name} asks for a record index of the newest days, and table {config.name} has or "
            "keeps one of all keys"
        )
