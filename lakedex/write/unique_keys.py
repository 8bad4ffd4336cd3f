"""Whether every key of a table stands once, as commits note it for the writers after them.

A record index knows one place of a key. A plain insert may put the key into the table again, and a
delete must find that copy too. So each commit to a table whose writers go by the record index says
whether keys are still unique; where they may not be, or where another writer said nothing, entries
and rows are counted, and only if the two differ a delete looks for its keys in the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakedex.engine import Engine
from lakedex.filegroup import FileSlice, ReadContext, count_rows_of
from lakedex.format.parquet.footer import read_footer
from lakedex.index.metadata_table.group_merge import live_count
from lakedex.index.metadata_table.group_reader import GroupReader
from lakedex.index.metadata_table.partitions import metadata_partition
from lakedex.timeline import Timeline, newest_note
from lakedex.write.context import WriteContext
from lakedex.write.tag.index_lookup import FOLDER, RECORD_INDEX, RecordIndexAccess

_NOTE = "lakedex.keys.unique"
_UNIQUE = "true"


def noted_unique(timeline: Timeline) -> bool:
    """Whether the newest write says that keys are unique."""
    return newest_note(timeline, _NOTE) == _UNIQUE


@dataclass(frozen=True, slots=True)
class AddedKeys:
    """What a write knows of the keys that it adds, and of those that were there."""

    looked_up: bool
    """Whether the rows' keys were looked for, so that none is added that is there."""
    reduced: bool
    """Whether the rows were reduced to one a key."""
    counted_unique: bool = False
    """Whether keys were found to be unique when the write began."""

    def note(self, timeline: Timeline, *, is_alone: bool, was_first: bool) -> Mapping[str, str]:
        """What the commit says of the keys.

        Args:
            timeline: The table's timeline just before the commit.
            is_alone: Whether no other rows are in the table.
            was_first: Whether nobody has committed since the write began.

        Example:
            >>> AddedKeys(looked_up=True, reduced=True).note(None, is_alone=True, was_first=True)
            {'lakedex.keys.unique': 'true'}
        """
        if is_alone:
            unique = self.reduced
        elif not self.looked_up:
            unique = False
        else:
            unique = (self.counted_unique and was_first) or noted_unique(timeline)
        return {_NOTE: _UNIQUE if unique else "false"}


def counted_unique(
    engine: Engine, facts: WriteContext, index: RecordIndexAccess, slices: Sequence[FileSlice]
) -> bool:
    """Whether the record index has as many entries as the slices have rows.

    Every row's key has an entry, so no key stands twice then.
    """
    count = max(1, min(len(index.groups) + len(slices), engine.parallelism * 2))
    tasks = [
        _Task(facts, index, index.groups[at::count], tuple(slices[at::count]))
        for at in range(count)
    ]
    answers = engine.map("count the keys", _count, tasks)
    return sum(entries for entries, _ in answers) == sum(rows for _, rows in answers)


@dataclass(frozen=True)
class _Task:
    facts: WriteContext
    index: RecordIndexAccess
    groups: tuple[FileSlice, ...]
    slices: tuple[FileSlice, ...]


def _count(task: _Task) -> tuple[int, int]:
    """Entries of some groups of the index, and rows of some slices of the table."""
    context = task.facts.read_context()
    folder, described = context.storage.sub(FOLDER), metadata_partition(RECORD_INDEX)
    readers = (GroupReader(folder, described, group, task.index.visible) for group in task.groups)
    return (
        sum(live_count(reader) for reader in readers),
        _rows(context, task.slices),
    )


def _rows(context: ReadContext, slices: Sequence[FileSlice]) -> int:
    merged = [current for current in slices if current.logs]
    plain = [(current, current.base) for current in slices if not current.logs and current.base]
    footers = (
        read_footer(context.storage.source(current.path_of(base.name), base.size_bytes))
        for current, base in plain
    )
    return count_rows_of(context, merged) + sum(footer.row_count for footer in footers)
