"""The third stage, on the driver: which rows go to which file group, and how tasks share them.

Updates go where their record is. New rows fill small file groups first, then new groups of the
target size; in a table with a bucket index all rows go to the file group of their bucket. Names of
files are decided here, so that a second attempt at a task writes the same.

Group sizes follow from the size of a row in the newest base files (`row_bytes`).
"""

from __future__ import annotations

import heapq
import uuid
import zlib
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakedex.errors import CorruptFile
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.filegroup.names import base_file_name, log_file_name
from lakedex.format.parquet import read_footer
from lakedex.format.spill import Segment
from lakedex.table import Snapshot
from lakedex.write.handles.work import GroupWork, NewBuckets
from lakedex.write.layout.arranging import Arranged
from lakedex.write.layout.order import RowOrder
from lakedex.write.rows import CopyOf, TaggedPart

_TASKS_PER_CORE = 2
_TASK_BYTES = 256 << 20
_SMALL_BYTES = 32 << 20
"""Where so little is written, tasks that end early are cheaper than more tasks."""
_CHEAP_BYTES = 256 << 10
"""Writing so small a file anew costs no more than starting another one."""
_REWRITE_FACTOR = 8.0
"""In merge-on-read tables a group is written anew for at least an eighth of new rows."""
_LOG_COST = 4
"""Writing a base file anew costs about as much as logs for a quarter of its bytes."""


@dataclass(frozen=True, slots=True)
class FileSizes:
    """How large files are meant to be."""

    small_bytes: int
    most_bytes: int
    row_bytes: float
    """The bytes of a row in a base file, as far as is known."""

    def most_rows(self) -> int:
        """How many rows a new file takes."""
        return max(1, int(self.most_bytes / max(self.row_bytes, 1.0)))


@dataclass
class Group:
    """What a file group is going to get."""

    partition: str
    file_id: str
    current: FileSlice | None
    is_log: bool
    segments: list[Segment] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    order: RowOrder | None = None
    copy: CopyOf | None = None
    """Of a second copy of rows, in a file group that a resize is about to make."""
    new_buckets: NewBuckets | None = None
    """Where the rows go, if the file group gets a virtual log file."""

    @property
    def cost(self) -> int:
        """About how much work it is to write, in bytes."""
        rows = sum(count for _, count in self.ranges)
        held = 0 if self.current is None else self.current.size_bytes
        spilled = sum(
            segment.length * count // max(segment.rows, 1)
            for segment, (_, count) in zip(self.segments, self.ranges, strict=True)
        )
        return 20_000 + rows + spilled + (held // _LOG_COST if self.is_log else held)


@dataclass(frozen=True)
class Placing:
    """Where rows may go."""

    to_logs: bool
    """Whether updates go to log files."""
    fill_small: bool
    """Whether new rows may go to small groups."""
    new_in_logs: bool = False
    """Whether new rows may go to log files: where writers find keys by the record index only."""
    with_deletes: frozenset[FileSliceId] = frozenset()
    """Groups whose logs delete records: a new row in a log might bring an older one back."""
    closed: frozenset[FileSliceId] = frozenset()
    """Groups that a pending compaction or clustering writes anew: new rows would be in conflict."""
    by_bucket: bool = False
    """Whether every row has its file group, which may be a new one."""


def assign(
    parts: Iterable[TaggedPart],
    slices: Mapping[FileSliceId, FileSlice],
    sizes: FileSizes,
    placing: Placing,
) -> list[Group]:
    """The file groups to write with the rows of each."""
    groups: dict[FileSliceId, Group] = {}
    new: dict[str, list[Segment]] = defaultdict(list)
    for part in parts:
        if part.file_id is None:
            new[part.partition].append(part.segment)
            continue
        place = FileSliceId(part.partition, part.file_id)
        if place not in groups:
            current = slices.get(place) if placing.by_bucket else slices[place]
            groups[place] = Group(
                part.partition,
                part.file_id,
                current,
                is_log=part.copy is not None or (placing.to_logs and current is not None),
                copy=part.copy,
            )
        if part.needs_base:
            # A log would lay a row over the deleted one, which wins if it is younger, and of two
            # rows of a key it would delete one.
            groups[place].is_log = False
        add_segment(groups[place], part.segment, 0, part.segment.rows)
    small = small_groups(slices, groups, sizes, placing, new) if placing.fill_small else {}
    for partition, segments in sorted(new.items()):
        for group in _place(partition, segments, small.get(partition, []), sizes, placing):
            groups[FileSliceId(group.partition, group.file_id)] = group
    return list(groups.values())


def share_out(
    groups: Sequence[Group], instant: str, parallelism: int, *, run: int = 0
) -> list[list[GroupWork]]:
    """The groups as tasks of about the same cost, with the names of the files to write.

    `run` stands in the names, for instants that may be run more than once.
    """
    total = sum(group.cost for group in groups)
    waves = 1 if total < _SMALL_BYTES else _TASKS_PER_CORE
    wanted = max(parallelism * waves, -(-total // _TASK_BYTES))
    count = max(1, min(len(groups), wanted))
    loads: list[tuple[int, int]] = [(0, number) for number in range(count)]
    shares: list[list[GroupWork]] = [[] for _ in range(count)]
    for group in sorted(groups, key=lambda group: (-group.cost, group.partition, group.file_id)):
        load, number = heapq.heappop(loads)
        heapq.heappush(loads, (load + group.cost, number))
        name = _file_name(group, instant, f"{number}-{run}-0")
        new_buckets = group.new_buckets
        if new_buckets is not None:
            own = _resize_token(number, instant, len(shares[number]))
            new_buckets = replace(new_buckets, token=own)
        shares[number].append(
            GroupWork(
                partition=group.partition,
                file_id=group.file_id,
                current=group.current,
                segments=tuple(group.segments),
                ranges=tuple(group.ranges),
                file_name=name,
                is_log=group.is_log,
                order=group.order,
                is_copy=group.copy is not None,
                new_buckets=new_buckets,
            )
        )
    return shares


def _file_name(group: Group, instant: str, token: str) -> str:
    if not group.is_log:
        return base_file_name(group.file_id, token, instant, "parquet")
    if group.copy is None:
        return log_file_name(group.file_id, instant, 1, token)
    own = _resize_token(int(token.split("-")[0]), instant, 0)
    return log_file_name(group.file_id, group.copy.resize, group.copy.version, own)


def _resize_token(task: int, instant: str, place: int) -> str:
    """The write token of a log file for a file group that a resize is about to make.

    The instant in the name is that of the resize, and tells no two writers apart.
    """
    return f"{task}-{zlib.crc32(instant.encode()) >> 2}-{place}"


def arranged_groups(files: Iterable[Arranged], order: RowOrder) -> list[Group]:
    """A new file group for each range of rows, whose file is sorted."""
    groups = []
    for file in files:
        group = Group(file.partition, f"{uuid.uuid4()}-0", None, is_log=False, order=order)
        for segment in file.segments:
            add_segment(group, segment, 0, segment.rows)
        groups.append(group)
    return groups


def sort_new(groups: Iterable[Group], order: RowOrder) -> None:
    """Have the rows of new file groups sorted."""
    for group in groups:
        if group.current is None:
            group.order = order


def small_groups(
    slices: Mapping[FileSliceId, FileSlice],
    groups: Mapping[FileSliceId, Group],
    sizes: FileSizes,
    placing: Placing,
    partitions: Container[str],
) -> dict[str, list[Group]]:
    """The groups that may take new rows by partition, those first that are written anyway."""
    found: dict[str, list[tuple[bool, int, Group]]] = defaultdict(list)
    for place, current in slices.items():
        if place.partition not in partitions or current.base is None or place in placing.closed:
            continue
        if current.size_bytes >= sizes.small_bytes:
            continue
        group = groups.get(place)
        is_touched = group is not None
        if group is None:
            is_log = placing.new_in_logs and place not in placing.with_deletes
            group = Group(place.partition, place.file_id, current, is_log=is_log)
        found[place.partition].append((not is_touched, current.size_bytes, group))
    return {
        partition: [group for _, _, group in sorted(entries, key=lambda entry: entry[:2])]
        for partition, entries in found.items()
    }


def _place(
    partition: str,
    segments: Sequence[Segment],
    small: Sequence[Group],
    sizes: FileSizes,
    placing: Placing,
) -> Iterator[Group]:
    """Groups that take the new rows of a partition."""
    left = sum(segment.rows for segment in segments)
    row_bytes = max(sizes.row_bytes, 1.0)
    room: list[tuple[Group, int]] = []
    for group in small:
        if not left:
            break
        held = group.current.size_bytes if group.current else 0
        rows = min(left, int((sizes.most_bytes - held) / row_bytes))
        if rows <= 0 or not takes(group, held, rows * row_bytes, sizes, placing):
            continue
        room.append((group, rows))
        left -= rows
    most = sizes.most_rows()
    count = -(-left // most)
    for number in range(count):
        rows = left * (number + 1) // count - left * number // count
        room.append((Group(partition, f"{uuid.uuid4()}-0", None, is_log=False), rows))
    yield from _pour(segments, room)


def takes(group: Group, held: int, new_bytes: float, sizes: FileSizes, placing: Placing) -> bool:
    """Whether a group takes new rows, in a log or by being written anew if that is worth it."""
    if group.is_log and placing.new_in_logs:
        place = FileSliceId(group.partition, group.file_id)
        if place not in placing.with_deletes:
            return True
    if placing.to_logs and held > max(_CHEAP_BYTES, _REWRITE_FACTOR * new_bytes):
        return False
    group.is_log = False
    return True


def _pour(segments: Sequence[Segment], room: Sequence[tuple[Group, int]]) -> Iterator[Group]:
    """Fill groups one after the other with the rows of segments in their order."""
    rest = iter(segments)
    segment, start = next(rest, None), 0
    for group, wanted_rows in room:
        wanted = wanted_rows
        while wanted and segment is not None:
            taken = min(wanted, segment.rows - start)
            if taken:
                add_segment(group, segment, start, taken)
            wanted -= taken
            start += taken
            if start == segment.rows:
                segment, start = next(rest, None), 0
        yield group


def add_segment(group: Group, segment: Segment, start: int, count: int) -> None:
    """Let a group get some rows of a segment."""
    group.segments.append(segment)
    group.ranges.append((start, count))


_COMMITS = 5
_ENOUGH_BYTES = 1 << 20


def row_bytes(snapshot: Snapshot, rows: int, spilled_bytes: int) -> float:
    """The bytes that a row takes, from the newest commit with base files of some size.

    Spilled rows are compressed as rows in files are, if not as well, so they tell enough. Where all
    base files of the table are small, so were those of its commits, and none is read.
    """
    timeline = snapshot.timeline
    stored = sum(each.base.size_bytes for each in snapshot.slices if each.base is not None)
    newest = timeline.write_instants()[-_COMMITS:] if stored >= _ENOUGH_BYTES else ()
    for instant in reversed(newest):
        try:
            written = timeline.commit_metadata(instant).stats()
        except CorruptFile:
            continue  # `verify` names it; a guess can do without
        stats = [s for s in written if s.num_writes and s.file_size_bytes and not s.log_files]
        size = sum(stat.file_size_bytes or 0 for stat in stats)
        if size >= _ENOUGH_BYTES:
            return size / sum(stat.num_writes or 0 for stat in stats)
    return spilled_bytes / rows if rows and spilled_bytes else 1.0


def stored_rows(snapshot: Snapshot) -> int:
    """About how many rows the base files hold, taking all for as dense as the largest one."""
    bases = [(each.path_of(each.base.name), each.base) for each in snapshot.slices if each.base]
    if not bases:
        return 0
    path, largest = max(bases, key=lambda found: found[1].size_bytes)
    footer = read_footer(snapshot.storage.source(path, largest.size_bytes))
    total = sum(base.size_bytes for _, base in bases)
    return -(-footer.row_count * total // max(1, largest.size_bytes))
