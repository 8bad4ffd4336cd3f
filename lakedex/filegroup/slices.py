"""From the files of a partition to the file slices that a query sees.

A file group is all files with one file id. A slice is one base file and the log files written
since; a query sees the newest slice of each group. Which slice a log file belongs to:

* table versions 8 and later: the newest slice whose base instant is at or before the completion
  time of the log's own deltacommit;
* before: the slice whose base instant stands in the log's name.

A pending compaction opens a slice that has no base file yet; a reader then takes the slice
before it and appends the logs of the new one.

`SliceTuple` keeps totals over all slices of a snapshot, which hands out the same tuple each time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lakedex.filegroup.names import BaseFile, LogFile, parse_data_file

_Groups: TypeAlias = dict[str, tuple[list[BaseFile], list[LogFile]]]
_COUNTED_SLICES = 5_000


class FileSliceId(NamedTuple):
    """What names a file group in a table: its partition path and its file id."""

    partition: str
    file_id: str


@dataclass(frozen=True, slots=True)
class FileSlice:
    """What a query reads of one file group: a base file, its log files in order, or both."""

    partition: str
    file_id: str
    base_instant: str
    base: BaseFile | None
    logs: tuple[LogFile, ...] = ()

    @property
    def id(self) -> FileSliceId:
        """The file group that this is a slice of."""
        return FileSliceId(self.partition, self.file_id)

    @property
    def size_bytes(self) -> int:
        """The bytes of the base file and of all log files."""
        base = self.base.size_bytes if self.base else 0
        return base + sum(log.size_bytes for log in self.logs) if self.logs else base

    @property
    def file_names(self) -> tuple[str, ...]:
        """The names of the base file and of all log files."""
        base = (self.base.name,) if self.base else ()
        return base + tuple(log.name for log in self.logs) if self.logs else base

    @property
    def instants(self) -> tuple[str, ...]:
        """The instants in the names of the base file and of all log files."""
        logs = tuple(log.instant_time for log in self.logs)
        return (self.base.instant_time, *logs) if self.base else logs

    def path_of(self, name: str) -> str:
        """The path of one of its files, relative to the table."""
        return f"{self.partition}/{name}" if self.partition else name


@dataclass(frozen=True, slots=True)
class Visibility:
    """What the timeline says about instants and file groups, for one query instant."""

    is_visible: Callable[[str], bool]
    """Whether the write of an instant counts as committed for this query."""

    completion_time: Callable[[str], str]
    """When a committed instant completed."""

    logs_name_own_instant: bool
    """True from table version 8 on: a log's name holds its own deltacommit."""

    replaced: frozenset[FileSliceId] = frozenset()
    pending_compactions: Mapping[FileSliceId, str] = field(default_factory=dict)


def latest_slices(
    partition: str, files: Iterable[tuple[str, int]], visibility: Visibility
) -> list[FileSlice]:
    """The newest visible slice of each file group of a partition, by file id.

    `files` are names with sizes; names that are no data files are passed over.
    """
    alone, groups = _by_file_id(files)
    visible: dict[str, bool] = {}
    slices = []
    for file_id in sorted((*alone, *groups)):
        if visibility.replaced and FileSliceId(partition, file_id) in visibility.replaced:
            continue
        base = alone.get(file_id)
        if base is None or visibility.pending_compactions:
            bases, logs = groups[file_id] if base is None else ([base], [])
            newest = _newest_slice(partition, file_id, bases, logs, visibility)
            if newest is not None:
                slices.append(newest)
            continue
        # The common case of a table at rest, without the bookkeeping of the others.
        instant = base.instant_time
        if instant not in visible:
            visible[instant] = visibility.is_visible(instant)
        if visible[instant]:
            slices.append(FileSlice(partition, file_id, instant, base))
    return slices


def all_versions(
    partition: str, files: Iterable[tuple[str, int]], visibility: Visibility
) -> dict[str, list[FileSlice]]:
    """All visible versions of each file group of a partition, oldest first, by file id.

    A version is what a reader needs at once: a base file with the logs of its slice, and of the
    slices after it that have no base file yet. Change logs (`.cdc`) go with their slice. Groups
    that were replaced are among them.
    """
    groups: dict[str, tuple[list[BaseFile], list[LogFile]]] = defaultdict(lambda: ([], []))
    for name, size_bytes in files:
        parsed = parse_data_file(name, size_bytes)
        if parsed is not None:
            bases, logs = groups[parsed.file_id]
            (bases if isinstance(parsed, BaseFile) else logs).append(parsed)  # type: ignore[arg-type]
    found = {}
    for file_id, (bases, logs) in groups.items():
        by_instant = _bases(partition, file_id, bases, visibility)
        by_slice = _logs_by_slice(by_instant, logs, visibility)
        versions: list[FileSlice] = []
        for instant in sorted(set(by_instant) | set(by_slice)):
            base, own = by_instant.get(instant), _in_order(by_slice.get(instant, []), visibility)
            if base is None and versions:
                before = versions[-1]
                versions[-1] = replace(before, logs=(*before.logs, *own))
            elif base is not None or own:
                versions.append(FileSlice(partition, file_id, instant, base, tuple(own)))
        if versions:
            found[file_id] = versions
    return found


def _by_file_id(files: Iterable[tuple[str, int]]) -> tuple[dict[str, BaseFile], _Groups]:
    """Base files that are alone in their file group, and all files of the other groups."""
    alone: dict[str, BaseFile] = {}
    groups: _Groups = {}
    for name, size_bytes in files:
        parsed = parse_data_file(name, size_bytes)
        if parsed is None:
            continue
        file_id = parsed.file_id
        if isinstance(parsed, BaseFile):
            if file_id in groups:
                groups[file_id][0].append(parsed)
            elif file_id in alone:
                groups[file_id] = ([alone.pop(file_id), parsed], [])
            else:
                alone[file_id] = parsed
        elif not parsed.is_cdc:
            if file_id not in groups:
                base = alone.pop(file_id, None)
                groups[file_id] = ([] if base is None else [base], [])
            groups[file_id][1].append(parsed)
    return alone, groups


def _newest_slice(
    partition: str,
    file_id: str,
    bases: list[BaseFile],
    logs: list[LogFile],
    visibility: Visibility,
) -> FileSlice | None:
    by_instant = _bases(partition, file_id, bases, visibility)
    by_slice = _logs_by_slice(by_instant, logs, visibility)
    return _assemble(partition, file_id, by_instant, by_slice, visibility)


def _bases(
    partition: str, file_id: str, bases: list[BaseFile], visibility: Visibility
) -> dict[str, BaseFile | None]:
    """The base file of each slice, by its instant; None for one that a compaction is to make."""
    by_instant: dict[str, BaseFile | None] = {}
    for base in bases:
        if visibility.is_visible(base.instant_time):
            known = by_instant.get(base.instant_time)
            # Two attempts of one task may both have left a file; Hudi takes either, we the last.
            if known is None or known.name < base.name:
                by_instant[base.instant_time] = base
    pending = visibility.pending_compactions.get(FileSliceId(partition, file_id))
    if pending is not None:
        by_instant.setdefault(pending, None)
    return by_instant


def _logs_by_slice(
    by_instant: Mapping[str, BaseFile | None], logs: list[LogFile], visibility: Visibility
) -> dict[str, list[LogFile]]:
    if visibility.logs_name_own_instant:
        return _logs_by_completion(by_instant, logs, visibility)
    by_slice: dict[str, list[LogFile]] = defaultdict(list)
    for log in logs:
        by_slice[log.instant_time].append(log)
    return by_slice


def _logs_by_completion(
    by_instant: Mapping[str, BaseFile | None], logs: list[LogFile], visibility: Visibility
) -> dict[str, list[LogFile]]:
    by_slice: dict[str, list[LogFile]] = defaultdict(list)
    visible = [
        (visibility.completion_time(log.instant_time), log)
        for log in logs
        if visibility.is_visible(log.instant_time)
    ]
    if not visible:
        return by_slice
    # A group that starts with logs opens its first slice at its first log's instant.
    first_log_instant = min(log.instant_time for _, log in visible)
    starts = sorted(set(by_instant) | {first_log_instant})
    for completed, log in visible:
        at_or_before = [start for start in starts if start <= completed]
        by_slice[at_or_before[-1] if at_or_before else first_log_instant].append(log)
    return by_slice


def _assemble(
    partition: str,
    file_id: str,
    by_instant: Mapping[str, BaseFile | None],
    by_slice: Mapping[str, list[LogFile]],
    visibility: Visibility,
) -> FileSlice | None:
    instants = sorted(set(by_instant) | set(by_slice))
    if not instants:
        return None
    start = len(instants) - 1
    # Walk back over slices without a base file: their logs change an older base file.
    while start > 0 and by_instant.get(instants[start]) is None:
        start -= 1
    logs: list[LogFile] = []
    for instant in instants[start:]:
        logs.extend(_in_order(by_slice.get(instant, []), visibility))
    base = by_instant.get(instants[start])
    if base is None and not logs:
        return None
    return FileSlice(partition, file_id, instants[start], base, tuple(logs))


def _in_order(logs: list[LogFile], visibility: Visibility) -> list[LogFile]:
    if visibility.logs_name_own_instant:
        return sorted(
            logs,
            key=lambda log: (
                visibility.completion_time(log.instant_time),
                log.version,
                log.token_parts,
            ),
        )
    return sorted(logs, key=lambda log: (log.version, log.token_parts))


@dataclass(frozen=True, slots=True)
class Amount:
    """What is to be read of some slices; for very many it is estimated from a part of them."""

    files: float
    merged: float
    """Slices with log files."""
    stored: float
    """Bytes."""

    @classmethod
    def of(cls, slices: Sequence[FileSlice]) -> Amount:
        """Count the files of slices, and their bytes."""
        stride = max(1, len(slices) // _COUNTED_SLICES)
        seen = slices[::stride]
        files = merged = stored = 0
        for each in seen:
            files += 1 + len(each.logs)
            merged += bool(each.logs)
            stored += each.size_bytes
        share = len(slices) / max(1, len(seen))
        return cls(files * share, merged * share, stored * share)


class Slices(tuple[FileSlice, ...]):
    """File slices in order, each of another file group.

    Example:
        >>> some = Slices([FileSlice("p", name, "1", None) for name in "abc"])
        >>> some.partitions, some.mask_of([FileSliceId("p", "b")]).tolist()
        (('p',), [False, True, False])
        >>> [each.file_id for each in some.where(np.array([True, False, True]))]
        ['a', 'c']
    """

    @cached_property
    def size_bytes(self) -> int:
        """The bytes of all their files."""
        return sum(each.size_bytes for each in self)

    @cached_property
    def amount(self) -> Amount:
        """What reading them comes to."""
        return Amount.of(self)

    @cached_property
    def partitions(self) -> tuple[str, ...]:
        """Their partition paths, each once."""
        return tuple(dict.fromkeys(each.partition for each in self))

    @cached_property
    def places(self) -> Mapping[FileSliceId, int]:
        """Where the slice of each file group stands."""
        return {each.id: place for place, each in enumerate(self)}

    def mask_of(self, groups: Iterable[FileSliceId]) -> npt.NDArray[np.bool_]:
        """Which of them are of these file groups."""
        mask = np.zeros(len(self), dtype=np.bool_)
        found = [self.places[each] for each in groups if each in self.places]
        mask[np.array(found, dtype=np.int64)] = True
        return mask

    def in_partitions(self, paths: Container[str]) -> npt.NDArray[np.bool_]:
        """Which of them are in these partitions."""
        wanted = np.array([each in paths for each in self.partitions], dtype=np.bool_)
        return wanted[self._partition_numbers]

    @cached_property
    def _partition_numbers(self) -> npt.NDArray[np.int64]:
        numbers = {path: number for number, path in enumerate(self.partitions)}
        return np.array([numbers[each.partition] for each in self], dtype=np.int64)

    def where(self, mask: npt.NDArray[np.bool_]) -> Slices:
        """Those for which a mask is true."""
        return Slices([self[place] for place in np.flatnonzero(mask).tolist()])
