"""Which indexes a table has, for people: kind, columns, state and size; and which were dropped.

Hudi removes an index whose partition the options of a writer do not name, and leaves its
definition; no instant says so (case B62). But every write leaves a deltacommit in the metadata
table, which names the partitions that it wrote. The index was there until the last deltacommit that
names it, and was gone when a write added or removed rows without writing to the index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lakedex.config import TableConfig
from lakedex.errors import LakedexError
from lakedex.index.builds import IndexBuild, read_progress
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table import MetadataTable, metadata_partition
from lakedex.storage.protocol import Storage
from lakedex.timeline import CommitMetadata, Instant, Timeline, instant_key

_BEHIND = "another engine wrote to the table and not to it; REFRESH INDEX builds it again"
_INDEX = "INDEX"
_BUILD = "0000"
"""How the times of builds begin in the metadata table."""


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """One index of a table."""

    name: str
    kind: str
    columns: tuple[str, ...]
    function: str
    state: str
    """`live`, `building`, `dropped` by another engine, or `defined` and never built."""
    file_groups: int
    size_bytes: int
    problem: str | None = None
    scans: int = 0
    """Queries that used the index."""
    files_pruned: int = 0
    bytes_saved: int = 0
    last_used: str | None = None
    """UTC, such as `2026-01-02T03:04:05Z`."""
    index_type: str = ""
    """The type in the definition: of an expression index `column_stats` or `bloom_filters`."""
    progress: float | None = None
    """Of an index that a process is building, the part of the data that it has read."""
    maintenance: str = "sync"
    """`sync`: every write maintains the index; `async`: a refresh does."""
    newer_slices: int | None = None
    """Of an index with `maintenance=async`, the file slices that it does not cover."""
    commits_behind: int | None = None
    """And the commits since the newest file that it covers."""
    detail: str = ""
    """What else there is to say of it, such as how many buckets a bucket index has."""

    @property
    def status(self) -> str:
        """State, progress, and of an index that writers do not maintain how far it is behind.

        Example:
            >>> IndexInfo("idx", "bitmap", ("x",), "", "live", 1, 9, maintenance="async",
            ...     newer_slices=3, commits_behind=2).status
            'live, maintenance=async, 2 commits behind, 3 newer file slices'
        """
        text = self.state if self.progress is None else f"{self.state} {self.progress:.0%}"
        text = f"{text}, {self.detail}" if self.detail else text
        if self.maintenance == "sync":
            return text
        text += f", maintenance={self.maintenance}"
        if self.newer_slices is None:
            return text
        if not self.newer_slices:
            return f"{text}, up to date"
        return (
            f"{text}, {self.commits_behind} commits behind, {self.newer_slices} newer file slices"
        )

    def as_dict(self) -> dict[str, Any]:
        """The index as plain values, for JSON."""
        return asdict(self) | {"columns": list(self.columns)}


def list_indexes(
    config: TableConfig,
    definitions: Mapping[str, IndexDefinition],
    metadata: MetadataTable | None,
    *,
    dropped: Mapping[str, Dropped] | None = None,
    behind: Collection[str] = (),
    builds: Sequence[IndexBuild] = (),
    storage: Storage | None = None,
) -> list[IndexInfo]:
    """Every index that is live, being built or defined, by name.

    Args:
        config: The properties of the table.
        definitions: Its index definitions.
        metadata: Its metadata table, where it can be read.
        dropped: The defined indexes that another engine dropped, by `dropped.find_dropped`.
        behind: Those that another engine did not keep up, by `secondary.composites_behind`.
        builds: The indexes in the making.
        storage: Where their builders report how far they are.
    """
    names = {*config.metadata_partitions, *config.metadata_partitions_inflight, *definitions}
    known = dict(definitions)
    progress: dict[str, float] = {}
    for build in builds:
        known |= build.definitions
        reported = None if storage is None else read_progress(storage, build.instant)
        if reported is not None:
            progress |= dict.fromkeys(build.names, reported.fraction)
    infos = [_info(name, config, known.get(name), metadata) for name in sorted(names)]
    infos = [replace(each, progress=progress.get(each.name)) for each in infos]
    infos = [replace(each, problem=_BEHIND) if each.name in behind else each for each in infos]
    return [_with_drop(each, (dropped or {}).get(each.name)) for each in infos]


def _with_drop(info: IndexInfo, dropped: Dropped | None) -> IndexInfo:
    if dropped is None:
        return info
    return replace(info, state="dropped", problem=f"{dropped}; {dropped.remedy}")


def _info(
    name: str,
    config: TableConfig,
    definition: IndexDefinition | None,
    metadata: MetadataTable | None,
) -> IndexInfo:
    state = "defined"
    if name in config.metadata_partitions:
        state = "live"
    elif name in config.metadata_partitions_inflight:
        state = "building"
    groups, size_bytes, problem, kind = 0, 0, None, name
    try:
        kind = metadata_partition(name).kind.value
        if metadata is not None and state != "defined":
            found = metadata.groups(name)
            groups, size_bytes = len(found), sum(group.size_bytes for group in found)
    except LakedexError as error:
        problem = str(error)
    return IndexInfo(
        name=name,
        kind=kind,
        columns=definition.source_fields if definition else (),
        function=definition.function if definition else "",
        index_type=definition.index_type.lower() if definition else "",
        state=state,
        file_groups=groups,
        size_bytes=size_bytes,
        problem=problem,
    )


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
