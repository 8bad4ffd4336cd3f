"""Tables whose `.hoodie` folder is damaged in one place, and the judge of what comes of it.

A case damages one file, one folder or one instant of a copy of a table, then reads it and perhaps
writes it. Each answer must be that of the whole table, or an error that names what was damaged.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa

import lakedex
from lakedex import ReadOptions
from lakedex.engine import LocalEngine
from lakedex.errors import LakedexError
from lakedex.filegroup import parse_data_file
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction.scheduling import schedule_compaction
from lakedex.services.index_creating import create_index
from lakedex.services.repairing import repair_table
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Action
from lakedex.txn.transaction import Transaction
from lakedex.upkeep.savepoints import create_savepoint
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.golden import GOLDEN_FOLDER
from tests.support.secondary import RECORD_INDEX, SCHEMA, Trips

SECONDS = 60
"""What takes longer hangs."""
OFTEN = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "2",
    "hoodie.clean.trigger.max.commits": "1",
}
RARELY = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
CITIES = ("oslo", "rome")
KEYS = 8
ALL = ReadOptions(weighs_cost=False, counts_usage=False)
NONE = ReadOptions(without_indexes={"all"}, counts_usage=False)
Rows = list[tuple[Any, ...]]
FILTERS = (
    "uuid = 'k3'",
    "uuid IN ('k1', 'k6')",
    "rider = 'r3'",
    "rider IN ('new', 'r5')",
    "lower(rider) = 'r2'",
    "ts > 12",
    "ts BETWEEN 3 AND 5",
    "city = 'oslo' AND ts < 7",
)
GOLDEN = (
    "v6_cow",
    "v6_mor",
    "v8_cow",
    "v8_mor",
    "archived",
    "cow_trips_all_indexes",
    "mor_trips_all_indexes",
)
EXCUSES = {
    "dead writer": "a completed file that is gone beside its requested and inflight files looks "
    "as if its writer had died before it completed",
}
_CLEANED = "older file versions were cleaned"


@dataclass(frozen=True)
class Question:
    """One way to read a table."""

    name: str
    ask: Callable[[str, ReadOptions], Rows]


@dataclass
class Subject:
    """A table to damage, with the right answers."""

    name: str
    path: Path
    is_written: bool
    questions: list[Question]
    right: dict[str, Rows] = field(default_factory=dict)

    def learn(self) -> None:
        """Ask the whole table, once with its indexes and once without them."""
        for question in self.questions:
            answer = question.ask(str(self.path), NONE)
            assert question.ask(str(self.path), ALL) == answer, (self.name, question.name)
            self.right[question.name] = answer


@dataclass(frozen=True)
class Case:
    """One damage of one table."""

    table: str
    damage: str
    target: str
    seed: int

    def __str__(self) -> str:
        return f"{self.table}: {self.damage} {self.target} (seed {self.seed})"


def rows_of(table: pa.Table) -> Rows:
    """The rows in an order of their own, without the columns that say where they are."""
    own = [name for name in table.column_names if not name.startswith("_hoodie_")]
    return sorted((tuple(row.values()) for row in table.select(own).to_pylist()), key=repr)


def filtered(text: str) -> Question:
    return Question(text, lambda path, how: rows_of(lakedex.open(path, options=how).to_arrow(text)))


def travelled(instant: str) -> Question:
    return Question(
        f"as of {instant}",
        lambda path, how: rows_of(lakedex.open(path, options=how).to_arrow(as_of=instant)),
    )


def changed(begin: str) -> Question:
    return Question(
        f"changes since {begin}",
        lambda path, how: rows_of(lakedex.open(path, options=how).changes(begin)),
    )


def ranged(begin: str, end: str) -> Question:
    return Question(
        f"changes since {begin} to {end}",
        lambda path, how: rows_of(lakedex.open(path, options=how).changes(begin, end)),
    )


def told(begin: str, *end: str) -> Question:
    """What happened to rows, where the table keeps the files to tell it from."""

    def ask(path: str, how: ReadOptions) -> Rows:
        found = lakedex.open(path, options=how).changes(begin, *end, cdc=True)
        return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)

    return Question(f"row changes since {' to '.join([begin, *end])}", ask)


FULL = Question("all rows", lambda path, how: rows_of(lakedex.open(path, options=how).to_arrow()))


def whole_questions(path: str, filters: Sequence[str]) -> list[Question]:
    """Full, by filters, at earlier times and by changes."""
    timeline = lakedex.open(path).timeline
    writes = [each.requested_time for each in timeline.write_instants()]
    found = [FULL, *map(filtered, filters), changed("earliest"), changed(writes[-2])]
    archived = [each.requested_time for each in timeline.between("earliest")]
    others = [travelled(writes[-1]), travelled(writes[-2]), told(writes[-2]), told("earliest")]
    for question in [*others, ranged("earliest", archived[1])]:
        try:
            question.ask(path, NONE)
        except LakedexError:
            continue  # cleaned
        found.append(question)
    return found


def make_tables(root: Path, names: Sequence[str]) -> list[Subject]:
    """Some of the tables with every index, in several states of their timelines."""
    return [TABLES[name](root / name) for name in names]


def golden_tables(root: Path, names: Sequence[str]) -> list[Subject]:
    """Tables that Hudi wrote; some are of versions that are only read."""
    found = []
    for name in names:
        with ZipFile(GOLDEN_FOLDER / f"{name}.zip") as archive:
            archive.extractall(root / f"golden_{name}")
        inside = [each for each in (root / f"golden_{name}").rglob(".hoodie") if each.is_dir()]
        path = min(inside, key=lambda each: len(each.parts)).parent
        keys = list(lakedex.open(str(path)).snapshot.config.record_key_fields)
        rows = lakedex.open(str(path)).to_arrow()
        first = rows[keys[0]][0].as_py() if keys and keys[0] in rows.column_names else None
        filters = [f"{keys[0]} = '{first}'"] if isinstance(first, str) else []
        subject = Subject(
            name, path, is_written=False, questions=whole_questions(str(path), filters)
        )
        subject.learn()
        found.append(subject)
    return found


def _written(
    path: Path,
    kind: str,
    options: dict[str, str],
    then: Callable[[Trips, TableWriter], None] | None = None,
) -> Subject:
    trips = Trips(path, kind, properties=RECORD_INDEX | STATISTICS)
    writer = trips.writer.with_options(options)
    writer.upsert(trips.rows(*(_row(number, number) for number in range(KEYS))))
    trips.index("rider")
    create_index(writer, "idx_lower", "lower(rider)")
    create_index(writer, "idx_ts", "ts", options={"lakedex.covering": "true"})
    create_index(writer, "idx_city", "city", using="bitmap")
    for number in range(1, 6):
        writer.upsert(trips.rows(_row(number, 10 + number), _row(KEYS + number, number)))
    if then is not None:
        then(trips, writer)
    subject = Subject(
        path.name, path, is_written=True, questions=whole_questions(str(path), FILTERS)
    )
    subject.learn()
    return subject


def _row(number: int, ts: int, rider: str = "") -> tuple[object, ...]:
    return (f"k{number}", ts, rider or f"r{number}", CITIES[number % 2])


def _replace(trips: Trips, writer: TableWriter) -> None:
    create_savepoint(
        trips.address, lakedex.open(trips.path).timeline.write_instants()[-1].requested_time
    )
    cluster_table(writer, "rider")
    writer.insert_overwrite(trips.rows(_row(1, 30), _row(3, 31)))
    writer.upsert(trips.rows(_row(5, 32)))


def _pend(trips: Trips, writer: TableWriter) -> None:
    schedule_compaction(writer)
    writer.upsert(trips.rows(_row(2, 40)))
    begun = Transaction.begin(trips.address, action=Action.DELTACOMMIT, operation="UPSERT")
    begun.start_writing()
    begun._heartbeat.stop()


TABLES: dict[str, Callable[[Path], Subject]] = {
    "cow_archived": lambda path: _written(path, "cow", OFTEN),
    "mor_archived": lambda path: _written(path, "mor", OFTEN),
    "cow_replaced": lambda path: _written(path, "cow", RARELY, _replace),
    "mor_pending": lambda path: _written(path, "mor", RARELY, _pend),
}


# --- damages


def targets(subject: Subject) -> list[tuple[str, str]]:
    """Every damage of every file, folder and instant below `.hoodie`, by name and path."""
    root = subject.path
    files = sorted(
        p.relative_to(root).as_posix() for p in (root / ".hoodie").rglob("*") if p.is_file()
    )
    folders = sorted(
        p.relative_to(root).as_posix() for p in (root / ".hoodie").rglob("*") if p.is_dir()
    )
    found = [(damage, path) for path in files for damage in DAMAGES]
    found += [("remove folder", path) for path in folders]
    found += [("remove instant", each) for each in sorted(_instants(files))]
    return [each for each in found if not excuse(subject, *each)]


def _instants(files: Sequence[str]) -> set[str]:
    found = set()
    for path in files:
        folder, _, name = path.rpartition("/")
        match = re.match(r"([0-9]{14,})(_[0-9]+)?\.[a-z]+", name)
        if match and ("timeline" in folder or folder in (".hoodie", ".hoodie/metadata/.hoodie")):
            found.add(f"{folder}/{match[1]}")
    return found


def sample(subjects: Sequence[Subject], count: int, seed: int) -> list[tuple[Subject, Case]]:
    """Some cases: each table, and each kind of place in it, as often as any other."""
    draw = random.Random(seed)
    places: dict[str, list[tuple[str, str]]] = {}
    cases = []
    for number in range(count):
        subject = subjects[number % len(subjects)]
        for damage, target in () if subject.name in places else targets(subject):
            places.setdefault(subject.name, []).append((damage, target))
        by_place: dict[str, list[tuple[str, str]]] = {}
        for damage, target in places[subject.name]:
            by_place.setdefault(place_of(damage, target), []).append((damage, target))
        damage, target = draw.choice(by_place[draw.choice(sorted(by_place))])
        cases.append((subject, Case(subject.name, damage, target, draw.randrange(1 << 30))))
    return cases


def place_of(damage: str, target: str) -> str:
    """The part of a table that a damage is in."""
    folder = target.rpartition("/")[0]
    if damage in ("remove folder", "remove instant"):
        return damage
    if folder in (".hoodie/timeline", ".hoodie/metadata/.hoodie/timeline"):
        return folder
    if "history" in folder or "archived" in folder:
        return "archive"
    if folder.startswith(".hoodie/metadata/") and ".hoodie/metadata/.hoodie" not in folder:
        return "index files"
    return "others"


def excuse(subject: Subject, damage: str, target: str) -> str | None:
    """Why a damage cannot be told from a state that a healthy table may have."""
    folder, _, name = target.rpartition("/")
    is_own = folder in (".hoodie/timeline", ".hoodie")
    if damage == "remove" and is_own and re.fullmatch(r"[0-9]+(_[0-9]+)?\.[a-z]+", name):
        time = name.split("_")[0].split(".")[0]
        if any((subject.path / folder).glob(f"{time}.*.inflight")) or any(
            (subject.path / folder).glob(f"{time}.*.requested")
        ):
            return "dead writer"
    return None


def inflict(root: Path, damage: str, target: str, draw: random.Random) -> set[str]:
    """Damage a table; what else than its target an error may name, as the name of a copy."""
    path = root / target
    before = {each.name for each in path.parent.iterdir()}
    if damage == "remove folder":
        shutil.rmtree(path)
    elif damage == "remove instant":
        for file in path.parent.glob(f"{path.name}[_.]*"):
            file.unlink()
    else:
        DAMAGES[damage](path, draw)
    copies = {each.name for each in path.parent.iterdir()} - before
    return {name for copy in copies for name in _names_of(copy)}


def _truncate(path: Path, draw: random.Random) -> None:
    data = path.read_bytes()
    _write(
        path,
        data[: draw.choice([len(data) // 2, max(0, len(data) - 1), draw.randint(0, len(data))])],
    )


def _zero(path: Path, _: random.Random) -> None:
    _write(path, b"\0" * path.stat().st_size)


def _duplicate(path: Path, draw: random.Random) -> None:
    """A copy under a name that such a file might have."""
    times = re.findall(r"(?<![0-9])[0-9]{17}(?![0-9])", path.name)
    if times:
        name = path.name
        for time in set(times):
            name = name.replace(time, str(int(time) + draw.choice([1, 7, 100_000_000])))
    elif re.search(r"[0-9]+$", path.name):
        name = re.sub(r"[0-9]+$", lambda found: str(int(found[0]) + 1), path.name)
    else:
        name = f"{path.stem}-copy{path.suffix}"
    if not (path.parent / name).exists():
        shutil.copyfile(path, path.parent / name)


def _older(path: Path, draw: random.Random) -> None:
    """The content of another file of the same kind."""
    kind = re.sub(r"[0-9]+", "#", path.name)
    others = [
        p for p in path.parent.iterdir() if p != path and re.sub(r"[0-9]+", "#", p.name) == kind
    ]
    if others:
        _write(path, draw.choice(sorted(others)).read_bytes())


def _shape(path: Path) -> str:
    return re.sub(r"[0-9]+", "#", path.name)


def _write(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "remove": lambda path, _: path.unlink(),
    "empty": lambda path, _: _write(path, b""),
    "truncate": _truncate,
    "zero": _zero,
    "duplicate": _duplicate,
    "older content": _older,
}


# --- judging


@contextmanager
def _in_time() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"no answer within {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judge(subject: Subject, case: Case, scratch: Path) -> list[str]:
    """What is wrong about the answers of a damaged table."""
    draw = random.Random(case.seed)
    root = scratch / "t"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(subject.path, root)
    names = named_by(case) | inflict(root, case.damage, case.target, draw)
    faults, refused = [], []
    questions = draw.sample(subject.questions, min(3, len(subject.questions)))
    for question in questions:
        for how in (ALL, NONE):
            right = subject.right[question.name]
            faults += _asked(root, question, how, right, names, refused)
    chance = draw.random()
    if chance < 0.3:
        faults += _verified(root, names, refused)
    if subject.is_written and chance < 0.3:
        faults += _repaired(root, subject, questions, names)
    elif subject.is_written and chance > 0.5:
        faults += _written_on(root, subject, names)
    return [f"{case}: {fault}" for fault in faults]


def named_by(case: Case) -> set[str]:
    """What an error may call the damaged thing; of an archive also its folder."""
    folder, _, name = case.target.rpartition("/")
    of_archive = {folder} if folder.endswith(("history", "archived")) else set()
    return _names_of(name) | of_archive


def _names_of(name: str) -> set[str]:
    """The name of a file, and the instant in it."""
    names = {name}
    if match := re.match(r"([0-9]{14,})", name):
        names.add(match[1])
    parsed = parse_data_file(name, 0)
    return names if parsed is None else names | {parsed.instant_time}


def _asked(
    root: Path,
    question: Question,
    how: ReadOptions,
    right: Rows,
    names: set[str],
    refused: list[str] | None = None,
) -> list[str]:
    way = "by index" if how is ALL else "by scan"
    try:
        with _in_time():
            answer = question.ask(str(root), how)
    except LakedexError as error:
        if refused is not None:
            refused.append(str(error))
        return (
            []
            if any(name in str(error) for name in names)
            else [f"{question.name} {way}: {type(error).__name__} names nothing: {error}"]
        )
    except Exception as error:  # noqa: BLE001
        return [f"{question.name} {way}: {_where(error)}"]
    if answer != right:
        return [f"{question.name} {way}: {len(answer)} rows, not the {len(right)} right ones"]
    return []


def _verified(root: Path, names: set[str], refused: list[str]) -> list[str]:
    """What makes a read fail has to be in the report of `verify`, or be its error."""
    try:
        with _in_time():
            report = str(lakedex.open(str(root)).verify())
    except LakedexError as error:
        report = str(error)
    except Exception as error:  # noqa: BLE001
        return [f"verify: {_where(error)}"]
    if refused and not any(name in report for name in names):
        return [f"verify names nothing of {refused[0]!r}: {report}"]
    return []


def _repaired(
    root: Path, subject: Subject, questions: Sequence[Question], names: set[str]
) -> list[str]:
    """After a repair that left no problem each read gives the right rows."""
    try:
        with _in_time():
            report = repair_table(TableWriter(StorageAddress.of(str(root)), LocalEngine(1)))
    except LakedexError as error:
        if any(name in str(error) for name in names):
            return []
        return [f"repair: {type(error).__name__} names nothing: {error}"]
    except Exception as error:  # noqa: BLE001
        return [f"repair: {_where(error)}"]
    faults: list[str] = []
    refused: list[str] = []
    for question in questions:
        for how in (ALL, NONE):
            right = subject.right[question.name]
            faults += _asked(root, question, how, right, names | {_CLEANED}, refused)
    # A rebuilt timeline does not say which old versions a clean left, so time travel stops earlier.
    refused = [message for message in refused if _CLEANED not in message]
    if report.ok and refused:
        faults.append(f"a repair left no problem, but {refused[0]!r}")
    return [f"after repair, {fault}" for fault in faults]


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if "/lakedex/" in each.filename] or list(frames)
    return f"{type(error).__name__} at {own[-1].filename}:{own[-1].lineno}: {error}"


def _written_on(root: Path, subject: Subject, names: set[str]) -> list[str]:
    """Update one row, add one, and read the table again."""
    before = subject.right[FULL.name]
    changed_row, added = _row(4, 90, "new"), _row(50, 91, "fresh")
    columns = [list(column) for column in zip(changed_row, added, strict=True)]
    table = pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    after = sorted([r for r in before if r[0] != "k4"] + [changed_row, added], key=repr)
    faults: list[str] = []
    writer = TableWriter(StorageAddress.of(str(root)), LocalEngine(1))
    expected = after
    try:
        with _in_time():
            writer.upsert(ArrowRowSource(table))
    except LakedexError as error:
        expected = before
        if not any(name in str(error) for name in names):
            faults.append(f"upsert: {type(error).__name__} names nothing: {error}")
    except Exception as error:  # noqa: BLE001
        return [f"upsert: {_where(error)}"]
    for text in ("", "uuid IN ('k4', 'k50')", "rider = 'new'", "rider = 'r4'"):
        question = filtered(text) if text else FULL
        right = [
            row
            for row in expected
            if not text
            or ("uuid" in text and row[0] in ("k4", "k50"))
            or ("'new'" in text and row[2] == "new")
            or ("'r4'" in text and row[2] == "r4")
        ]
        for how in (ALL, NONE):
            faults += [f"after upsert, {f}" for f in _asked(root, question, how, right, names)]
    return faults
