"""Verifies the file listing, and repairs it.

Every listed file is on the store, and every written one is listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.filegroup import LogFile, parse_data_file
from lakedex.format.logfile import read_blocks
from lakedex.index.metadata_table import ALL_PARTITIONS_KEY, FILES_PAYLOAD, NON_PARTITIONED_KEY
from lakedex.index.verification.check import Check, RepairedTable, Subject
from lakedex.index.verification.findings import Problem, ProblemKind
from lakedex.index.written import CommitChanges
from lakedex.storage import join, split
from lakedex.timeline import Action
from lakedex.timeline.clean_plan import read_clean_plan

_META_FOLDER = ".hoodie/"


class FilesCheck(Check):
    """Holds the listing of the metadata table against that of the store."""

    def finish(self) -> None:
        """Compare names and sizes, then the list of partitions."""
        records = self.subject.metadata.scan(self.name)
        is_list = pc.equal(records["key"], ALL_PARTITIONS_KEY).combine_chunks()
        listed = _entries(records.filter(pc.invert(is_list)))
        stored = self._stored()
        self.count(len(listed) + int(pc.sum(is_list).as_py() or 0))
        self._compare(listed, stored)
        self._compare_partitions(records, is_list, listed, stored)

    def _stored(self) -> pa.Table:
        """The data files on the store, with their sizes."""
        found = [
            info
            for info in self.subject.storage.list_recursive()
            if not info.path.startswith(_META_FOLDER)
            and parse_data_file(info.path.rpartition("/")[2], 0) is not None
        ]
        return pa.table(
            {
                "path": pa.array([info.path for info in found], pa.string()),
                "size": pa.array([info.size_bytes for info in found], pa.int64()),
            }
        )

    def _compare(self, listed: pa.Table, stored: pa.Table) -> None:
        place = pc.index_in(listed["path"], value_set=stored["path"].combine_chunks())
        real = stored["size"].take(place)
        paths, sizes = listed["path"], listed["size"]
        gone = self._without_cleaned(np.flatnonzero(place.is_null().to_numpy()), paths)
        gone = self._without_needed(gone, paths)
        wrong = pc.not_equal(real, sizes).fill_null(pa.scalar(value=False)).to_numpy()
        findings = self.subject.findings
        findings.add_all(
            self.name,
            ProblemKind.STALE,
            gone,
            lambda row: (paths[row].as_py(), "it is listed, but not on the store"),
        )
        findings.add_all(
            self.name,
            ProblemKind.WRONG,
            np.flatnonzero(wrong),
            lambda row: (
                paths[row].as_py(),
                f"it is listed with {sizes[row]} bytes and has {real[row]}",
            ),
        )
        is_listed = pc.is_in(stored["path"], value_set=listed["path"].combine_chunks())
        self._judge_unlisted(stored["path"].filter(pc.invert(is_listed)).to_pylist())

    def _without_cleaned(
        self, gone: npt.NDArray[np.int64], paths: pa.ChunkedArray
    ) -> npt.NDArray[np.int64]:
        """Leave aside files that a clean was removing when it was cut short."""
        planned = pa.array(sorted(self._being_cleaned()), pa.string())
        is_planned = pc.is_in(paths.take(pa.array(gone)), value_set=planned).to_numpy()
        if is_planned.any():
            self.note(
                f"{int(is_planned.sum())} listed files were removed by a clean that has not come "
                "to its end; the next clean ends it"
            )
        kept: npt.NDArray[np.int64] = gone[~is_planned.astype(np.bool_)]
        return kept

    def _without_needed(
        self, gone: npt.NDArray[np.int64], paths: pa.ChunkedArray
    ) -> npt.NDArray[np.int64]:
        """Leave aside files of the newest snapshot: their rows are lost, and not their entries."""
        needed = pa.array(self.subject.file_paths() if gone.size else (), pa.string())
        missing = paths.take(pa.array(gone))
        is_needed = pc.is_in(missing, value_set=needed)
        lost: dict[str, list[str]] = {}
        for path in missing.filter(is_needed).to_pylist():
            partition, name = split(path)
            lost.setdefault(partition, []).append(name)
        for partition, names in sorted(lost.items()):
            many = f"{len(names)} files are gone, such as" if len(names) > 1 else "a file is gone:"
            self.problem(
                ProblemKind.LOST,
                partition,
                f"{many} {names[0]}, which the newest snapshot has: the rows are lost unless you "
                "put the files back from a copy, or restore the table to an earlier commit; "
                "`lakedex repair PATH --accept-data-loss` goes on without them",
            )
        kept: npt.NDArray[np.int64] = gone[~is_needed.to_numpy().astype(np.bool_)]
        return kept

    def _being_cleaned(self) -> set[str]:
        timeline = self.subject.timeline
        planned: set[str] = set()
        for clean in timeline.pending_of(Action.CLEAN):
            try:
                plan = read_clean_plan(timeline, clean.requested_time)
            except LakedexError:
                continue
            planned.update(join(path, name) for path, names in plan.files.items() for name in names)
        return planned

    def _judge_unlisted(self, paths: list[str]) -> None:
        """Files of completed writes must be listed; what failed writes left behind need not."""
        left_over = [path for path in paths if not self._is_written(path)]
        for path in sorted(set(paths).difference(left_over)):
            self.problem(ProblemKind.MISSING, path, "a completed write made it; it is not listed")
        if left_over:
            example = min(left_over)
            self.note(
                f"{len(left_over)} files of writes that failed, or have not completed, "
                f"are not listed, such as {example}"
            )

    def _is_written(self, path: str) -> bool:
        partition, _, name = path.rpartition("/")
        parsed = parse_data_file(name, 0)
        if parsed is None:
            return False
        if isinstance(parsed, LogFile) and not self.subject.logs_name_own_instant:
            return self._has_committed_block(path)
        if not self.subject.timeline.is_committed_write(parsed.instant_time):
            return False
        return self._is_in_commit(partition, name, parsed.instant_time)

    def _has_committed_block(self, path: str) -> bool:
        try:
            blocks = read_blocks(self.subject.storage.source(path))
            times = [block.instant_time for block in blocks if block.kind.holds_records]
        except LakedexError:
            return False
        return any(self.subject.timeline.is_committed_write(time) for time in times)

    def _is_in_commit(self, partition: str, name: str, instant_time: str) -> bool:
        """Whether its commit names the file; a retried task may have left another one."""
        timeline = self.subject.timeline
        instant = timeline.find(instant_time)
        if instant is None:
            return True
        try:
            stats = timeline.commit_metadata(instant).partition_to_stats.get(partition, ())
        except LakedexError:
            return True
        return any((stat.path or "").rpartition("/")[2] == name for stat in stats)

    def _compare_partitions(
        self, records: pa.Table, is_list: pa.Array, listed: pa.Table, stored: pa.Table
    ) -> None:
        if not pc.any(is_list).as_py():
            self.problem(ProblemKind.MISSING, ALL_PARTITIONS_KEY, "there is no list of partitions")
            return
        maps = records.filter(is_list)[FILES_PAYLOAD].combine_chunks()
        named = {"" if path == NON_PARTITIONED_KEY else path for path in maps.keys.to_pylist()}
        used = _partitions(listed)
        for path in sorted(used - named):
            self.problem(ProblemKind.MISSING, path, "it has files, but is no listed partition")
        empty = named - used - _partitions(stored)
        if empty - {""}:
            self.note(f"{len(empty)} listed partitions have no files, such as {min(empty)!r}")


def start(name: str, subject: Subject) -> Check:
    """The check of the file listing."""
    return FilesCheck(name, subject)


def _entries(records: pa.Table) -> pa.Table:
    """Path and size of every listed file."""
    maps = records[FILES_PAYLOAD].combine_chunks()
    lengths = np.diff(maps.offsets.to_numpy())
    rows = np.repeat(np.arange(len(maps)), lengths)
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    names = maps.keys.slice(first, last - first)
    sizes = pc.struct_field(maps.items.slice(first, last - first), "size")
    keys = records["key"].combine_chunks().take(pa.array(rows))
    paths = pc.if_else(
        pc.equal(keys, NON_PARTITIONED_KEY), names, pc.binary_join_element_wise(keys, names, "/")
    )
    return pa.table({"path": paths, "size": sizes})


def _partitions(files: pa.Table) -> set[str]:
    folders = pc.replace_substring_regex(files["path"], r"(?:^|/)[^/]*$", "")
    return set(pc.unique(folders).to_pylist())


def repair(name: str, problems: Sequence[Problem], table: RepairedTable) -> CommitChanges:
    """The files to list with their sizes, and those to remove from the listing."""
    del name
    added: dict[str, dict[str, int]] = defaultdict(dict)
    removed: dict[str, list[str]] = defaultdict(list)
    for problem in problems:
        partition, file_name = split(problem.key)
        if problem.kind is ProblemKind.STALE:
            removed[partition].append(file_name)
        else:
            added[partition][file_name] = table.storage.size(problem.key)
    return CommitChanges(added=added, removed=removed)
