"""The rows that changed between two instants: their newest version, of commits in the range.

A row belongs to the change if the commit in its commit-time column is one of the commits in the
range. Deleted rows leave no trace in that; only file slices that a
commit of the range wrote to are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.read.scan import Scan, to_table
from lakedex.schema.field_paths import flat
from lakedex.table import Snapshot
from lakedex.table.lost_instants import check_archive
from lakedex.table.retention import is_retained
from lakedex.timeline import Instant, QueryTime

COMMIT_TIME = "_hoodie_commit_time"


@dataclass(frozen=True)
class Changes:
    """Where the rows of a range of commits are."""

    view: Snapshot
    """The table as of the end of the range."""
    slices: tuple[FileSlice, ...]
    commits: tuple[str, ...]
    """The requested times that the rows' commit-time column may hold."""


def find_changes(
    snapshot: Snapshot,
    begin: QueryTime,
    end: QueryTime | None,
    *,
    at_newest: bool = False,
    takes_what_is_left: bool = False,
) -> Changes:
    """Which slices hold rows written after `begin` and up to `end`.

    Rows are read as of `end`. With `at_newest`, and with `takes_what_is_left` where files of then
    were cleaned, they are read as they are now, and those that were written again since are not
    among them.

    Raises:
        InvalidInput: Files of `end` were cleaned.
    """
    if COMMIT_TIME not in snapshot.schema.names:
        raise UnsupportedFeature("reading changes of a table without meta columns")
    snapshot.check_timeline()
    instants = snapshot.timeline.between(begin, end)
    if not instants:
        active = snapshot.timeline.write_instants()
        check_archive(snapshot.timeline, instants_of_files(snapshot, active), begin)
        return Changes(snapshot, (), ())
    view = snapshot
    if end is not None and not at_newest:
        last = max(instant.requested_time for instant in instants)
        if not takes_what_is_left or is_retained(snapshot.timeline, last):
            view = snapshot.at(last)
    written = writes_of_rows(snapshot, instants)
    commits = tuple(each.requested_time for each in written)
    check_archive(view.timeline, instants_of_files(view, written), begin)
    return Changes(view, tuple(_touched(view, written, begin)), commits)


def instants_of_files(view: Snapshot, written: Sequence[Instant]) -> Iterator[str]:
    """The instants that the files of a table, and those before them, were written by."""
    for each in view.slices:
        yield each.base_instant
    yield from instants_before(view, written)


def instants_before(view: Snapshot, written: Sequence[Instant]) -> Iterator[str]:
    """The instants whose files were there before some commits wrote to their file groups."""
    for instant in written:
        for stat in view.timeline.commit_metadata(instant).stats():
            yield stat.prev_commit or ""


def changed_rows(
    snapshot: Snapshot, begin: QueryTime, end: QueryTime | None, columns: tuple[str, ...] | None
) -> pa.Table:
    """Rows written after `begin` and up to `end`, in their version as of `end`.

    Without `columns` they have the columns that the table had then.
    """
    changes = find_changes(snapshot, begin, end)
    view = changes.view
    wanted = tuple(view.schema.names) if columns is None else columns
    if not changes.commits:
        return view.read_context.target(wanted).empty_table()
    scan = Scan(
        context=view.read_context,
        slices=changes.slices,
        columns=wanted,
        arrow_filter=pc.field(COMMIT_TIME).isin(pa.array(changes.commits, pa.string())),
        arrow_columns=(COMMIT_TIME,),
    )
    return to_table(scan)


def writes_of_rows(snapshot: Snapshot, instants: tuple[Instant, ...]) -> list[Instant]:
    """The instants that changed rows: compaction and clustering only move them."""
    found = []
    for instant in instants:
        metadata = snapshot.timeline.commit_summary(instant)
        if not (metadata.compacted or metadata.is_clustering):
            found.append(instant)
    return found


def _touched(view: Snapshot, written: list[Instant], begin: QueryTime) -> list[FileSlice]:
    """The slices that can hold rows of these instants, by their metadata or by names of files.

    Compaction keeps file ids and clustering does not, so after a clustering every slice counts.
    """
    groups: set[FileSliceId] = set()
    times = {each.requested_time for each in written}
    for instant in written:
        metadata = view.timeline.commit_metadata(instant)
        for partition, stats in metadata.partition_to_stats.items():
            groups.update(FileSliceId(partition, stat.file_id or "") for stat in stats)
    clustered = any(
        view.timeline.commit_summary(instant).is_clustering
        for instant in view.timeline.between(begin)
    )
    return [
        each
        for each in view.slices
        if clustered or each.id in groups or not times.isdisjoint(each.instants)
    ]


def names_in(argument: str, given: object) -> list[str]:
    """The texts of an argument that is a list of them."""
    if isinstance(given, str):
        raise InvalidInput(f"{argument} must be a list of names, not the text {given!r}")
    names: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"{argument} takes names, not {name!r}")
    return names


def texts_in(argument: str, given: object) -> pa.Array:
    """The texts of an argument that is a list or an Arrow column of them."""
    if not isinstance(given, pa.Array | pa.ChunkedArray):
        return pa.array(names_in(argument, given), pa.string())
    column = given.cast(pa.string()) if given.type == pa.large_string() else given
    if column.type != pa.string() or column.null_count:
        raise InvalidInput(f"{argument} takes texts, none of them null, not {column.type}")
    return flat(column)
