"""Hashing metadata: the versions of the ring of each partition, where Hudi has them.

    .hoodie/.bucket_index/consistent_hashing_metadata/<partition path>/
        00000000000000.hashing_meta     the first ring
        <instant>.hashing_meta          the ring that the replacecommit of an instant made
        <instant>.commit                empty: that replacecommit is known to be complete

A version is written before its replacecommit completes, and the mark lazily after. So a version
counts where its instant completed, and where it is marked and older than the active timeline. What
a restore or a rollback took back does not count, even if it is marked: its instant is gone from the
timeline.

A partition without metadata gets its first ring when it has no file groups. Where it has some, the
first ring is taken only if all of them are of it; else the table is refused by name: the default
ring in place of a lost one would put every key into a second file group. `repair` makes lost and
damaged ones again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakedex.config import keys
from lakedex.errors import AlreadyExists, CorruptFile, IndexUnusable, InvalidInput
from lakedex.filegroup import FileSlice
from lakedex.index.kinds.bucket.ring import FIRST_INSTANT, HashRing, local_depths
from lakedex.storage import split
from lakedex.storage.paths import join
from lakedex.storage.protocol import Storage
from lakedex.timeline import Timeline
from lakedex.timeline.instant_time import instant_key

FOLDER: Final = f"{keys.BUCKET_INDEX_FOLDER}/consistent_hashing_metadata"
SUFFIX: Final = ".hashing_meta"
REMEDY: Final = "`lakedex repair` makes it again"
"""What to do about hashing metadata that are lost or damaged."""
_META: Final = SUFFIX
_MARK: Final = ".commit"


def has_rings(storage: Storage) -> bool:
    """Whether a table has hashing metadata."""
    return split(FOLDER)[1] in storage.folders(keys.BUCKET_INDEX_FOLDER)


@dataclass(frozen=True)
class HashingMetadata:
    """The hashing metadata of a table, by one state of its timeline."""

    storage: Storage
    timeline: Timeline
    is_of_prefixes: bool = False
    """Whether rings must be those of the engine EXTENDIBLE_HASHING."""

    def load(self, partition: str, slices: Iterable[FileSlice] = ()) -> HashRing | None:
        """The present ring of a partition; None where it never had one.

        Args:
            partition: The partition path.
            slices: The file slices of the partition, whose file groups must be of the ring.

        Raises:
            CorruptFile: the metadata cannot be read.
            IndexUnusable: they are not those of the file groups that are there.
        """
        versions = self.versions(partition)
        for instant, is_there in versions.items():
            path = self.path(partition, instant)
            if not is_there:
                raise IndexUnusable(f"{path} is missing, and its mark is there; {REMEDY}")
            ring = self.read(partition, instant)
            _check_groups(ring, slices, path)
            return ring
        return None

    def versions(self, partition: str) -> dict[str, bool]:
        """The instants whose versions count, newest first, and whether the file is there.

        One that is marked, and not there, was lost.

        Raises:
            IndexUnusable: there are versions, and none of them counts.
        """
        folder = join(FOLDER, partition)
        names = {split(info.path)[1] for info in self.storage.list(folder)}
        found = {name.rpartition(".")[0] for name in names if name.endswith((_META, _MARK))}
        counting = {
            instant: f"{instant}{_META}" in names
            for instant in sorted(found, key=instant_key, reverse=True)
            if self._counts(instant, is_marked=f"{instant}{_MARK}" in names)
        }
        left = sorted(name for name in names if name.endswith(_META))
        if left and not any(counting.values()):
            raise IndexUnusable(
                f"no version of the hashing metadata in {folder} is of a completed instant "
                f"({', '.join(left)}), and the first one is missing; {REMEDY}"
            )
        return counting

    def load_or_create(self, first: HashRing, slices: Iterable[FileSlice]) -> HashRing:
        """The present ring of a partition, which is the given one where it has none yet.

        Raises:
            CorruptFile: the metadata cannot be read.
            IndexUnusable: metadata are missing, and the file groups are not of the first ring.
        """
        own = list(slices)
        ring = self.load(first.partition, own)
        if ring is not None:
            return ring
        path = self.path(first.partition, first.instant)
        _check_groups(first, own, f"{path}, which is missing")
        try:
            self.storage.create(path, first.to_json())
        except AlreadyExists:
            # Another writer was faster; all of them write the same ring for one table.
            return self.read(first.partition, first.instant)
        return first

    def store(self, ring: HashRing) -> None:
        """Write the ring that the replacecommit of its instant makes, before that completes."""
        self.storage.replace(self.path(ring.partition, ring.instant), ring.to_json())

    def mark(self, partition: str) -> None:
        """Mark the versions of a partition whose instants completed, before those are archived."""
        folder = join(FOLDER, partition)
        names = {split(info.path)[1] for info in self.storage.list(folder)}
        for name in sorted(names):
            instant = name.removesuffix(_META)
            if name.endswith(_META) and f"{instant}{_MARK}" not in names:
                self._mark(folder, instant)

    def discard(self, instant: str) -> None:
        """Remove what a write that is rolled back made."""
        found = {info.path for info in self.storage.list_recursive(FOLDER)}
        # A mark without a version says nothing, but a version with its mark would count.
        for suffix in (_MARK, _META):
            for path in sorted(found):
                if split(path)[1] == f"{instant}{suffix}":
                    self.storage.delete(path)

    def remove_before(self, earliest: str) -> int:
        """Remove the versions that were replaced before an instant; return how many.

        Args:
            earliest: The earliest instant as of which the table can still be read.
        """
        limit, count = instant_key(earliest), 0
        for partition in self.partitions():
            folder = join(FOLDER, partition)
            names = {split(info.path)[1] for info in self.storage.list(folder)}
            instants = sorted(
                (name.removesuffix(_META) for name in names if name.endswith(_META)),
                key=instant_key,
            )
            old = [
                each
                for each in instants
                if self._counts(each, is_marked=f"{each}{_MARK}" in names)
                and self._done(each) < limit
            ]
            if len(old) > 1:
                # Hudi knows the present version by its mark, once its instant is archived.
                self.mark(partition)
            for each in old[:-1]:
                for suffix in (_META, _MARK):
                    self.storage.delete(f"{folder}/{each}{suffix}")
                count += 1
        return count

    def _done(self, instant: str) -> str:
        """When an instant completed; one that is archived did so before all that can be read."""
        found = self.timeline.find(instant)
        return instant_key(instant if found is None else found.completion_time or instant)

    def partitions(self) -> list[str]:
        """The partitions that have a ring."""
        found = {
            split(info.path)[0].removeprefix(FOLDER).removeprefix("/")
            for info in self.storage.list_recursive(FOLDER)
            if info.path.endswith(_META)
        }
        return sorted(found)

    def _mark(self, folder: str, instant: str) -> None:
        if instant != FIRST_INSTANT and not self.timeline.is_completed(instant):
            return
        try:
            self.storage.create(f"{folder}/{instant}{_MARK}", b"")
        except AlreadyExists:
            return

    def _counts(self, instant: str, *, is_marked: bool) -> bool:
        if instant == FIRST_INSTANT or self.timeline.is_completed(instant):
            return True
        first = self.timeline.first_active
        is_older = first is not None and instant_key(instant) < instant_key(first.requested_time)
        return is_older and (is_marked or self.timeline.has_completed(instant))

    def read(self, partition: str, instant: str) -> HashRing:
        """One version of the ring of a partition.

        Raises:
            CorruptFile: the file does not hold it.
        """
        try:
            return self._read(partition, instant)
        except CorruptFile as error:
            hint = f"{error.expected} ({REMEDY})"
            raise CorruptFile(
                error.path, error.offset, expected=hint, actual=error.actual
            ) from error

    def _read(self, partition: str, instant: str) -> HashRing:
        path = self.path(partition, instant)
        ring = HashRing.from_json(self.storage.read(path), path=path)
        for what, own, found in (
            ("partition", partition, ring.partition),
            ("instant", instant, ring.instant),
        ):
            if own != found:
                raise CorruptFile(path, 0, expected=f"the ring of {what} {own!r}", actual=found)
        if self.is_of_prefixes:
            try:
                local_depths(ring)
            except InvalidInput as error:
                raise CorruptFile(path, 0, expected="ranges of prefixes", actual=error) from error
        return ring

    def path(self, partition: str, instant: str) -> str:
        """The file of a version."""
        return join(FOLDER, partition, f"{instant}{_META}")


def _check_groups(ring: HashRing, slices: Iterable[FileSlice], place: str) -> None:
    """Refuse a ring that is not that of the file groups which are there.

    Raises:
        IndexUnusable: naming a file group that is no bucket.
    """
    own = {node.file_id for node in ring.nodes}
    others = sorted(each.file_id for each in slices if each.file_id not in own)
    if others:
        raise IndexUnusable(
            f"the file group {others[0]} of partition {ring.partition!r} is no bucket of the "
            f"hashing metadata {place}; {REMEDY}"
        )
