"""Which indexes a table has, for people: kind, columns, state and size."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lakedex.config import TableConfig
from lakedex.errors import LakedexError
from lakedex.index.build_progress import read_progress
from lakedex.index.builds import IndexBuild
from lakedex.index.definitions import IndexDefinition
from lakedex.index.dropped import Dropped
from lakedex.index.metadata_table import MetadataTable, metadata_partition
from lakedex.storage.protocol import Storage

_BEHIND = "another engine wrote to the table and not to it; REFRESH INDEX builds it again"


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
