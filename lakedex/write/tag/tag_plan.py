"""What workers that tag rows are told; it travels with each task."""

from __future__ import annotations

from dataclasses import dataclass

from lakedex.config.write_index import WriteIndex
from lakedex.format.spill import Segment
from lakedex.index.kinds.windowed.lookup import WindowAccess
from lakedex.write.tag.record_places import RecordIndexAccess


@dataclass(frozen=True)
class TagPlan:
    """How one write finds the places of its keys."""

    index: WriteIndex
    update_partition_path: bool
    """Whether a record of a global index moves with its partition value."""
    matches: tuple[tuple[Segment, ...], ...] = ()
    """Places found in file slices, by bucket; not for record indexes."""
    record_index: RecordIndexAccess | None = None
    """None also while the table has no rows."""
    slices: Segment | None = None
    """The catalog of the snapshot's slices, where a worker may need one."""
    window: WindowAccess | None = None
    """A windowed record index, whose places come to those in `matches`."""
    closed: frozenset[str] = frozenset()
    """Groups (see `group_names`) that take nothing back which their logs deleted."""
