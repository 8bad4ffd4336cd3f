"""What was read of the data for a build, kept by file slices so that only changed ones are read.

A slice is what it was while its files are the same. Slices are read in shares; a share with a slice
that changed is read again as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

from lakedex.engine import Engine
from lakedex.filegroup import FileSlice
from lakedex.table import Snapshot
from lakedex.write.build_survey import Survey, SurveyWants, shares_of_slices, survey_shares
from lakedex.write.context import WriteContext

_SHARES_A_CORE = 16
Tell = Callable[[int, int], None]


class Reading:
    """The survey of a table for one build, brought up to date look after look."""

    def __init__(self, engine: Engine) -> None:
        """Nothing is read yet."""
        self._engine = engine
        self._shares: list[tuple[tuple[FileSlice, ...], Survey]] = []
        self._read_as: object = None

    def survey(
        self, facts: WriteContext, snapshot: Snapshot, wants: SurveyWants, tell: Tell
    ) -> Survey:
        """What the data of a snapshot holds for the new indexes.

        Args:
            facts: The table as of the snapshot.
            snapshot: The snapshot.
            wants: What to look for.
            tell: Called with the number of slices that are read and with that of all, time and
                again; what it raises ends the reading.
        """
        read_as = (facts.schema, snapshot.history, wants)
        if read_as != self._read_as:
            self._shares, self._read_as = [], read_as
        current = {*snapshot.slices}
        self._shares = [each for each in self._shares if current.issuperset(each[0])]
        done = {part for share, _ in self._shares for part in share}
        todo = [part for part in snapshot.slices if part not in done]
        cores = self._engine.parallelism
        shares = shares_of_slices(todo, cores * _SHARES_A_CORE) if todo else []
        read = len(done)
        tell(read, len(current))
        for at in range(0, len(shares), cores):
            some = shares[at : at + cores]
            found = survey_shares(self._engine, facts, snapshot.history, some, wants)
            self._shares += zip(some, found, strict=True)
            read += sum(map(len, some))
            tell(read, len(current))
        return Survey.joined(wants, [found for _, found in self._shares])
