"""The buckets of a table for people: their ranges, sizes and rows, and what a resize would do.

What is due is what the next resize finds, by the same policy and limits. Buckets of a fixed number
are judged by the same limits: see `rescaled_count`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from lakedex.config.bucket_options import BucketEngineType, BucketProperties, ResizeOptions
from lakedex.config.option_check import check_options, did_you_mean
from lakedex.config.write_option_names import INDEX_TYPE, MAX_FILE_SIZE
from lakedex.config.write_options import by_newest_name
from lakedex.errors import InvalidInput
from lakedex.filegroup import FileSlice, ReadContext, count_rows
from lakedex.filegroup.reading import base_row_count
from lakedex.index.kinds.bucket.engine import SimpleEngine
from lakedex.index.kinds.bucket.hashes import Hashes
from lakedex.index.kinds.bucket.resize import (
    BucketChange,
    PlannedChange,
    ResizeLimits,
    rescaled_count,
)
from lakedex.index.kinds.bucket.table import BucketSource, BucketTable, load_bucket_table
from lakedex.table import Snapshot
from lakedex.table.bucket_index import find_bucket_index
from lakedex.table.own_properties import read_own_properties
from lakedex.write.resizing.pending import planned_changes
from lakedex.write.resizing.planning import (
    BucketResize,
    ResizeBounds,
    RingPartition,
    RingTable,
    base_bytes,
    due_resizes,
    named_policy,
    resize_limits,
    ring_partitions,
    slice_hashes,
    unchanged_partitions,
)

_READERS: Final = 8
Action = Literal["split", "merge", "rewrite", "rescale"]


@dataclass(frozen=True, slots=True)
class BucketInfo:
    """One bucket: a file group, or none yet."""

    number: int
    """Its place in the ring, or the remainder of the hash."""
    file_id: str | None
    """The file group; None for a bucket of the engine SIMPLE that never had a row."""
    first_hash: int | None
    """The first hash value of its range, which may be above the last one; None for SIMPLE."""
    last_hash: int | None
    size_bytes: int
    rows: int | None
    """None where rows were not counted."""
    log_files: int


@dataclass(frozen=True, slots=True)
class ResizeInfo:
    """Buckets of a partition that become others, by a plan that pends or one that is due."""

    action: Action
    buckets: tuple[int, ...]
    """Their numbers."""
    into: int
    """How many buckets take their rows."""
    bytes_read: int
    bytes_written: int
    """About: log files are smaller once they are merged."""
    instant: str | None = None
    """That of a plan which pends."""

    def __str__(self) -> str:
        named = ", ".join(map(str, self.buckets[:_NAMED]))
        rest = f" and {len(self.buckets) - _NAMED} more" if len(self.buckets) > _NAMED else ""
        if self.action == "rescale":
            return f"rescale {len(self.buckets)} buckets to {self.into}"
        into = f" into {self.into}" if self.action == "split" else ""
        return f"{self.action} {named}{rest}{into}"


_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The buckets of one partition."""

    partition: str
    buckets: tuple[BucketInfo, ...]
    pending: tuple[ResizeInfo, ...] = ()
    """Resizes that are planned and not yet run."""
    due: tuple[ResizeInfo, ...] = ()
    """What the next resize would do; of SIMPLE a rescale that its sizes call for."""
    waiting: tuple[int, ...] = ()
    """Buckets that are to be changed by later plans, as one plan is limited."""

    @property
    def size_bytes(self) -> int:
        """The bytes of all buckets."""
        return sum(each.size_bytes for each in self.buckets)

    @property
    def rows(self) -> int | None:
        """The rows of all buckets; None where they were not counted."""
        counts = [each.rows for each in self.buckets]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def skew(self) -> float:
        """How many times as large as the mean the largest bucket is; 1 if all are equal."""
        mean = self.size_bytes / len(self.buckets)
        return max(each.size_bytes for each in self.buckets) / mean if mean else 1.0

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        found = asdict(self)
        return {
            "partition": self.partition,
            "count": len(self.buckets),
            "size_bytes": self.size_bytes,
            "rows": self.rows,
            "skew": round(self.skew, 3),
            **{name: list(found[name]) for name in ("buckets", "pending", "due", "waiting")},
        }


@dataclass(frozen=True, slots=True)
class BucketReport:
    """The buckets of a table, as `Table.buckets` finds them; prints a line for each partition."""

    table: str
    engine: str
    hash_fields: tuple[str, ...]
    first_count: int
    """The number of buckets of a new partition."""
    expressions: str
    """Numbers of buckets by partition: `pattern,number;pattern,number`; empty without them."""
    limits: ResizeLimits
    """From which size on buckets are split and merged."""
    partitions: tuple[PartitionReport, ...]

    @property
    def is_ring(self) -> bool:
        """Whether buckets are ranges of the hash, which can be split and merged."""
        return self.engine != BucketEngineType.SIMPLE.value

    @property
    def count(self) -> int:
        """How many buckets all partitions have."""
        return sum(len(each.buckets) for each in self.partitions)

    @property
    def size_bytes(self) -> int:
        """The bytes of all buckets."""
        return sum(each.size_bytes for each in self.partitions)

    @property
    def due(self) -> tuple[tuple[str, ResizeInfo], ...]:
        """What is due, with the partitions."""
        return tuple((each.partition, due) for each in self.partitions for due in each.due)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return {
            "table": self.table,
            "engine": self.engine,
            "hash_fields": list(self.hash_fields),
            "first_count": self.first_count,
            "expressions": self.expressions,
            "limits": asdict(self.limits),
            "partitions": [each.as_dict() for each in self.partitions],
        }

    def __str__(self) -> str:
        lines = [f"{self.table}: {self.engine} on {', '.join(self.hash_fields)}"]
        for each in self.partitions:
            changes = [*(f"{p} pends ({p.instant})" for p in each.pending), *map(str, each.due)]
            changed = f"; {'; '.join(changes)}" if changes else ""
            lines.append(
                f"{each.partition or '(no partitions)'}: {len(each.buckets):,} buckets, "
                f"{each.size_bytes:,} bytes{changed}"
            )
        return "\n".join(lines)


def report_buckets(
    snapshot: Snapshot,
    partitions: Collection[str] = (),
    options: Mapping[str, str] | None = None,
    *,
    counts_rows: bool = True,
) -> BucketReport:
    """The buckets of a table, or of some partitions.

    Args:
        snapshot: The table.
        partitions: The paths of some partitions; none for all.
        options: Options of a resize, such as `hoodie.bucket.index.split.threshold`.
        counts_rows: Whether rows are counted, for which footers and log files are read.

    Raises:
        InvalidInput: the table has no bucket index, or not such a partition, or an option is wrong.
        CorruptFile: hashing metadata cannot be read.
        IndexUnusable: file groups are not those of the buckets, or the parameters are not known.
    """
    given = dict(options or {})
    check_options(given)
    kept = read_own_properties(snapshot.storage)
    found = _bucket_table(snapshot, kept, given)
    settings = {**by_newest_name(kept), **by_newest_name(given)}
    resizing = ResizeOptions.resolve(settings, given)
    limits = resize_limits(MAX_FILE_SIZE.value(settings), resizing)
    present = snapshot.slices.partitions
    for each in partitions:
        if each not in present:
            hint = did_you_mean(each, present)
            raise InvalidInput(f"the table has no partition {each!r}{hint}")
    chosen = sorted(partitions or present)
    if isinstance(found.engine, SimpleEngine):
        whole = _simple_partitions(snapshot, found.engine, chosen, limits)
        expressions = found.engine.counts.expressions
    else:
        whole = _ring_partitions(snapshot, found, chosen, limits, resizing)
        expressions = ""
    if counts_rows:
        rows = _count_rows(snapshot, chosen)
        whole = [_with_rows(each, rows) for each in whole]
    return BucketReport(
        snapshot.config.name,
        found.options.engine.value,
        found.options.fields,
        found.options.count,
        "" if expressions == f".*,{found.options.count}" else expressions,
        limits,
        tuple(whole),
    )


def has_buckets(snapshot: Snapshot) -> bool:
    """Whether a table has a bucket index, whoever made it."""
    kept = read_own_properties(snapshot.storage)
    if INDEX_TYPE.given(kept) is not None:
        return BucketProperties.of(kept).is_bucket
    return find_bucket_index(snapshot) is not None


def _bucket_table(
    snapshot: Snapshot, kept: Mapping[str, str], given: Mapping[str, str]
) -> BucketTable:
    stated = BucketProperties.of(kept).is_bucket
    shown = None if stated else find_bucket_index(snapshot)
    if shown is None and not stated:
        raise InvalidInput(
            f"table {snapshot.config.name} has no bucket index; lakedex indexes lists those it has"
        )
    source = BucketSource(snapshot.read_context, snapshot.timeline, lambda: snapshot.slices, kept)
    return load_bucket_table(source, None if shown is None else shown.engine, given)


def _simple_partitions(
    snapshot: Snapshot, engine: SimpleEngine, partitions: Sequence[str], limits: ResizeLimits
) -> list[PartitionReport]:
    slices = _by_partition(snapshot, partitions)
    found = []
    for partition in partitions:
        own = slices[partition]
        buckets = engine.buckets(partition, own)
        by_id = {each.file_id: each for each in own}
        infos = [
            _info(number, buckets.present.get(number), by_id) for number in range(buckets.count)
        ]
        sizes = [base_bytes([by_id[i.file_id]]) if i.file_id in by_id else 0 for i in infos]
        wanted = rescaled_count(sizes, limits)
        due: tuple[ResizeInfo, ...] = ()
        if wanted is not None:
            numbers = tuple(range(buckets.count))
            read = sum(each.size_bytes for each in own)
            due = (ResizeInfo("rescale", numbers, wanted, read, sum(sizes)),)
        found.append(PartitionReport(partition, tuple(infos), due=due))
    return found


def _ring_partitions(
    snapshot: Snapshot,
    found: BucketTable,
    partitions: Sequence[str],
    limits: ResizeLimits,
    resizing: ResizeOptions,
) -> list[PartitionReport]:
    table = RingTable.of(found.options, snapshot)
    rings = ring_partitions(snapshot, table, partitions)
    free = {name: rings[name] for name in unchanged_partitions(snapshot, partitions)}
    due = due_resizes(
        free,
        limits,
        _Sampler(snapshot.read_context, found.options.fields).hashes,
        bounds=ResizeBounds(resizing.most_bytes, resizing.most_partitions),
        policy=named_policy(resizing.policy, found.options.engine),
    )
    by_partition: dict[str, list[ResizeInfo]] = defaultdict(list)
    for planned, resize in due.taken:
        by_partition[planned.partition].append(_due(planned, resize))
    return [
        PartitionReport(
            name,
            _ring_buckets(own),
            _pending(snapshot, own),
            tuple(sorted(by_partition[name], key=lambda each: each.buckets)),
            tuple(sorted(due.waiting.get(name, ()))),
        )
        for name, own in rings.items()
    ]


def _ring_buckets(own: RingPartition) -> tuple[BucketInfo, ...]:
    by_id = {each.file_id: each for each in own.slices.values()}
    return tuple(
        _info(number, node.file_id, by_id, hashes)
        for number, (node, hashes) in enumerate(zip(own.ring.nodes, own.ring.ranges(), strict=True))
    )


def _due(planned: PlannedChange, resize: BucketResize) -> ResizeInfo:
    change: BucketChange = planned.change
    read = sum(each.size_bytes for each in resize.slices)
    action = _action(len(change.numbers), len(change.outputs))
    return ResizeInfo(action, change.numbers, len(change.outputs), read, planned.size_bytes)


def _pending(snapshot: Snapshot, own: RingPartition) -> tuple[ResizeInfo, ...]:
    found = []
    for instant, numbers, outputs in planned_changes(snapshot.timeline, own.ring):
        slices = [own.slices[number] for number in numbers if number in own.slices]
        action = _action(len(numbers), outputs)
        read = sum(each.size_bytes for each in slices)
        found.append(ResizeInfo(action, numbers, outputs, read, base_bytes(slices), instant))
    return tuple(found)


def _action(before: int, after: int) -> Action:
    if before == after:
        return "rewrite"  # Hudi plans this for a bucket that has no small neighbour
    return "split" if after > before else "merge"


def _info(
    number: int,
    file_id: str | None,
    slices: Mapping[str, FileSlice],
    hashes: tuple[int, int] | None = None,
) -> BucketInfo:
    own = slices.get(file_id or "")
    first, last = hashes or (None, None)
    size = own.size_bytes if own is not None else 0
    return BucketInfo(number, file_id, first, last, size, None, len(own.logs) if own else 0)


def _by_partition(snapshot: Snapshot, partitions: Iterable[str]) -> dict[str, list[FileSlice]]:
    found: dict[str, list[FileSlice]] = {each: [] for each in partitions}
    for each in snapshot.slices:
        if each.partition in found:
            found[each.partition].append(each)
    return found


def _count_rows(snapshot: Snapshot, partitions: Sequence[str]) -> dict[tuple[str, str], int]:
    context = snapshot.read_context
    own = _by_partition(snapshot, partitions)
    slices = [each for partition in own.values() for each in partition]

    def count(each: FileSlice) -> int:
        return count_rows(context, each) if each.logs else base_row_count(context, each)

    with ThreadPoolExecutor(_READERS) as readers:
        counts = readers.map(count, slices)
        return {(s.partition, s.file_id): n for s, n in zip(slices, counts, strict=True)}


def _with_rows(whole: PartitionReport, rows: Mapping[tuple[str, str], int]) -> PartitionReport:
    counted = tuple(
        replace(each, rows=rows.get((whole.partition, each.file_id or ""), 0))
        for each in whole.buckets
    )
    return replace(whole, buckets=counted)


@dataclass(frozen=True)
class _Sampler:
    """Reads keys with threads of this process."""

    context: ReadContext
    fields: tuple[str, ...]

    def hashes(self, slices: Sequence[FileSlice]) -> list[Hashes]:
        with ThreadPoolExecutor(_READERS) as readers:
            return list(
                readers.map(lambda each: slice_hashes(self.context, self.fields, each), slices)
            )
