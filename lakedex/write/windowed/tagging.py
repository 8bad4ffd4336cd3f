"""Before keys are looked up: of which file slices the windowed index says where they are."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.config.write_index import Outside, RecordIndexWindow
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.format.spill import Segment, SpillWriter
from lakedex.index.kinds.windowed.lookup import GROUPS, WindowAccess
from lakedex.index.kinds.windowed.state import CoveredGroup, digest_of
from lakedex.index.kinds.windowed.store import open_window
from lakedex.storage.protocol import Storage
from lakedex.table import Snapshot
from lakedex.timeline.timeline import CommittedInstants
from lakedex.write.context import WriteContext
from lakedex.write.windowed.day_window import DayWindow


@dataclass(frozen=True)
class WindowedLookup:
    """Where keys are looked for: in the index, and in slices that it does not know."""

    access: WindowAccess | None
    searched: tuple[FileSlice, ...]


def plan_windowed_lookup(
    facts: WriteContext,
    snapshot: Snapshot,
    window: RecordIndexWindow,
    slices: Sequence[FileSlice],
) -> WindowedLookup:
    """Share some slices of a snapshot out between the index and a search of the files.

    What the index does not cover is searched, be it outside of the window or changed by a writer
    that does not know the index: so the places found are always all there are. Only where keys
    outside of the window are to be taken for new ones, slices there are left out.
    """
    if window.outside is Outside.INSERT:
        partitions = {each.partition for each in snapshot.slices}
        days = DayWindow.of(snapshot.config, window, partitions)
        slices = [each for each in slices if days.holds(each.partition)]
    storage = facts.address.open()
    state = open_window(storage, CommittedInstants.of(snapshot.timeline)).state
    covered: dict[FileSliceId, CoveredGroup] = {}
    searched = []
    for each in slices:
        known = None if state is None else state.groups.get(each.id)
        if known is not None and known.digest == digest_of(each.file_names):
            covered[each.id] = known
        else:
            searched.append(each)
    access = None
    if state is not None and covered and state.runs:
        access = WindowAccess(state.runs, spill_groups(storage, facts.scratch, covered))
    return WindowedLookup(access, tuple(searched))


def spill_groups(
    storage: Storage, scratch: str, groups: Mapping[FileSliceId, CoveredGroup]
) -> Segment:
    """Put covered groups where workers find them."""
    columns: list[Iterable[object]] = [
        [group.number for group in groups.values()],
        [group.based for group in groups.values()],
        [place.partition for place in groups],
        [place.file_id for place in groups],
    ]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, GROUPS, strict=True)]
    writer = SpillWriter(storage, f"{scratch}/covered-{uuid.uuid4().hex}")
    segment = writer.add(pa.table(arrays, schema=GROUPS))
    writer.finish()
    return segment
