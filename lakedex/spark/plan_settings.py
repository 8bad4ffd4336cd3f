"""The settings of a session on which a scan depends, read in one call of the JVM."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from lakedex.config.option_check import PREFIXES, Use, check_session
from lakedex.spark.jvm_contract import FIELD_SEPARATOR, SEPARATOR
from lakedex.spark.read_spec import SWITCHES

_USAGE = "spark.lakedex.index.usage"
_NAMES = SEPARATOR.join((_USAGE, *SWITCHES))
_STARTS = SEPARATOR.join(PREFIXES)


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
        """Keep the Java method: each step to it is a call of the JVM."""
        self._session = spark._jsparkSession
        self._checked: list[str] = []
        self._read = spark.sparkContext._jvm.lakedex.jvm.Settings.read

    def now(self) -> PlanSettings:
        """Their values at this moment.

        Raises:
            InvalidInput: A setting is a misspelled option.
            UnsupportedFeature: A setting asks for something that lakedex does not have.
        """
        lines = str(self._read(self._session, _NAMES, _STARTS)).split(SEPARATOR)
        zone, usage, *switches = lines[: 2 + len(SWITCHES)]
        options = lines[2 + len(SWITCHES) :]
        if options != self._checked:
            pairs = (line.partition(FIELD_SEPARATOR) for line in options)
            check_session({name: value for name, _, value in pairs}, Use.READ, obeyed=SWITCHES)
            self._checked = options
        return PlanSettings(zone, all(map(_is_on, switches)), _is_on(usage))


def _is_on(value: str) -> bool:
    return value.lower() != "false"
