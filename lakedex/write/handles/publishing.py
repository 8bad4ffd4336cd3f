"""Puts data files into the table: a marker first, so that a rollback finds what was begun.

A task may run twice, at the same time too. All attempts write the same bytes under the same name,
so who comes second finds the file there and is done. An attempt that outlives its write must leave
nothing, and take nothing away: of a write that was rolled back nobody would ever remove the file;
of one that is committed the file may be the table's, or may have been cleaned away since. So every
attempt looks whether its write goes on, after its file is there.

Where each task runs once, in the process of the writer, no attempt outlives its write. Then one
look is enough, after the file is there: at the inflight file, which goes when others roll the write
back because this process stood still.
"""

from __future__ import annotations

from lakedex.config import format_properties
from lakedex.config.keys import PARTITION_METAFILE
from lakedex.errors import AlreadyExists, CommitConflict
from lakedex.storage.protocol import Storage
from lakedex.table import Snapshot
from lakedex.timeline.instant import Action, Instant, State, file_name
from lakedex.txn.markers import MarkerKind, marker_path
from lakedex.txn.working_folders import writer_path
from lakedex.write.context import WriteContext
from lakedex.write.handles.work import GroupWork

_ACTIONS = (
    Action.COMMIT,
    Action.DELTACOMMIT,
    Action.REPLACECOMMIT,
    Action.COMPACTION,
    Action.LOGCOMPACTION,
    Action.CLUSTERING,
)


class Publisher:
    """Publishes the files of one task."""

    def __init__(self, facts: WriteContext, storage: Storage, *, files: int = 0) -> None:
        """Refuse to start for a write that is no longer pending.

        Several files are forced to the disk together, in the end; one by itself.
        """
        self._is_one = files == 1
        self._facts = facts
        self._storage = storage
        config = facts.config
        self._inflight = [
            f"{config.timeline_folder}/"
            + file_name(Instant(facts.instant, action, State.INFLIGHT), config.timeline_layout)
            for action in _ACTIONS
        ]
        self._known_partitions: set[str] = set()
        self._published: list[str] = []
        self._reserved: set[str] = set()
        if facts.repeats_tasks:
            self._require_pending()
            self._require_writer()

    def reserve(self, group: GroupWork) -> None:
        """Mark a group before any work on it, unless another writer has; where options say so.

        Raises:
            CommitConflict: the writer of another write, which lives, has marked the group.
        """
        look = self._facts.early_look
        if look is None or group.current is None:
            return
        place = group.id
        problem = look.conflict(self._storage, self._facts.config, place, rewrites=not group.is_log)
        if problem is not None:
            raise CommitConflict(f"{self._facts.instant} was not written: {problem}")
        marker = self._marker(group)
        if self._create(marker, b"", durable=False):
            self._reserved.add(marker)

    def publish(self, group: GroupWork, data: bytes) -> int:
        """Put a group's file into the table and answer its size.

        Raises:
            CommitConflict: the write has ended; the file is in the table only if it belongs there.
        """
        if self._facts.repeats_tasks:
            self._require_writer()
        marker = self._marker(group)
        is_own = self._create(marker, b"", durable=False) or marker in self._reserved
        try:
            if group.current is None:
                self._mark_partition(group)
            if self._facts.repeats_tasks:
                self._require_pending()
            path = group.path_of(group.file_name)
            is_first = self._create(path, data, durable=self._is_one)
            self._require_going_on(group)
        except CommitConflict:
            if is_own:
                self._storage.delete(marker)
            raise
        if not (is_first and self._is_one):
            self._published.append(path)
        return len(data) if is_first else self._storage.size(path)

    def finish(self) -> None:
        """Force all files of the task to the disk, before the commit can name them.

        Raises:
            CommitConflict: the write has ended, and nobody waits for this attempt.
        """
        if self._facts.repeats_tasks:
            self._require_writer()
        if self._published:
            self._storage.make_durable(self._published)

    def _marker(self, group: GroupWork) -> str:
        is_first = group.is_log or group.current is None
        kind = MarkerKind.CREATE if is_first else MarkerKind.MERGE
        return marker_path(self._facts.instant, group.path_of(group.file_name), kind)

    def _mark_partition(self, group: GroupWork) -> None:
        """Without this file Hudi does not see the folder when it lists."""
        if group.partition in self._known_partitions:
            return
        depth = group.partition.count("/") + 1 if group.partition else 0
        props = {"commitTime": self._facts.instant, "partitionDepth": str(depth)}
        text = format_properties(props, comment="partition metadata")
        path = group.path_of(PARTITION_METAFILE)
        if self._create(path, text.encode("ascii"), durable=False):
            self._published.append(path)
        self._known_partitions.add(group.partition)

    def _require_going_on(self, group: GroupWork) -> None:
        """Look once more, now that the file is there: its write may have ended just before."""
        try:
            self._require_pending()
            if self._facts.repeats_tasks:
                self._require_writer()
        except CommitConflict:
            if not is_in_table(self._storage, self._facts.instant, group):
                self._storage.delete(group.path_of(group.file_name))
            raise

    def _require_pending(self) -> None:
        for number, path in enumerate(self._inflight):
            if self._storage.exists(path):
                # Next time the one that is there is asked for first.
                self._inflight.insert(0, self._inflight.pop(number))
                return
        raise CommitConflict(
            f"the write {self._facts.instant} to table {self._facts.config.name} was rolled back"
        )

    def _require_writer(self) -> None:
        """Refuse to go on when the write has ended either way.

        The inflight file of a committed write stays until it is archived, so it is no sign of that.
        """
        if not self._storage.exists(writer_path(self._facts.instant)):
            raise CommitConflict(
                f"the write {self._facts.instant} to table {self._facts.config.name} has ended"
            )

    def _create(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        """Whether this call made the file; another attempt may have been first."""
        try:
            self._storage.create(path, data, durable=durable)
        except AlreadyExists:
            return False
        return True


def is_in_table(storage: Storage, instant: str, group: GroupWork) -> bool:
    """Whether a group's file of an instant that has ended belongs to the table.

    It does when the instant completed, and was perhaps archived since, unless the table's own list
    of files no longer has it: then it was cleaned away, and is there again by mistake. A table
    without such a list is not read further: there the folder is the list.
    """
    snapshot = Snapshot.open(storage)
    if not snapshot.timeline.has_completed(instant):
        return False
    if snapshot.metadata is None:
        return True
    files = snapshot.listing.files.get(group.partition, [])
    return any(name == group.file_name for name, _ in files)
