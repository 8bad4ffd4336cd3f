"""Indexes in the making while writers go on: what their `indexing` instants say of them.

The plan of such an instant is Hudi's; what lakedex needs beside that stands in its extra metadata.
A definition is kept there too until the index is whole: in the table's own list of definitions
other engines would take it for an index that can be asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from lakedex.config import TableConfig
from lakedex.config.write_option_names import EXPRESSION_TIME_ZONE
from lakedex.errors import CorruptFile, FileMissing, InvalidInput, StorageError
from lakedex.index.definitions import IndexDefinition, format_definitions, parse_definitions
from lakedex.index.metadata_table.partitions import Kind, metadata_partition
from lakedex.storage.protocol import Storage
from lakedex.timeline import Action, Instant, State, Timeline
from lakedex.timeline.plans import PlanKind, read_plan, write_plan

_GROUPS: Final = "lakedex.file.groups"
_DEFINITION: Final = "lakedex.definition"
_OPTIONS: Final = "lakedex.options"
_BEGUN: Final = "lakedex.begun"
_KEPT: Final = "lakedex.indexing.kept"
_BEFORE_ALL = "00000000000000000"
_KEYED = (Kind.RECORD_INDEX, Kind.SECONDARY_INDEX)
_FOLDER: Final = ".hoodie/.lakedex/spill"
"""Beside the other files of the instant, which go when it ends."""


@dataclass(frozen=True)
class BuildPartition:
    """A metadata partition in the making."""

    name: str
    file_groups: int
    definition: IndexDefinition | None = None
    """As the table's definitions are to have it; some kinds have none."""


@dataclass(frozen=True)
class IndexBuild:
    """The metadata partitions that one `indexing` instant makes, all at once."""

    instant: str
    partitions: tuple[BuildPartition, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    """The write options of the statement, which the table keeps afterwards."""
    taken_over: str | None = None
    """When a plan of another engine was taken over; writers before that do not know of it."""

    @property
    def begun(self) -> str:
        """Writers that began after this time write to the build too."""
        return self.taken_over or self.instant

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the partitions."""
        return tuple(each.name for each in self.partitions)

    @property
    def definitions(self) -> dict[str, IndexDefinition]:
        """The definitions of those that have one."""
        return {each.name: each.definition for each in self.partitions if each.definition}

    @property
    def definitions_or_none(self) -> dict[str, IndexDefinition | None]:
        """All partitions, each with the definition that it has."""
        return {each.name: each.definition for each in self.partitions}

    @property
    def expression_zones(self) -> dict[str, str]:
        """The time zone that its expression indexes are computed in, by index."""
        zone = EXPRESSION_TIME_ZONE.text(self.options)
        computed = (n for n in self.names if metadata_partition(n).kind is Kind.EXPRESSION_INDEX)
        return dict.fromkeys(computed, zone) if zone else {}

    @property
    def has_keys(self) -> bool:
        """Whether an index of records is among them, not only of files."""
        return any(metadata_partition(name).kind in _KEYED for name in self.names)

    def encode(self, upto: str | None) -> bytes:
        """The bytes of the requested file; `upto` is the newest write that the table has."""
        return write_plan(PlanKind.INDEX_PLAN, {"indexPartitionInfos": self.infos(upto)})

    def infos(self, upto: str | None) -> list[dict[str, Any]]:
        """The partitions as plan and outcome name them."""
        return [
            {
                "version": 1,
                "metadataPartitionPath": each.name,
                "indexUptoInstant": upto or _BEFORE_ALL,
                "extraMetadata": self._extra(each),
            }
            for each in self.partitions
        ]

    def _extra(self, part: BuildPartition) -> dict[str, str]:
        found = {
            _GROUPS: str(part.file_groups),
            _OPTIONS: json.dumps(dict(self.options), sort_keys=True),
        }
        if self.taken_over is not None:
            found[_BEGUN] = self.taken_over
        if part.definition is not None:
            found[_DEFINITION] = format_definitions({part.name: part.definition}).decode()
        return found


def read_build(instant: str, data: bytes, *, path: str) -> IndexBuild | None:
    """The build that a requested file describes; None for one of another engine.

    Example:
        >>> build = IndexBuild("20261115183005287", (BuildPartition("bloom_filters", 4),))
        >>> read_build(build.instant, build.encode(None), path="x") == build
        True

    Raises:
        CorruptFile: the bytes are no such plan.
    """
    infos = read_plan(PlanKind.INDEX_PLAN, data, path=path)["indexPartitionInfos"] or ()
    parts: list[BuildPartition] = []
    options: dict[str, str] = {}
    begun: str | None = None
    for info in infos:
        extra, name = info["extraMetadata"] or {}, info["metadataPartitionPath"] or ""
        groups = extra.get(_GROUPS, "")
        if not (groups.isascii() and groups.isdigit() and int(groups)):
            return None
        metadata_partition(name)
        definition = None
        if _DEFINITION in extra:
            definition = parse_definitions(extra[_DEFINITION].encode(), path=path).get(name)
        parts.append(BuildPartition(name, int(groups), definition))
        options |= _options(extra.get(_OPTIONS, "{}"), path)
        begun = extra.get(_BEGUN, begun)
    return IndexBuild(instant, tuple(parts), options, begun) if parts else None


@dataclass(frozen=True, slots=True)
class ForeignPlan:
    """What another engine has planned to build, and not begun."""

    instant: str
    names: tuple[str, ...]


def foreign_plans(timeline: Timeline) -> tuple[ForeignPlan, ...]:
    """The plans of other engines that no process has begun to carry out."""
    found = []
    for instant in timeline.pending_of(Action.INDEXING):
        time = instant.requested_time
        if instant.state is not State.REQUESTED:
            continue
        try:
            data = timeline.read(instant)
            if read_build(time, data, path=time) is None:
                infos = read_plan(PlanKind.INDEX_PLAN, data, path=time)["indexPartitionInfos"]
                named = (info["metadataPartitionPath"] for info in infos or ())
                found.append(ForeignPlan(time, tuple(name for name in named if name)))
        except (CorruptFile, FileMissing, InvalidInput):
            continue
    return tuple(found)


def pending_builds(timeline: Timeline) -> tuple[IndexBuild, ...]:
    """The builds of lakedex that pend, whether somebody is at work on them or not."""
    return _builds(timeline, timeline.pending_of(Action.INDEXING))


def completed_builds(timeline: Timeline) -> tuple[IndexBuild, ...]:
    """The builds of lakedex that completed, as far as the active timeline shows."""
    done = (each for each in timeline.completed() if each.action is Action.INDEXING)
    return _builds(timeline, done)


def active_builds(timeline: Timeline, config: TableConfig) -> tuple[IndexBuild, ...]:
    """The builds that writers keep up to date: they pend, and the properties name them."""
    if not config.metadata_partitions_inflight:
        return ()
    inflight = {*config.metadata_partitions_inflight}
    return tuple(each for each in pending_builds(timeline) if inflight.issuperset(each.names))


def kept_note(builds: Iterable[IndexBuild]) -> dict[str, str]:
    """What a commit says of the builds that it wrote to.

    Example:
        >>> kept_note([IndexBuild("20261115183005287", ())])
        {'lakedex.indexing.kept': '20261115183005287'}
    """
    times = [each.instant for each in builds]
    return {_KEPT: ",".join(times)} if times else {}


def has_kept(extra: Mapping[str, str], build: IndexBuild) -> bool:
    """Whether a commit with this extra metadata wrote to a build."""
    return build.instant in extra.get(_KEPT, "").split(",")


def _builds(timeline: Timeline, instants: Iterable[Instant]) -> tuple[IndexBuild, ...]:
    found = []
    for instant in instants:
        time = instant.requested_time
        try:
            data = timeline.read(Instant(time, Action.INDEXING, State.REQUESTED))
            build = read_build(time, data, path=time)
        except (CorruptFile, FileMissing):
            continue
        if build is not None:
            found.append(build)
    return tuple(found)


def _options(text: str, path: str) -> dict[str, str]:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(path, 0, expected="options as JSON", actual=error) from error
    if not isinstance(tree, dict):
        raise CorruptFile(path, 0, expected="an object of options", actual=type(tree))
    return {str(name): str(value) for name, value in tree.items()}


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """A moment of a build."""

    step: str
    """`reading`, `writing`, `waiting` (for writers that began before it) or `switching`."""
    slices_read: int
    slices: int
    round: int = 1
    """The snapshots that were read: one more for commits that did not write to the index."""

    @property
    def fraction(self) -> float:
        """The part of the data that is read, between 0 and 1.

        Example:
            >>> BuildProgress("reading", 1, 4).fraction
            0.25
        """
        return self.slices_read / self.slices if self.slices else 1.0

    def __str__(self) -> str:
        return f"{self.step}, {self.slices_read} of {self.slices} file slices read"


def write_progress(storage: Storage, instant: str, progress: BuildProgress) -> None:
    """Tell how far the build of an instant is; that is not worth failing for."""
    try:
        storage.replace(_path(instant), json.dumps(asdict(progress)).encode())
    except StorageError:
        return


def read_progress(storage: Storage, instant: str) -> BuildProgress | None:
    """How far the build of an instant is; None where no process is at work on it."""
    try:
        tree = json.loads(storage.read(_path(instant)))
        return BuildProgress(
            str(tree["step"]), int(tree["slices_read"]), int(tree["slices"]), int(tree["round"])
        )
    except (StorageError, ValueError, KeyError, TypeError):
        return None


def _path(instant: str) -> str:
    return f"{_FOLDER}/{instant}/progress.json"
