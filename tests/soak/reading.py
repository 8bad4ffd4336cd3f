"""The readers: all rows, rows by indexes, and the table as of earlier writes."""

from __future__ import annotations

import random

import lakedex
from lakedex.errors import FileMissing, InvalidInput
from lakedex.table.retention import is_retained
from lakedex.timeline import Action, Timeline, instant_key
from lakedex.timeline.clean_plan import read_clean_plan
from tests.soak.ledger import Ledger, Lost, Question, Read
from tests.soak.stage import INDEXED_COLUMN, LATER_INDEXED_COLUMN, Stage
from tests.soak.writing import KEYS, key_name
from tests.support.history import CONDITIONS
from tests.support.row_model import rows_in


def read_on(stage: Stage, name: str, ledger: Ledger) -> None:
    """Read until it is over."""
    draw = random.Random(f"{stage.seed} {name}")
    # Readers that read all the time would leave writers no time to write.
    while stage.wait_for_commits(draw.randrange(2)):
        table = lakedex.open(stage.path)
        as_of = draw.choice(_times(table.timeline)) if draw.random() < 0.4 else None
        question = Question() if as_of else _question(draw, stage)
        try:
            ledger.tell(read(table, stage, question, as_of))
        except (InvalidInput, FileMissing) as error:
            if as_of is None:
                as_of = newest_write(table.timeline).requested_time
            # Only what was cleaned away since the reader looked may be refused.
            now = stage.timeline()
            if is_retained(now, as_of) and not _is_being_cleaned(now, as_of):
                raise AssertionError(f"{as_of} of {_times(table.timeline)}") from error
            ledger.tell(Lost(name, str(error)))


def read(table: lakedex.Table, stage: Stage, question: Question, as_of: str | None = None) -> Read:
    """One look at the table."""
    found = table.to_arrow(question.text, as_of=as_of)
    cutoff = newest_write(table.timeline).completion_time
    assert cutoff is not None
    return Read(question, cutoff, as_of, rows_in(found, stage.shape.schema.names))


def newest_write(timeline: Timeline):  # type: ignore[no-untyped-def]
    """The write that was completed last."""
    return max(timeline.write_instants(), key=lambda each: instant_key(each.completion_time))


def _is_being_cleaned(timeline: Timeline, as_of: str) -> bool:
    """Whether a clean that goes on, or that was killed, removes files of that time."""
    for clean in timeline.pending_of(Action.CLEAN):
        earliest = read_clean_plan(timeline, clean.requested_time).earliest
        if earliest is not None and instant_key(as_of) < instant_key(earliest.requested_time):
            return True
    return False


def _times(timeline: Timeline) -> list[str]:
    return [each.requested_time for each in timeline.write_instants()]


def _question(draw: random.Random, stage: Stage) -> Question:
    return draw.choice(
        [
            Question(),
            Question("id", key_name(draw.randrange(KEYS))),
            Question(INDEXED_COLUMN, f"name-{draw.randrange(7)}"),
            Question(LATER_INDEXED_COLUMN, str(draw.choice(stage.shape.places).city)),
            Question(condition=draw.choice(CONDITIONS)[0]),
        ]
    )
