"""What a planned compaction merges, as the table is when it runs.

A plan names files. Of those that count, what a group's slice is just before the plan's instant is
found anew: a log file that completed before and that the plan left out would be hidden by the new
base file (case B59).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator

from lakedex.errors import FileMissing
from lakedex.filegroup import BaseFile, FileSlice, FileSliceId, Visibility, latest_slices
from lakedex.filegroup.names import parse_data_file
from lakedex.table import Snapshot
from lakedex.timeline import CompactionOperation, CompactionPlan, instant_key

log = logging.getLogger("lakedex")


def planned_slices(snapshot: Snapshot, plan: CompactionPlan, instant: str) -> list[FileSlice]:
    """The slices of a plan, in its order.

    Groups that were replaced, or got a base file, since the plan was made are left out.

    Raises:
        FileMissing: a file that the plan names is not in the table.
    """
    seen = snapshot.visibility
    limit = instant_key(instant)

    def completed_before(time: str) -> bool:
        return instant_key(seen.completion_time(time)) < limit

    before = Visibility(
        is_visible=lambda time: seen.is_visible(time) and completed_before(time),
        completion_time=seen.completion_time,
        logs_name_own_instant=True,
    )
    files = _files_of(snapshot, plan)
    slices = []
    for operation in plan.operations:
        place = FileSliceId(operation.partition_path, operation.file_id)
        if place in seen.replaced:
            log.info("%s was replaced since %s was planned: left out", place, instant)
            continue
        own = files[place]
        if any(
            seen.is_visible(base.instant_time) and not completed_before(base.instant_time)
            for base in _bases(own)
        ):
            log.info("%s was written anew since %s was planned: left out", place, instant)
            continue
        found = latest_slices(place.partition, own, before)
        _check(operation, {name for name, _ in own}, found, instant)
        slices += found
    return slices


def _files_of(snapshot: Snapshot, plan: CompactionPlan) -> dict[FileSliceId, list[tuple[str, int]]]:
    """The names and sizes of the files of a plan's groups."""
    wanted = {FileSliceId(each.partition_path, each.file_id) for each in plan.operations}
    found: dict[FileSliceId, list[tuple[str, int]]] = defaultdict(list)
    for partition in {place.partition for place in wanted}:
        for name, size in snapshot.listing.files.get(partition, ()):
            parsed = parse_data_file(name, size)
            if parsed is not None and (place := FileSliceId(partition, parsed.file_id)) in wanted:
                found[place].append((name, size))
    return found


def _bases(files: list[tuple[str, int]]) -> Iterator[BaseFile]:
    for name, size in files:
        parsed = parse_data_file(name, size)
        if isinstance(parsed, BaseFile):
            yield parsed


def _check(
    operation: CompactionOperation, listed: set[str], found: list[FileSlice], instant: str
) -> None:
    present = {name for current in found for name in current.file_names}
    named = [*([operation.data_file] if operation.data_file else []), *operation.log_files]
    for name in named:
        if name not in listed:
            place = f"{operation.partition_path}/{name}".lstrip("/")
            raise FileMissing(f"{place}, which the compaction {instant} is to read, is gone")
    more = present - set(named)
    if more:
        log.warning("the compaction %s was planned without %s", instant, ", ".join(sorted(more)))
