"""Makes hashing metadata again that are lost or damaged.

The numbers of buckets that a rescale stored are those that the table keeps. The ring of a partition
is made by what the timeline says of it, or else by its keys:

    replay   the newest version that can be read, or the first ring; then the plans of the resizes
             since, and the writes that replaced all file groups
    keys     the hashes of all keys that a file group has in any version are in its range. What is
             between two ranges has no keys, so that either of them may have it

A ring counts only if every file group is a bucket of it, and every key is in its own. Where file
groups have keys in each other's ranges there is no such ring, and none is made: then it is rows
that are in wrong buckets. Nor is one made while a write pends that may have begun with the ring
which was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from lakedex.config.bucket_options import BucketEngineType
from lakedex.engine import LocalEngine
from lakedex.errors import CorruptFile, FileMissing, IndexUnusable, InvalidInput, LakedexError
from lakedex.filegroup import FileSlice
from lakedex.filegroup.stored_keys import stored_keys
from lakedex.index.kinds.bucket.engine import RingEngine
from lakedex.index.kinds.bucket.hashes import HASH_MASK, Hashes, hash_keys, ring_hashes
from lakedex.index.kinds.bucket.hashing_metadata import FOLDER, HashingMetadata
from lakedex.index.kinds.bucket.partition_counts import restore_partition_counts
from lakedex.index.kinds.bucket.presence import resized_engine, shown_engine
from lakedex.index.kinds.bucket.ring import (
    FIRST_INSTANT,
    GROUP_SUFFIX,
    NODES_KEY,
    PARTITION_KEY,
    SEQUENCE_KEY,
    HashNode,
    HashRing,
    node_prefix,
    nodes_of_plan,
)
from lakedex.index.kinds.bucket.table import BucketSource, load_bucket_table
from lakedex.index.verification.check import FilesMade, FilesRepaired
from lakedex.index.verification.findings import Problem
from lakedex.storage.paths import join
from lakedex.timeline import (
    Action,
    CommitMetadata,
    Instant,
    RequestedReplace,
    Timeline,
    decode_commit_metadata,
)
from lakedex.timeline.instant_time import instant_key

_Keys = Mapping[str, Hashes]
"""By file group the hashes of all keys that it has, or had in an older version, in order."""
_SPACE: Final = HASH_MASK + 1


def repair_files(subject: FilesRepaired, problems: Sequence[Problem]) -> FilesMade:
    """Make the hashing metadata again of the partitions that problems are about.

    Args:
        subject: The table, with its lock held.
        problems: What verifying says of the bucket index.

    Raises:
        IndexUnusable: the parameters of the index are not known.
    """
    table = subject.table
    counts = restore_partition_counts(table.storage, table.timeline, table.own())
    if counts is not None:
        return FilesMade((counts,))
    slices = table.slices()
    shown = shown_engine(table.storage, table.config, table.timeline, slices, table.own)
    source = BucketSource(table.read(), table.timeline, table.slices, table.own())
    found = load_bucket_table(source, shown or resized_engine(table.timeline), subject.given)
    if not isinstance(found.engine, RingEngine):
        return FilesMade()
    made: list[str] = []
    left: dict[str, str] = {}
    places = {each.place.partition for each in problems if each.place is not None}
    if any(each.place is None for each in problems):
        places.update(slices.partitions)  # one is about the whole index
    for partition in sorted(places):
        own = [each for each in slices if each.partition == partition]
        lost = _LostRing(subject, found.engine, found.options.fields, partition, own)
        try:
            ring = lost.made_again()
            if ring is None:
                continue
            found.engine.metadata.store(ring)
            found.engine.metadata.mark(partition)
        except LakedexError as error:
            left[join(FOLDER, partition)] = str(error)
        else:
            made.append(found.engine.metadata.path(partition, ring.instant))
    return FilesMade(tuple(made), left)


@dataclass(frozen=True)
class _LostRing:
    """A partition whose hashing metadata are in doubt."""

    subject: FilesRepaired
    engine: RingEngine
    fields: tuple[str, ...]
    partition: str
    slices: Sequence[FileSlice]

    def made_again(self) -> HashRing | None:
        """The ring; None where the present one is right.

        Raises:
            IndexUnusable: no ring is right for sure; the message says what is in doubt.
        """
        present = self._present()
        if present is not None and _fits(present, self._keys):
            return None
        timeline = self._timeline
        pending = timeline.pending_of(Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
        if pending:
            raise IndexUnusable(
                f"the write {pending[0].requested_time} pends, which may have begun with another "
                "ring: repair again when it is done, or roll it back"
            )
        changes = _changes(timeline, self.partition)
        for base in self._bases():
            ring = _replayed(base, changes, self._keys)
            if ring is not None and self._is_right(ring):
                return self._as_planned(ring)
        return self._as_planned(self._of_keys(changes))

    @property
    def _timeline(self) -> Timeline:
        return self.subject.table.timeline

    @property
    def _metadata(self) -> HashingMetadata:
        return self.engine.metadata

    @cached_property
    def _keys(self) -> _Keys:
        read = self.subject.table.read()
        versions = self.subject.versions(self.partition)
        tasks = [
            (own.file_id, each)
            for own in self.slices
            for each in versions.get(own.file_id, ()) or (own,)
        ]

        def hashes(task: tuple[str, FileSlice]) -> Hashes:
            keys = stored_keys(read, task[1], deleted_in_logs=True).keys
            return np.unique(ring_hashes(hash_keys(keys, self.fields)))

        found = LocalEngine().map("read the keys of buckets", hashes, tasks)
        parts: dict[str, list[Hashes]] = {}
        for (file_id, _), own in zip(tasks, found, strict=True):
            parts.setdefault(file_id, []).append(own)
        return {file_id: np.unique(np.concatenate(each)) for file_id, each in parts.items()}

    def _present(self) -> HashRing | None:
        try:
            return self._metadata.load(self.partition, self.slices)
        except (CorruptFile, IndexUnusable):
            return None

    def _is_right(self, ring: HashRing) -> bool:
        try:
            self.engine.of_ring(ring).numbers(np.zeros(1, dtype=np.uint32))
        except InvalidInput:
            return False  # its ranges are no prefixes
        return _fits(ring, self._keys)

    def _bases(self) -> Iterator[HashRing]:
        """The versions that can be read, newest first, and the first ring."""
        for instant in self._instants():
            try:
                yield self._metadata.read(self.partition, instant)
            except (CorruptFile, FileMissing):
                continue
        yield self.engine.first(self.partition)

    def _instants(self) -> list[str]:
        try:
            return list(self._metadata.versions(self.partition))
        except IndexUnusable:
            return []  # those of writes that did not complete

    def _as_planned(self, ring: HashRing) -> HashRing:
        """The ring under the number that a pending resize expects."""
        return next((replace(ring, sequence=each.sequence) for each in self._planned()), ring)

    def _planned(self) -> list[_Change]:
        """What pending resizes are about to do."""
        plan, pending = _plan_of(self._timeline), self._timeline.pending_of(Action.CLUSTERING)
        found = [_change(each.requested_time, None, plan, self.partition) for each in pending]
        return [each for each in found if each is not None]

    def _of_keys(self, changes: Sequence[_Change]) -> HashRing:
        """A ring by the keys of the file groups alone.

        Raises:
            IndexUnusable: no ring has all of them.
        """
        times = [*self._instants(), *(each.instant for each in changes), FIRST_INSTANT]
        instant = max(times, key=instant_key)
        bases = list(self._bases())
        sequence = max(each.sequence for each in bases) + len(changes) + 1
        first = self.engine.first(self.partition)
        if not self._keys:
            ring = first if instant == FIRST_INSTANT else first.with_new_groups(instant)
            return replace(ring, sequence=0 if instant == FIRST_INSTANT else sequence)
        if self.engine.options.engine is BucketEngineType.EXTENDIBLE_HASHING:
            nodes = _nodes_of_prefixes(self.partition, self._keys, instant)
        else:
            known = [node.value for each in bases for node in each.nodes]
            known += [node.value for each in (*changes, *self._planned()) for node in each.nodes]
            nodes = _nodes_of_ranges(self.partition, self._keys, known)
        ring = HashRing(self.partition, tuple(sorted(nodes)), instant, len(first.nodes), sequence)
        if not self._is_right(ring):
            raise IndexUnusable(f"no ring of partition {self.partition!r} has all of its keys")
        return ring


def _fits(ring: HashRing, keys: _Keys) -> bool:
    """Whether every file group is a bucket, and every key in its own."""
    numbers = {node.file_id: number for number, node in enumerate(ring.nodes)}
    return all(
        file_id in numbers and bool((ring.positions(hashes) == numbers[file_id]).all())
        for file_id, hashes in keys.items()
    )


# What the timeline says of a ring.


@dataclass(frozen=True)
class _Change:
    """What a completed replacecommit did to a partition."""

    instant: str
    nodes: tuple[HashNode, ...] = ()
    """Of a resize, those of its plan."""
    sequence: int = 0
    """Of a resize, that of the ring which it changed."""
    is_known: bool = True
    """Whether its plan can be read, if it had one."""


_Plan = Callable[[str], RequestedReplace | None]


def _changes(timeline: Timeline, partition: str) -> list[_Change]:
    """What completed replacecommits did to a partition, oldest first."""
    archive = timeline.archived
    found: dict[str, _Change | None] = {}
    for time in _replacing(archive.instants()):
        data = archive.metadata(time)
        summary = None
        if data is not None:
            path = f"the archived commit {time}"
            summary = decode_commit_metadata(data, path=path, with_stats=False)
        found[time] = _change(time, summary, _archived_plan_of(timeline), partition)
    for instant in timeline.write_instants():
        if instant.action is Action.REPLACECOMMIT:
            summary = timeline.commit_summary(instant)
            time = instant.requested_time
            found[time] = _change(time, summary, _plan_of(timeline), partition)
    known = [each for each in found.values() if each is not None]
    return sorted(known, key=lambda each: instant_key(each.instant))


def _replacing(instants: Sequence[Instant]) -> list[str]:
    return [each.requested_time for each in instants if each.action is Action.REPLACECOMMIT]


def _plan_of(timeline: Timeline) -> _Plan:
    return timeline.requested_replace


def _archived_plan_of(timeline: Timeline) -> _Plan:
    def read(time: str) -> RequestedReplace | None:
        data = timeline.archived.plan(time)
        path = f"the archived plan {time}"
        return None if data is None else RequestedReplace.decode(data, path=path)

    return read


def _change(
    time: str, summary: CommitMetadata | None, plan: _Plan, partition: str
) -> _Change | None:
    """What an instant does to a partition; None where it is about others."""
    try:
        requested = plan(time)
    except (CorruptFile, FileMissing):
        requested = None
    groups = (
        () if requested is None or requested.clustering is None else requested.clustering.groups
    )
    nodes: list[HashNode] = []
    sequence = 0
    for group in groups:
        extra = group.extra or {}
        if extra.get(PARTITION_KEY) == partition and extra.get(SEQUENCE_KEY, "").isdigit():
            nodes += nodes_of_plan(extra.get(NODES_KEY, "[]"), path=f"the plan {time}")
            sequence = int(extra[SEQUENCE_KEY])
    if nodes:
        return _Change(time, tuple(nodes), sequence)
    if summary is None or partition not in summary.replaced_file_ids:
        return None
    return _Change(time, is_known=not summary.is_clustering)


def _replayed(base: HashRing, changes: Sequence[_Change], keys: _Keys) -> HashRing | None:
    """The ring that a version has become since; None where the timeline does not tell it.

    A write that replaced all file groups gave the buckets new ones if it was lakedex's, and left
    them as they were if it was Hudi's: of both the file groups that are there tell.
    """
    ring = base
    overwritten: list[str] = []
    made: dict[str, str] = {}
    since = instant_key(base.instant)
    for change in changes:
        if instant_key(change.instant) <= since:
            continue
        if not change.is_known:
            return None
        if not change.nodes:
            overwritten.append(change.instant)
            continue
        after = [each for each in overwritten if instant_key(each) > instant_key(ring.instant)]
        if not ring.sequence <= change.sequence <= ring.sequence + len(after):
            return None
        try:
            ring = replace(ring, sequence=change.sequence).resized(change.nodes, change.instant)
        except InvalidInput:
            return None
        made |= {node.prefix: change.instant for node in change.nodes}
    nodes = []
    for node, (begin, value) in zip(ring.nodes, ring.ranges(), strict=True):
        born = instant_key(made.get(node.prefix, base.instant))
        later = [each for each in overwritten if instant_key(each) > born]
        names = [node.prefix, *(node_prefix(ring.partition, begin, value, at) for at in later)]
        live = [each for each in names if f"{each}{GROUP_SUFFIX}" in keys]
        # A bucket without a file group is that of the newest write.
        nodes.append(HashNode(value, live[-1] if live else names[-1]))
    after = [each for each in overwritten if instant_key(each) > instant_key(ring.instant)]
    instant = after[-1] if after else ring.instant
    return replace(ring, nodes=tuple(nodes), instant=instant, sequence=ring.sequence + len(after))


# What the keys say of a ring.


def _nodes_of_ranges(partition: str, keys: _Keys, known: Sequence[int]) -> list[HashNode]:
    """Buckets whose ranges end at known values where they can.

    Raises:
        IndexUnusable: naming two file groups that have keys in each other's ranges.
    """
    with_keys = {file_id: hashes for file_id, hashes in keys.items() if len(hashes)}
    names = list(with_keys)
    if not names:
        step = _SPACE // len(keys)
        values = [step * (number + 1) - 1 for number in range(len(keys))]
        return [HashNode(v, _prefix(each)) for v, each in zip(values, sorted(keys), strict=True)]
    hashes = np.concatenate([with_keys[name] for name in names]).astype(np.int64)
    owners = np.repeat(np.arange(len(names)), [len(with_keys[name]) for name in names])
    order = np.lexsort((owners, hashes))
    hashes, owners = hashes[order], owners[order]
    ends = np.flatnonzero(np.append(owners[1:] != owners[:-1], [True]))
    runs = owners[ends].tolist()
    # The ring has no beginning: the first and the last run may be one range.
    is_round = len(runs) > 1 and runs[0] == runs[-1]
    whole = runs[:-1] if is_round else runs
    twice = sorted(name for number, name in enumerate(names) if whole.count(number) > 1)
    same = np.flatnonzero(hashes[1:] == hashes[:-1])
    if twice or len(same):
        raise _mixed(partition, twice or sorted(names[n] for n in owners[same[0] : same[0] + 2]))
    lasts = hashes[ends].tolist()
    nexts = [*hashes[ends[:-1] + 1].tolist(), _SPACE]
    gaps = list(zip(whole, lasts, nexts, strict=False))
    nodes = []
    values = sorted({*known, HASH_MASK})
    for number, last, following in gaps:
        inside = [value for value in values if last <= value < following]
        nodes.append(HashNode(inside[-1] if inside else last, _prefix(names[number])))
    return [*nodes, *_without_keys(partition, sorted(keys.keys() - with_keys), nodes, gaps)]


def _without_keys(
    partition: str,
    file_ids: Sequence[str],
    nodes: list[HashNode],
    gaps: Sequence[tuple[int, int, int]],
) -> list[HashNode]:
    """Buckets for file groups without a key, in the widest range that has none."""
    if not file_ids:
        return []
    at = max(range(len(gaps)), key=lambda each: gaps[each][2] - gaps[each][1])
    _, last, following = gaps[at]
    step = (following - 1 - last) // (len(file_ids) + 1)
    if not step:
        raise IndexUnusable(
            f"file group {file_ids[0]} of partition {partition!r} has no keys, and those of the "
            "others leave no range for it"
        )
    nodes[at] = HashNode(last + step, nodes[at].prefix)
    ends = [last + step * (number + 2) for number in range(len(file_ids))]
    if following == _SPACE:
        ends[-1] = HASH_MASK
    return [HashNode(end, _prefix(each)) for end, each in zip(ends, file_ids, strict=True)]


def _nodes_of_prefixes(partition: str, keys: _Keys, instant: str) -> list[HashNode]:
    """Buckets of prefixes, as few as there can be.

    Raises:
        IndexUnusable: naming two file groups that no prefix sets apart.
    """
    leaves = list(_halved(partition, 0, _SPACE, {k: h for k, h in keys.items() if len(h)}))
    for file_id in sorted(each for each, hashes in keys.items() if not len(hashes)):
        free = next((at for at, leaf in enumerate(leaves) if leaf[2] is None), None)
        while free is None:
            at, halves = _split_leaf(partition, leaves, keys)
            leaves[at : at + 1] = halves
            free = next((at for at, leaf in enumerate(leaves) if leaf[2] is None), None)
        leaves[free] = (*leaves[free][:2], file_id)
    return [
        HashNode(
            end - 1,
            # It is new, as the file group that the bucket had is unknown.
            node_prefix(partition, begin, end - 1, f"{instant} repaired")
            if file_id is None
            else _prefix(file_id),
        )
        for begin, end, file_id in leaves
    ]


_Leaf = tuple[int, int, str | None]
"""The begin and the end of a range, and its file group if it has one."""


def _halved(partition: str, begin: int, end: int, keys: _Keys) -> Iterator[_Leaf]:
    if len(keys) < 2:
        yield begin, end, next(iter(keys), None)
        return
    middle = (begin + end) // 2
    low = {each: hashes for each, hashes in keys.items() if hashes[0] < middle}
    high = {each: hashes for each, hashes in keys.items() if hashes[-1] >= middle}
    both = sorted(low.keys() & high.keys())
    if both or end - begin < 2:
        raise _mixed(partition, sorted({*both[:1], *(each for each in keys if each not in both)}))
    yield from _halved(partition, begin, middle, low)
    yield from _halved(partition, middle, end, high)


def _split_leaf(
    partition: str, leaves: Sequence[_Leaf], keys: _Keys
) -> tuple[int, tuple[_Leaf, _Leaf]]:
    """A bucket one half of which has no keys, and its halves."""
    for at, (begin, end, file_id) in enumerate(leaves):
        hashes = keys[file_id or ""]
        middle = (begin + end) // 2
        if end - begin < 2 or (len(hashes) and hashes[0] < middle <= hashes[-1]):
            continue
        is_low = bool(len(hashes)) and hashes[0] < middle
        names = (file_id, None) if is_low else (None, file_id)
        return at, ((begin, middle, names[0]), (middle, end, names[1]))
    raise IndexUnusable(
        f"partition {partition!r} has file groups without keys, and those of the others leave no "
        "range for them"
    )


def _prefix(file_id: str) -> str:
    return file_id.removesuffix(GROUP_SUFFIX)


def _mixed(partition: str, file_ids: Sequence[str]) -> IndexUnusable:
    return IndexUnusable(
        f"no ring of partition {partition!r} has all of its keys in their buckets, as file group "
        f"{file_ids[0]} has keys among those of {' and '.join(file_ids[1:2]) or 'others'}: write "
        "the partition anew from its own rows (insert_overwrite)"
    )
