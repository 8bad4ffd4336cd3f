"""A table whose questions are asked with indexes and without, and must be answered alike."""

from __future__ import annotations

from typing import ClassVar

import lakedex
from lakedex import ReadOptions
from lakedex.services.index_creating import create_index
from tests.support.write_lab import Lab


class IndexLab(Lab):
    """A lab that makes indexes, and counts the files that they leave."""

    unasked: ClassVar[frozenset[str]] = frozenset()
    """Indexes that are not asked, so that the others have something to do."""

    def index(self, name: str, on: str, using: str = "", **options: str) -> None:
        create_index(self.writer, name, on, using=using, options=options)

    def files(self, predicate: str, zone: str = "UTC") -> int:
        """How many files are read, after the rows were held against a full scan."""
        told = ReadOptions(time_zone=zone, weighs_cost=False, without_indexes=self.unasked)
        plain = ReadOptions(time_zone=zone, without_indexes={"all"})
        table = lakedex.open(self.path, options=told)
        found = table.to_arrow(predicate, ["id"])["id"].to_pylist()
        scanned = lakedex.open(self.path, options=plain).to_arrow(predicate, ["id"])
        assert sorted(found) == sorted(scanned["id"].to_pylist()), predicate
        return len(table.explain(predicate).files)

    def verified(self) -> None:
        report = lakedex.open(self.path).verify()
        assert report.ok, report
