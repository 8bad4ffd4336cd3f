"""What the settings of a session say about planning a scan, read in one call of the JVM."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from lakedex.spark.read_spec import SWITCHES

_USAGE = "spark.lakedex.index.usage"
_NAMES = "\n".join((_USAGE, *SWITCHES))


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """The settings at one moment."""

    zone: str
    asks_indexes: bool
    """Whether indexes may remove anything."""
    counts_scans: bool


class SessionSettings:
    """The settings of a session, whose classes are in place."""

    def __init__(self, spark: SparkSession) -> None:
        """Keep the way to them: each step of it is a call of the JVM."""
        self._session = spark._jsparkSession
        self._read = spark.sparkContext._jvm.lakedex.jvm.Settings.read

    def now(self) -> PlanSettings:
        """What they are at this moment."""
        zone, usage, *switches = str(self._read(self._session, _NAMES)).split("\n")
        return PlanSettings(zone, all(map(_is_on, switches)), _is_on(usage))


def _is_on(value: str) -> bool:
    return value.lower() != "false"
