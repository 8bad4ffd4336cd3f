"""What a table in a Spark session shows of itself; nothing here writes, and no Spark job runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from lakedex import api
from lakedex.api import Filter
from lakedex.index.catalog import IndexInfo
from lakedex.prune import Report
from lakedex.prune.usage import TableUsage
from lakedex.services.advising import Advice
from lakedex.services.verifying import VerifyReport
from lakedex.timeline import QueryTime


class TableViews(ABC):
    """The verbs that look at a table as it is when they are called."""

    @abstractmethod
    def _open(self) -> api.Table:
        """The table as it is now."""

    def indexes(self) -> list[IndexInfo]:
        """Every index of the table: its kind, columns, state and size, and how it was used."""
        return self._open().indexes()

    def usage(self) -> TableUsage:
        """What queries asked of each index and what it saved, and how columns were compared."""
        return self._open().usage()

    def explain(
        self,
        filter: Filter | None = None,
        as_of: QueryTime | None = None,
        *,
        assuming: Sequence[str] = (),
    ) -> Report:
        """What would be read for a filter, and why; see `lakedex.api.Table.explain`."""
        return self._open().explain(filter, as_of, assuming=assuming)

    def advise(self, name: str | None = None) -> Advice:
        """Indexes to create and to drop; see `lakedex.api.Table.advise`."""
        return self._open().advise(name)

    def verify(self, indexes: Sequence[str] | None = None) -> VerifyReport:
        """Hold every entry of every index, or of some, against the data."""
        return self._open().verify(indexes)
