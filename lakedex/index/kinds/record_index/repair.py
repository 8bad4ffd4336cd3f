"""Repairs a record index: the places of some record keys, and keys that no row has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa

from lakedex.filegroup import FileSliceId
from lakedex.index.repair import RepairedTable
from lakedex.index.verification.findings import Problem, ProblemKind
from lakedex.index.written import CommitChanges, note_rows


def repair(name: str, problems: Sequence[Problem], table: RepairedTable) -> CommitChanges:
    """The keys to write and to delete, with their places."""
    del name
    rows = [
        note_rows(pa.array(keys), place.partition, place.file_id, is_delete=is_delete)
        for (place, is_delete), keys in _by_place(problems).items()
    ]
    return CommitChanges(key_notes=(table.spilled(pa.concat_tables(rows)),) if rows else ())


def _by_place(problems: Sequence[Problem]) -> dict[tuple[FileSliceId, bool], list[str]]:
    places: dict[tuple[FileSliceId, bool], list[str]] = defaultdict(list)
    for problem in problems:
        if problem.place is not None:
            places[problem.place, problem.kind is ProblemKind.STALE].append(problem.key)
    return places
