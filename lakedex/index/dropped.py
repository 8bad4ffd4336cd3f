"""Indexes that another engine dropped: their definition is there, their partition is not.

Hudi removes an index whose partition the options of a writer do not name, and leaves its
definition; no instant says so (case B62). But every write leaves a deltacommit in the metadata
table, which names the partitions that it wrote. The index was there until the last deltacommit
that names it, and was gone when a write added or removed rows without writing to the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakedex.config import TableConfig
from lakedex.errors import LakedexError
from lakedex.index.definitions import IndexDefinition
from lakedex.timeline import CommitMetadata, Instant, Timeline, instant_key

_INDEX = "INDEX"
_BUILD = "0000"
"""How the times of builds begin in the metadata table."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """An index that was there, and the write that dropped it.

    Example:
        >>> print(Dropped("record_index", "20260102030405678", "20260102030409000"))
        another engine dropped it with the write 20260102030409000
    """

    name: str
    seen: str
    """When it was last seen, by the clock of the timeline."""
    first: str = ""
    """The first write that may have done it; empty where none came to its end since."""
    last: str = ""
    """The first write that surely did not keep it, where that is another one."""

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return f"REFRESH INDEX {self.name} builds it again"

    def __str__(self) -> str:
        who = "another engine dropped it"
        if not self.first:
            return f"{who} after {self.seen}"
        if self.last in ("", self.first):
            return f"{who} with the write {self.first}"
        return f"{who} with one of the writes {self.first} to {self.last}"


def dropped_names(
    config: TableConfig, definitions: Mapping[str, IndexDefinition]
) -> tuple[str, ...]:
    """The indexes that are defined and have no partition, whatever became of it."""
    there = {*config.metadata_partitions, *config.metadata_partitions_inflight}
    return tuple(sorted(name for name in definitions if name not in there))


def find_dropped(
    names: Iterable[str], data: Timeline, metadata: Timeline | None
) -> dict[str, Dropped]:
    """Who dropped indexes that are defined and not there; those that never were are left out.

    Args:
        names: The indexes, by `dropped_names`.
        data: The timeline of the table.
        metadata: The timeline of its metadata table.
    """
    wanted = list(names)
    if not wanted or metadata is None:
        return {}
    lived = _last_signs(wanted, data, metadata)
    writes = [each for each in data.write_instants() if not _only_indexes(data, each)]
    found: dict[str, Dropped] = {}
    for name, newest in lived.items():
        after = [each for each in writes if instant_key(each.requested_time) > newest]
        ends = [after[0], next(filter(_Changes(data), after), after[-1])] if after else []
        found[name] = Dropped(name, newest, *(each.requested_time for each in ends))
    return found


def _last_signs(names: Iterable[str], data: Timeline, metadata: Timeline) -> dict[str, str]:
    """When the partition of each index was last written, by the completion of that write."""
    found: dict[str, str] = {}
    for instant in metadata.write_instants():
        time = instant_key(instant.completion_time or instant.requested_time)
        if instant.requested_time.startswith(_BUILD) and not _came_to_its_end(data, time):
            continue
        for name in set(names).intersection(_written(metadata, instant)):
            found[name] = max(time, found.get(name, ""))
    return found


def _came_to_its_end(data: Timeline, time: str) -> bool:
    """Whether a build was part of something that was completed: one that was killed is no index.

    The build of an index has no time of its own, but is completed at one.
    """
    first = data.first_active
    if first is None or time < instant_key(first.requested_time):
        return True
    return any(
        instant_key(each.requested_time) <= time <= instant_key(each.completion_time or "")
        for each in data.completed()
    )


def _only_indexes(data: Timeline, instant: Instant) -> bool:
    """Whether a write built indexes and nothing else, as lakedex does; it drops none."""
    try:
        return data.commit_summary(instant).operation_type == _INDEX
    except LakedexError:
        return False


def _written(metadata: Timeline, instant: Instant) -> Iterable[str]:
    try:
        return metadata.commit_metadata(instant).partition_to_stats
    except LakedexError:
        return ()  # one that cannot be read is no sign


class _Changes:
    """Whether a write added or removed rows, so that it must write to an index of rows."""

    def __init__(self, data: Timeline) -> None:
        self._data = data

    def __call__(self, instant: Instant) -> bool:
        try:
            metadata: CommitMetadata = self._data.commit_metadata(instant)
        except LakedexError:
            return False
        return bool(metadata.replaced_file_ids) or any(
            stat.num_inserts or stat.num_deletes for stat in metadata.stats()
        )
