"""How far indexes reach that writers do not maintain (`maintenance=async`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from lakedex.errors import IndexUnusable
from lakedex.filegroup import FileSlice
from lakedex.index.contract import newest_instant
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index.definitions import file_index_definitions, is_file_index
from lakedex.index.file_index.run import list_runs
from lakedex.index.registry import file_index_kinds, metadata_kind, missing_kind
from lakedex.table.snapshot import Snapshot

_INDEX_BUILD = "INDEX"
"""The operation of commits that change indexes only."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far an index is behind its table."""

    slices: int
    """File slices that it does not cover, and that queries read."""
    commits: int
    """Commits that came after the newest file that it covers."""


def async_definitions(snapshot: Snapshot) -> dict[str, IndexDefinition]:
    """The live indexes that writers do not maintain, by name."""
    live = snapshot.config.metadata_partitions
    defined = {name: each for name, each in snapshot.definitions.items() if name in live}
    known = defined | file_index_definitions(snapshot.config)
    return {name: each for name, each in known.items() if each.is_async}


def lag_of(snapshot: Snapshot, definition: IndexDefinition) -> Lag:
    """How far a secondary, expression or bitmap index is behind a snapshot.

    Raises:
        IndexUnusable: the metadata table cannot be read.
    """
    newer = newer_slices(snapshot, definition)
    return Lag(len(newer), commits_behind(snapshot, newer))


def newer_slices(snapshot: Snapshot, definition: IndexDefinition) -> tuple[FileSlice, ...]:
    """The file slices of a snapshot that a secondary, expression or bitmap index does not cover.

    Raises:
        IndexUnusable: the metadata table cannot be read.
    """
    if is_file_index(definition):
        return tuple(_not_described(snapshot, definition))
    metadata = snapshot.metadata
    if metadata is None:
        raise IndexUnusable(
            f"the metadata table of {snapshot.config.name} cannot be read "
            f"({snapshot.metadata_problem}); `lakedex repair` builds it again"
        )
    slices = snapshot.slices
    kind = metadata_kind(definition.name)
    covered = kind.covered(metadata, definition, snapshot.read_context, slices)
    return tuple(slices[at] for at in np.flatnonzero(~covered).tolist())


def commits_behind(snapshot: Snapshot, newer: Collection[FileSlice]) -> int:
    """How many commits came after the newest file that an index covers; 0 where it covers all.

    Args:
        snapshot: The table.
        newer: The file slices that the index does not cover.
    """
    if not newer:
        return 0
    ids = {each.id for each in newer}
    covered = max(
        (newest_instant(each) for each in snapshot.slices if each.id not in ids), default=""
    )
    timeline = snapshot.timeline
    return sum(
        each.requested_time > covered
        and timeline.commit_summary(each).operation_type != _INDEX_BUILD
        for each in timeline.write_instants()
    )


def _not_described(snapshot: Snapshot, definition: IndexDefinition) -> list[FileSlice]:
    """The slices of a snapshot that a file index does not describe.

    Raises:
        IndexUnusable: its kind is not here, or it cannot be computed here.
        CorruptFile: a run of it is broken.
    """
    kind = file_index_kinds().get(definition.index_type)
    if kind is None:
        raise IndexUnusable(f"the index {definition.name}: {missing_kind(definition)}")
    runs = list_runs(snapshot.storage, definition)
    known = kind.coverage_of(definition, snapshot.read_context, snapshot.slices, runs)
    return [snapshot.slices[at] for at in np.flatnonzero(~known.covered).tolist()]
