"""Repairs the file listing: files that it lacks, and files that are gone or have another size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lakedex.index.repair import RepairedTable
from lakedex.index.verification.findings import Problem, ProblemKind
from lakedex.index.written import CommitChanges
from lakedex.storage import split


def repair(name: str, problems: Sequence[Problem], table: RepairedTable) -> CommitChanges:
    """The files to list with their sizes, and those to remove from the listing."""
    del name
    added: dict[str, dict[str, int]] = defaultdict(dict)
    removed: dict[str, list[str]] = defaultdict(list)
    for problem in problems:
        partition, file_name = split(problem.key)
        if problem.kind is ProblemKind.STALE:
            removed[partition].append(file_name)
        else:
            added[partition][file_name] = table.storage.size(problem.key)
    return CommitChanges(added=added, removed=removed)
