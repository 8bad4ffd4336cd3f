"""The life of an index of every kind, one of a user's among them, without Spark."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex import ReadOptions
from lakedex.errors import LakedexError
from lakedex.services.clustering.runner import cluster_table
from lakedex.services.compaction.runner import compact_table
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.repairing.runner import repair_table
from lakedex.services.restoring import restore_table
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.open import StorageAddress
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.write.verbs import TableWriter
from tests.support.index_kinds import CASES, KindCase, user_kind
from tests.support.killing import DieAt, finish, start
from tests.support.write_lab import Lab, Row, source

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ver", pa.int64()),
        ("email", pa.string()),
        ("n", pa.int64()),
    ]
)


def row(number: int, ver: int = 1, email: str | None = "") -> Row:
    address = f"u{number % 10}@d{number % 10}.org" if email == "" else email
    return {"id": f"k{number:03}", "p": f"p{number % 2}", "ver": ver, "email": address, "n": number}


class Users(Lab):
    """A table of ten files, with an index of one kind."""

    def __init__(self, root: Path, case: KindCase, table_type: str) -> None:
        super().__init__(root, table_type, "GLOBAL_SIMPLE", schema=SCHEMA)
        self.case = case
        for first in range(0, 30, 6):
            self.writer.bulk_insert(source([row(at) for at in range(first, first + 6)], SCHEMA))
        if case.name == "column_stats":  # every new table has them
            self.drop()

    def upsert(self, *rows: Row) -> None:
        self.writer.upsert(source(rows, SCHEMA))

    def create(self, *, wait: bool = True) -> object:
        case = self.case
        return create_index(
            self.writer, case.name, case.on, using=case.using, options=case.options, wait=wait
        )

    def drop(self) -> None:
        drop_index(self.address, self.case.name, self.writer.target().patience)

    def steps(self, predicate: str) -> list[tuple[int, int, str]]:
        """What the index did, after the rows were held against a scan."""
        kinds = {each.kind for each in CASES} | {"partition_stats"}
        without = kinds - {self.case.kind} if self.case.kind != "secondary_index" else set()
        options = ReadOptions(weighs_cost=False, without_indexes=without)
        table = lakedex.open(self.path, options=options)
        rows = sorted(table.to_arrow(predicate, ["id"])["id"].to_pylist())
        plain = lakedex.open(self.path, options=ReadOptions(without_indexes={"all"}))
        assert rows == sorted(plain.to_arrow(predicate, ["id"])["id"].to_pylist()), predicate
        steps = table.explain(predicate).steps
        return [
            (each.before, each.after, each.reason) for each in steps if each.kind == self.case.kind
        ]

    def check(self, *, used: bool = True) -> None:
        for predicate in self.case.predicates:
            steps = self.steps(predicate)
            helps = any(after < before or "not needed" in reason for before, after, reason in steps)
            assert helps or not used, (predicate, steps)
        report = lakedex.open(self.path).verify()
        assert report.ok, report

    def full_name(self) -> str:
        infos = lakedex.open(self.path).indexes()
        (name,) = [each.name for each in infos if each.name.endswith(self.case.name)]
        return name

    def index_files(self) -> list[Path]:
        """The files of the entries."""
        if self.case.beside:
            folder = Path(self.path, ".hoodie", ".lakedex", "index", self.case.using)
        else:
            folder = Path(self.path, ".hoodie", "metadata", self.full_name())
        return sorted(
            each
            for each in folder.rglob("*")
            if each.is_file() and not each.name.startswith(".hoodie")
        )


@pytest.fixture(autouse=True)
def registered():
    user_kind()


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_life_of_an_index(tmp_path, case, table_type):
    table = Users(tmp_path, case, table_type)
    table.create()
    table.check()
    # Row changes.
    table.upsert(row(1, 2, "new@d7.org"), row(40), row(41, email=None))
    table.check()
    table.writer.delete(source([row(7), row(2)], SCHEMA))
    table.writer.delete_where("email = 'u9@d9.org' AND p = 'p1'")
    table.check()
    table.writer.insert_overwrite(source([row(51), row(57), row(59)], SCHEMA))
    table.check()
    # Services.
    if table_type == "mor":
        compact_table(table.writer)
        table.check()
    cluster_table(table.writer, by=["n"], strategy="linear")
    table.check()
    clean_table(table.address, {"hoodie.clean.commits.retained": "1"})
    for ver in range(3, 9):
        table.upsert(row(52 + ver, ver))
    archive_table(table.address, {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    table.check()
    # What is undone.
    kept = table.writer.snapshot().timeline.last_completed.requested_time
    table.upsert(row(51, 20, "u7@d7.org"), row(77))
    undone = table.writer.snapshot().timeline.last_completed.requested_time
    rollback_instant(table.address, undone)
    table.check()
    table.upsert(row(59, 21, "u7@d7.org"), row(87))
    restore_table(table.address, kept)
    table.check()
    # The end.
    assert any(each.name == table.full_name() for each in lakedex.open(table.path).indexes())
    table.drop()
    table.check(used=False)
    assert not [
        each for each in lakedex.open(table.path).indexes() if each.name.endswith(case.name)
    ]
    table.create()
    table.check()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_index_is_built_while_writers_go_on(tmp_path, case):
    table = Users(tmp_path, case, "mor")
    build = table.create(wait=False)
    table.upsert(row(3, 2, "u7@d7.org"), row(60), row(67))
    assert build.wait()
    refresh_index(table.writer, case.name)
    table.check()
    table.upsert(row(5, 2, "u7@d7.org"))
    table.check()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_damage_is_found_and_repaired(tmp_path, case):
    table = Users(tmp_path, case, "cow")
    table.create()
    files = [each for each in table.index_files() if each.stat().st_size > 200]
    assert files
    for each in files:
        each.write_bytes(each.read_bytes()[:-40])
    for predicate in case.predicates:
        table.steps(predicate)  # equal rows, whatever the index is
    assert not lakedex.open(table.path).verify().ok
    assert repair_table(table.writer).after.ok
    table.check()


def _build(path: str, number: int) -> None:
    user_kind()
    case = CASES[number]
    create_index(
        TableWriter(StorageAddress.of(path)),
        case.name,
        case.on,
        using=case.using,
        options=case.options,
    )


def _upsert(path: str) -> None:
    user_kind()
    TableWriter(StorageAddress.of(path)).upsert(
        source([row(1, 5, "late@d7.org"), row(61), row(67)], SCHEMA)
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_killed_build_and_a_killed_commit_leave_a_right_table(tmp_path, case):
    dice = random.Random(str(case))
    table = Users(tmp_path, case, "mor")
    before = table.rows()
    where = ".lakedex/index" if case.beside else ".hoodie/metadata"
    killed = DieAt(text=where, is_after=dice.random() < 0.5, skip=dice.randrange(2))
    assert finish(start(_build, table.path, CASES.index(case), watch=killed)) == -9
    assert table.rows() == before
    table.check(used=False)
    clean_table(table.address)
    table.create()
    table.check()
    for text, after in ((where, False), (".commit", False), ("deltacommit", True)):
        code = finish(start(_upsert, table.path, watch=DieAt(text=text, is_after=after)))
        assert code in (-9, 0)
        table.check(used=False)
        table.upsert(row(1, 6, "u7@d7.org"))
        table.check()


def test_a_kind_that_raises_or_is_not_there_keeps_every_file(tmp_path, monkeypatch):
    case = CASES[0]
    table = Users(tmp_path, case, "cow")
    table.create()
    kind = type(user_kind())
    (predicate, *_) = case.predicates

    def fail(*_: object) -> object:
        raise ZeroDivisionError("on purpose")

    for method in ("answers", "matches"):
        with monkeypatch.context() as patch:
            patch.setattr(kind, method, fail)
            (step,) = table.steps(predicate)
            assert step[0] == step[1]
            assert "ZeroDivisionError: on purpose" in step[2]
    with monkeypatch.context() as patch:
        patch.setattr(kind, "entries", fail)
        table.upsert(row(1, 2, "new@d7.org"))  # the write goes on
    (step,) = table.steps(predicate)
    assert "1 file slices that it does not have are read" in step[2]
    refresh_index(table.writer, case.name)
    table.check()
    with monkeypatch.context() as patch:
        patch.setattr(kind, "version", 2)
        (step,) = table.steps(predicate)
        assert step[0] == step[1]
        assert "entries of version 1 of email_domain, this is version 2" in step[2]
        refresh_index(table.writer, case.name)
        table.check()
    registry = "lakedex.index.registry._REGISTRY._file_kinds"
    with monkeypatch.context() as patch:
        known = lakedex.index.registry.file_index_kinds()
        patch.setattr(registry, {name: each for name, each in known.items() if name != case.kind})
        options = ReadOptions(weighs_cost=False)
        opened = lakedex.open(table.path, options=options)
        (step,) = [each for each in opened.explain(predicate).steps if "by_domain" in each.index]
        assert step.before == step.after
        assert "its kind 'email_domain' is not installed here" in step.reason
        table.upsert(row(3, 2, "new@d7.org"))  # writers go on without it
        with pytest.raises(LakedexError, match="email_domain"):
            create_index(table.writer, "other", "email", using="email_domain")
        table.drop()
    assert not [each for each in lakedex.open(table.path).indexes() if each.kind == case.kind]


def test_commits_go_on_where_runs_cannot_be_merged_or_encoded(tmp_path, monkeypatch):
    monkeypatch.setattr("lakedex.write.file_indexes._MOST_RUNS", 3)
    case = CASES[0]
    table = Users(tmp_path, case, "cow")
    table.create()
    for each in table.index_files()[:1]:
        each.write_bytes(each.read_bytes()[:-40])
    for ver in range(2, 8):
        table.upsert(row(1, ver, f"u{ver}@d7.org"))
    assert "could not be read" in table.steps(case.predicates[0])[0][2]
    refresh_index(table.writer, case.name)
    table.check()
    kind = type(user_kind())

    def fail(*_: object) -> object:
        raise ZeroDivisionError("on purpose")

    for method in ("encode", "decode"):
        with monkeypatch.context() as patch:
            patch.setattr(kind, method, fail)
            for ver in range(10, 15):
                table.upsert(row(1, ver, f"u{ver}@d7.org"))
            table.steps(case.predicates[0])
        refresh_index(table.writer, case.name)
        table.check()
