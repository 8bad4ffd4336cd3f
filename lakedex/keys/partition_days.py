"""The day that a partition path stands for, by a date pattern.

    2026-01-05            yyyy-MM-dd
    2026/01/05            yyyy/MM/dd
    day=2026-01-05/oslo   yyyy-MM-dd

The first levels of a path that fit the pattern give its day; names of columns and escapes are taken
off first. A path without such levels, as that of null, has no day.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.config import TableConfig
from lakedex.errors import InvalidDefinition, InvalidInput, UnsupportedFeature
from lakedex.keys.partition_path import unescape_path_value
from lakedex.keys.timebased import DatePattern

_OUTPUT_FORMAT = "output.dateformat"
_ISO = "yyyy-MM-dd"
_MICROS_PER_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class PartitionDays:
    """Reads days out of partition paths.

    Example:
        >>> days = PartitionDays(DatePattern.parse("yyyy/MM/dd"))
        >>> days.of_paths(["2026/01/05", "day=2026/01/06/oslo", "oslo"])
        {'2026/01/05': 20458, 'day=2026/01/06/oslo': 20459}
    """

    pattern: DatePattern

    @classmethod
    def of(cls, config: TableConfig, date_format: str | None, *, option: str) -> PartitionDays:
        """By a pattern, else by that of the table's time-based partitions, else ISO dates.

        Raises:
            InvalidInput: the pattern is none that days can be read by; `option` is named.
        """
        text = date_format or config.timebased_keygen.get(_OUTPUT_FORMAT, "").strip() or _ISO
        try:
            return cls(DatePattern.parse(text))
        except (InvalidDefinition, UnsupportedFeature) as error:
            raise InvalidInput(
                f"{option}={text[:80]!r} must be a date pattern such as {_ISO}: {error}"
            ) from None

    def of_paths(self, paths: Iterable[str]) -> dict[str, int]:
        """The days since 1970-01-01 of those paths that have one."""
        owners: list[str] = []
        texts: list[str] = []
        for path in dict.fromkeys(paths):
            for text in _candidates(path):
                owners.append(path)
                texts.append(text)
        fits, instants, _ = self.pattern.read(pa.array(texts, pa.string()), "UTC")
        found: dict[str, int] = {}
        for at in np.flatnonzero(fits).tolist():
            found.setdefault(owners[at], int(instants[at]) // _MICROS_PER_DAY)
        return found


def _candidates(path: str) -> Iterable[str]:
    """All runs of levels, those that begin first and are shortest first."""
    levels = [_value(level) for level in path.split("/")]
    for start in range(len(levels)):
        for end in range(start + 1, len(levels) + 1):
            yield "/".join(levels[start:end])


def _value(level: str) -> str:
    return unescape_path_value(level.rpartition("=")[2])
