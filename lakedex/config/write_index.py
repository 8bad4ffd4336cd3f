"""The indexes by which a writer locates a key (`hoodie.index.type`), and the record index window.

A record index of the newest days only (`lakedex.record.index.window.*`) is a write index beside the
metadata table: to other engines the table has no record index at all, so that none of them takes a
key that is missing from the index for a key that is not in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lakedex.config import write_option_names as options
from lakedex.config.bucket_options import PARAMETERS, RESIZING
from lakedex.config.table_config import TableConfig
from lakedex.errors import InvalidInput, UnsupportedFeature

_OTHER_NAMES = {
    "RECORD_INDEX": "GLOBAL_RECORD_LEVEL_INDEX",
    "RECORD_LEVEL": "GLOBAL_RECORD_LEVEL_INDEX",
    "GLOBAL_RECORD_LEVEL": "GLOBAL_RECORD_LEVEL_INDEX",
}
"""Names of earlier releases and of Hudi's own designs."""
_LATER = ("FLINK_STATE", "INMEMORY")


class WriteIndex(Enum):
    """A write index; the values are Hudi's names.

    Example:
        >>> WriteIndex.parse("record_index").is_global
        True
    """

    SIMPLE = "SIMPLE"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    GLOBAL_RECORD_LEVEL_INDEX = "GLOBAL_RECORD_LEVEL_INDEX"
    RECORD_LEVEL_INDEX = "RECORD_LEVEL_INDEX"
    BUCKET = "BUCKET"

    @classmethod
    def parse(cls, text: str) -> WriteIndex:
        """The index of a name, other names for it too.

        Raises:
            UnsupportedFeature: Hudi has the index and lakedex does not write it.
            InvalidInput: no index is called so.
        """
        name = text.strip().upper()
        name = _OTHER_NAMES.get(name, name)
        if name in _LATER:
            raise UnsupportedFeature(f"the write index {options.INDEX_TYPE.name}={name}")
        if name not in cls.__members__:
            known = ", ".join(cls.__members__)
            raise InvalidInput(f"no write index is called {text!r}; there are {known}")
        return cls[name]

    @property
    def is_global(self) -> bool:
        """Whether a key is unique in the table, not only in its partition."""
        return self.name.startswith("GLOBAL_")

    @property
    def uses_record_index(self) -> bool:
        """Whether places come from the metadata table's record index."""
        return self.name.endswith("RECORD_LEVEL_INDEX")

    @property
    def without_record_index(self) -> WriteIndex:
        """The index that finds the same keys by looking into files.

        Example:
            >>> WriteIndex.GLOBAL_RECORD_LEVEL_INDEX.without_record_index.value
            'GLOBAL_SIMPLE'
        """
        if not self.uses_record_index:
            return self
        return WriteIndex.GLOBAL_SIMPLE if self.is_global else WriteIndex.SIMPLE


def bucket_options(settings: Mapping[str, str]) -> dict[str, str]:
    """The options of a bucket index among others, if they say that the table has one.

    Example:
        >>> bucket_options({"hoodie.index.type": "bucket", "hoodie.metadata.enable": "true"})
        {'hoodie.index.type': 'bucket'}
        >>> bucket_options({"hoodie.bucket.index.num.buckets": "4"})
        {}
    """
    said = options.INDEX_TYPE.given(settings)
    if said is None or said.upper() != WriteIndex.BUCKET.value:
        return {}
    own = (options.INDEX_TYPE, *PARAMETERS, *RESIZING)
    names = {name for option in own for name in option.names}
    return {name: value for name, value in settings.items() if name in names}


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
    """The window that a table keeps or that a write requests; None where there is none.

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
                f"{option.name}=true requests a record index of all keys, {days.name} for one of "
                "the newest; leave one of them out"
            )
    return window


def _check_new(config: TableConfig, kept: Mapping[str, str], name: str) -> None:
    whole = (options.GLOBAL_RECORD_INDEX, options.PARTITIONED_RECORD_INDEX)
    if _RECORD_INDEX in config.metadata_partitions or any(option.value(kept) for option in whole):
        raise InvalidInput(
            f"{name} requests a record index of the newest days, and table {config.name} has or "
            "keeps one of all keys"
        )
