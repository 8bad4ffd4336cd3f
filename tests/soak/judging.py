"""Holds what the processes told against a model, and the table against its folders."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import lakedex
from lakedex.services.clustering.scheduling import run_pending_clusterings
from lakedex.services.compaction.runner import compact_table
from lakedex.timeline import Action, Instant, instant_key
from lakedex.upkeep.cleaning import clean_table
from tests.soak.ledger import Acknowledged, Intent, Question, Read, Trouble, entries
from tests.soak.stage import Stage
from tests.support.history import CONDITIONS, Commit
from tests.support.plain_listing import data_files, files_below
from tests.support.row_model import Model, Row, column_of, differences, rows_in

_NOTE = "_hudi_streaming_sink_checkpoint"
_PASSING = (".temp", ".heartbeat", ".lakedex/writers", ".lakedex/spill", "metadata/.hoodie/.temp")


@dataclass
class Told:
    """All ledgers, sorted."""

    intents: dict[tuple[str, int], Commit] = field(default_factory=dict)
    acknowledged: dict[tuple[str, int], str | None] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)

    @classmethod
    def by(cls, stage: Stage) -> Told:
        told = cls()
        for each in entries(stage.folder):
            if isinstance(each, Intent):
                told.intents[each.stream, each.number] = each.commit
            elif isinstance(each, Acknowledged):
                told.acknowledged[each.stream, each.number] = each.instant
            elif isinstance(each, Read):
                told.reads.append(each)
            elif isinstance(each, Trouble):
                told.troubles.append(each)
        return told


@dataclass
class Written:
    """One write as the timeline has it, and what it was to do."""

    instant: str
    completed: str
    commit: Commit
    gone: frozenset[object] = frozenset()
    """What it took away, among the rows that were there when it began."""

    def apply(self, model: Model) -> None:
        for each in self.gone:
            model.live.pop(each, None)
        if self.commit.verb == "insert_overwrite":
            model.insert(self.commit.rows)
        elif self.commit.verb in ("insert", "upsert"):
            getattr(model, self.commit.verb)(self.commit.rows)


class Past:
    """What the table held after each of its writes."""

    def __init__(self, stage: Stage, told: Told) -> None:
        self._stage = stage
        self._writes = _written(stage, told)
        for each in self._writes:
            # A row that another write added meanwhile is not taken away: the one comes after the
            # other, whichever was completed first.
            each.gone = _taken_away(self.model(cutoff=each.instant), each.commit)

    def __len__(self) -> int:
        return len(self._writes)

    def model(self, cutoff: str = "", as_of: str | None = None) -> Model:
        """The rows after all writes, or after those that a reader saw."""
        model = Model(self._stage.shape)
        for each in self._writes:
            is_seen = not cutoff or each.completed <= instant_key(cutoff)
            if is_seen and (as_of is None or each.instant <= instant_key(as_of)):
                each.apply(model)
        return model

    def check(self, reads: list[Read]) -> None:
        """Every read gave exactly the rows of what was complete at its moment."""
        states: dict[tuple[str, str | None], Model] = {}
        for each in reads:
            moment = each.cutoff, each.as_of
            if moment not in states:
                states[moment] = self.model(*moment)
            model = states[moment]
            problem = differences(each.rows, model.answers(model.columns, _test(each.question)))
            assert not problem, f"{each.question} at {moment}: {problem}"


def _written(stage: Stage, told: Told) -> list[Written]:
    """The writes of the timeline in the order of their completion: each was meant, none is lost."""
    timeline = stage.timeline()
    found: dict[tuple[str, int], Instant] = {}
    for instant in timeline.between(None):
        for stream, number in json.loads(
            timeline.commit_summary(instant).extra.get(_NOTE, "{}")
        ).items():
            name = stream, int(number)
            assert name in told.intents, f"{instant} holds {name}, which nobody wrote"
            assert name not in found, f"{name} was committed by {found.get(name)} and by {instant}"
            found[name] = instant
    for name, acknowledged in told.acknowledged.items():
        is_there = found[name].requested_time if name in found else None
        # A writer that was killed between its commit and the ledger hears later that it is there.
        assert acknowledged in (is_there, None), f"{name}: {acknowledged} was lost"
    writes = [
        Written(
            instant_key(each.requested_time),
            instant_key(each.completion_time or ""),
            told.intents[name],
        )
        for name, each in found.items()
    ]
    return sorted(writes, key=lambda each: each.completed)


def _taken_away(before: Model, commit: Commit) -> frozenset[object]:
    left = before.copy()
    if commit.verb == "delete":
        left.delete(commit.rows)
    elif commit.verb == "delete_where":
        left.delete_where(dict(CONDITIONS)[commit.condition])
    elif commit.verb == "delete_partitions":
        left.delete_partitions(commit.partitions)
    elif commit.verb == "insert_overwrite":
        left.delete_partitions({row.path for row in commit.rows})
    return frozenset(before.live.keys() - left.live.keys())


def _test(question: Question) -> Callable[[Row], bool] | None:
    if question.column:
        return lambda row: column_of(row, question.column) == question.value
    return dict(CONDITIONS)[question.condition] if question.condition else None


def come_to_rest(stage: Stage) -> None:
    """Run what pends, and keep nothing but the newest version of every file group."""
    writer = stage.writer()
    run_pending_clusterings(writer)
    if stage.shape.table_type == "mor":
        compact_table(writer)
    newest = {
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": "1",
    }
    clean_table(stage.address, newest)


def leftovers(path: str) -> list[str]:
    """Files beside those that a reader reads, and what writes keep only while they go on."""
    root = Path(path)
    snapshot = lakedex.open(path).snapshot
    read = {each.path_of(name) for each in snapshot.slices for name in each.file_names}
    found = [f"not read: {each}" for each in sorted(data_files(root) - read)]
    for folder in _PASSING:
        found += [f"left: {each}" for each in sorted(files_below(root, f".hoodie/{folder}"))]
    return found + [f"pends: {each}" for each in snapshot.timeline.pending()]


def listing_differences(path: str) -> list[str]:
    """Where the metadata table and the folders do not name the same files of the same size."""
    root = Path(path)
    listing = lakedex.open(path).snapshot.listing
    assert listing.files, "the table has no files"
    known = {
        f"{partition}/{name}": size
        for partition, files in listing.files.items()
        for name, size in files
    }
    stored = {name: (root / name).stat().st_size for name in data_files(root)}
    return [str(each) for each in sorted(known.items() ^ stored.items())]


def services_done(stage: Stage) -> Counter[str]:
    """How many services of each kind the whole timeline has, archived instants included."""
    timeline = stage.timeline()
    done: Counter[str] = Counter()
    for instant in timeline.between(None):
        operation = timeline.commit_summary(instant).operation_type
        done[str(operation)] += 1
    seen = {each.requested_time for each in timeline.completed() if each.action is Action.CLEAN}
    archived = timeline.archived.instants()
    seen |= {each.requested_time for each in archived if each.action is Action.CLEAN}
    return done + Counter(clean=len(seen), archived=len(archived))


def rows_now(stage: Stage) -> list[tuple[object, ...]]:
    """All rows by lakedex."""
    return rows_in(lakedex.open(stage.path).to_arrow(), stage.shape.schema.names)
