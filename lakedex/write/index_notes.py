"""What all tasks of a write noted for the indexes of keys and pairs, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakedex.engine import Engine
from lakedex.filegroup import FileSlice
from lakedex.index.kinds.secondary.pairs import SecondaryTarget
from lakedex.index.written import KeyNote, PairNotes
from lakedex.table import Snapshot
from lakedex.write.facts import TableFacts
from lakedex.write.handles.work import TaskResult
from lakedex.write.replaced_keys import note_replaced_keys
from lakedex.write.replaced_pairs import note_replaced_pairs
from lakedex.write.tag.plan import global_record_index

Notes = tuple[tuple[KeyNote, ...], dict[str, PairNotes]]


def gather_notes(
    engine: Engine,
    facts: TableFacts,
    snapshot: Snapshot,
    done: Sequence[TaskResult],
    replaced: Sequence[FileSlice],
    *,
    has_record_index: bool,
) -> Notes:
    """Key notes, and pairs by secondary index, of written and of replaced file groups.

    Args:
        engine: Runs the workers that read what is replaced.
        facts: The table.
        snapshot: The table as the write found it.
        done: What the tasks of the write answered.
        replaced: The slices that the write takes away.
        has_record_index: Whether there is a record index that must forget their keys.
    """
    notes = [note for answer in done for note in answer.notes]
    pairs = [answer.pairs for answer in done]
    if replaced:
        index = global_record_index(snapshot)
        if has_record_index:
            notes = note_replaced_keys(engine, facts, index, replaced) + notes
        gone = {current.id for current in replaced}
        staying = [current for current in snapshot.slices if current.id not in gone]
        pairs += note_replaced_pairs(engine, facts, index, replaced, staying)
    return tuple(notes), joined_pairs(facts.secondary, pairs)


def joined_pairs(
    targets: Sequence[SecondaryTarget], parts: Sequence[Mapping[str, tuple[KeyNote, ...]]]
) -> dict[str, PairNotes]:
    """What all tasks of a write noted for each secondary index.

    Example:
        >>> from lakedex.format.spill import Segment
        >>> note = KeyNote(0, Segment("path", 0, 1, 1))
        >>> target = SecondaryTarget("secondary_index_i", ("city",), 1, 1)
        >>> len(joined_pairs([target], [{target.name: (note,)}, {}])[target.name].notes)
        1
    """
    found = {
        each.name: PairNotes(
            each.buckets, tuple(note for part in parts for note in part.get(each.name, ()))
        )
        for each in targets
    }
    return {name: pairs for name, pairs in found.items() if pairs.notes}
