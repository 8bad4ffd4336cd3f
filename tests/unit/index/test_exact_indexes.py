"""Indexes that have every row by the notes of their writers, and what makes such a note void."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lakedex
from lakedex.config.keys import METADATA_PARTITIONS
from lakedex.index.kinds.record_index import completeness
from lakedex.index.kinds.secondary import lookup as secondary_lookup
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.index_creating import create_index
from lakedex.services.rollback import rollback_instant
from lakedex.table.own_properties import write_own_properties
from lakedex.timeline import load_table_config, update_properties
from lakedex.upkeep.cleaning import clean_table
from tests.support.damage import Damage
from tests.support.write_lab import Lab, Row, row, source

RECORD, BY_X = "record_index", "secondary_index_by_x"
KINDS = ("mor", "cow")
BY_RECORD_INDEX = ("GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX")


class Indexed(Lab):
    """A table with an index of keys and one of `x`, of which every row has another one."""

    def __init__(self, root: Path, kind: str = "mor", index: str = BY_RECORD_INDEX[0]) -> None:
        super().__init__(root, kind, index)
        self.writer.upsert(source([row(key, "p", 1, float(at)) for at, key in enumerate("abcd")]))
        self.writer.upsert(source([row("e", "q", 1, 4.0)]))
        self.names = [RECORD]
        if index == BY_RECORD_INDEX[0]:
            create_index(self.writer, "by_x", "x")
            self.names.append(BY_X)

    def noted(self) -> list[str]:
        """The indexes that need not be counted."""
        metadata = lakedex.open(self.path).snapshot.metadata
        return [name for name in self.names if metadata.has_every_row(name)]

    @property
    def metadata_folder(self) -> Path:
        return Path(self.path, ".hoodie/metadata")

    def steps(self, condition: str) -> dict[str, str]:
        found = lakedex.open(self.path).explain(condition).steps
        return {step.index: step.reason for step in found}


@pytest.fixture
def nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise AssertionError("rows or entries are counted")

    for module in (completeness, secondary_lookup):
        monkeypatch.setattr(module, "live_entries", refuse)
        monkeypatch.setattr(module, "row_count", refuse)


@pytest.mark.usefixtures("nothing_is_counted")
@pytest.mark.parametrize(("kind", "index"), [*zip(KINDS, BY_RECORD_INDEX, strict=True)])
def test_nothing_is_counted_where_all_writers_kept_the_indexes(tmp_path, kind, index):
    lab = Indexed(tmp_path, kind, index)
    settings = {
        "hoodie.metadata.compact.max.delta.commits": "4",
        "hoodie.clean.commits.retained": "2",
    }
    writer = lab.writer.with_options(settings)
    acts: list[Callable[[], object]] = [
        lambda: writer.upsert(source([row("a", "p", 2, 10.0), row("f", "r", 1, 5.0)])),
        lambda: writer.delete(source([row("b", "p", 1)])),
        lambda: writer.upsert(source([row("b", "p", 3, 1.5)])),
        lambda: compact_table(writer) if kind == "mor" else None,
        lambda: cluster_table(writer, by="x"),
        lambda: writer.upsert(source([row("g", "p", 1, 6.0)])),
        lambda: clean_table(lab.address, settings),
        lambda: writer.delete_where("x = 2.0"),
        lambda: writer.upsert(source([row("h", "p", 1, 7.0)])),
    ]
    for number, act in enumerate(acts):
        act()
        assert lab.noted() == lab.names, number
        for condition in ("id = 'a'", "x = 10.0", "x = 2.0", "id = 'b'"):
            assert lab.rows(condition) == lab.rows(condition, indexes=False), (number, condition)
            assert "could not be read" not in str(lab.steps(condition))
    timeline = lakedex.open(lab.path).snapshot.metadata.timeline
    assert any(str(each.action.value) == "commit" for each in timeline.completed()), "compactions"


def test_rows_that_stand_alone_are_told_by_their_number(tmp_path):
    lab = Lab(tmp_path, "mor", BY_RECORD_INDEX[0])
    lab.writer.bulk_insert(source([row("a", "p", 1), row("b", "p", 1)]))
    assert lakedex.open(lab.path).snapshot.metadata.has_every_row(RECORD)
    lab.writer.insert_overwrite_table(source([row("c", "p", 1), row("d", "q", 1)]))
    assert lakedex.open(lab.path).snapshot.metadata.has_every_row(RECORD)
    lab.writer.insert_overwrite_table(source([row("c", "p", 1), row("c", "q", 1)]))
    assert not lakedex.open(lab.path).snapshot.metadata.has_every_row(RECORD)
    # case B71: duplicate keys after plain inserts
    assert lab.rows("id = 'c'") == [row("c", "p", 1), row("c", "q", 1)]


def _plain_insert(lab: Indexed) -> list[Row]:
    lab.writer.insert(source([row("a", "q", 2, 20.0)]))
    return [row("a", "p", 1, 0.0), row("a", "q", 2, 20.0)]


def _go_by_files(lab: Indexed) -> None:
    write_own_properties(lab.address.open(), {"hoodie.index.type": "SIMPLE"})


def _by_another_index(lab: Indexed) -> list[Row]:
    _go_by_files(lab)
    lab.writer.upsert(source([row("a", "q", 2, 20.0)]))
    return [row("a", "p", 1, 0.0), row("a", "q", 2, 20.0)]


def _entry_lost_by_another_engine(lab: Indexed) -> list[Row]:
    Damage(Path(lab.path)).remove(RECORD, ["a"])
    return [row("a", "p", 1, 0.0)]


def _entry_of_value_lost(lab: Indexed) -> list[Row]:
    damage = Damage(Path(lab.path))
    damage.remove(BY_X, [key for key in damage.keys(BY_X) if key.endswith("$a")])
    return [row("a", "p", 1, 0.0)]


def _without_the_index(lab: Indexed) -> list[Row]:
    """One commit while the properties do not name the index, then they do again."""
    storage = lab.address.open()
    names = load_table_config(storage).metadata_partitions
    aside = lab.metadata_folder.parent.parent.parent / "aside"
    shutil.copytree(lab.metadata_folder / RECORD, aside)
    fewer = [name for name in names if name not in (RECORD, BY_X)]
    shutil.copytree(lab.metadata_folder / BY_X, aside.with_name("aside_x"))
    update_properties(storage, {METADATA_PARTITIONS: ",".join(fewer)})
    _go_by_files(lab)
    lab.writer.upsert(source([row("z", "q", 2, 20.0)]))
    for name, copy in ((RECORD, aside), (BY_X, aside.with_name("aside_x"))):
        shutil.rmtree(lab.metadata_folder / name, ignore_errors=True)
        shutil.copytree(copy, lab.metadata_folder / name)
    update_properties(storage, {METADATA_PARTITIONS: ",".join(names)})
    return [row("z", "q", 2, 20.0)]


def _older_files_of_the_index(lab: Indexed) -> list[Row]:
    aside = lab.metadata_folder.parent.parent.parent / "aside"
    shutil.copytree(lab.metadata_folder / RECORD, aside)
    lab.writer.upsert(source([row("z", "q", 2, 20.0)]))
    shutil.rmtree(lab.metadata_folder / RECORD)
    shutil.copytree(aside, lab.metadata_folder / RECORD)
    return [row("z", "q", 2, 20.0)]


def _rolled_back_in_the_data_only(lab: Indexed) -> list[Row]:
    """The entries of a commit that was taken back, put there again with its metadata instant."""
    moved = lab.writer.upsert(source([row("a", "r", 2, 20.0)])).instant
    assert moved is not None
    aside = lab.metadata_folder.parent.parent.parent / "aside"
    shutil.copytree(lab.metadata_folder, aside)
    rollback_instant(lab.address, moved)
    shutil.rmtree(lab.metadata_folder)
    shutil.copytree(aside, lab.metadata_folder)
    return [row("a", "p", 1, 0.0)]


BREACHES = [
    _plain_insert,
    _by_another_index,
    _entry_lost_by_another_engine,
    _entry_of_value_lost,
    _without_the_index,
    _older_files_of_the_index,
    _rolled_back_in_the_data_only,
]


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach.__name__.strip("_"))
def test_a_breach_is_found_by_counting(tmp_path, breach):
    # cases B26, B29, B60, B62, B71
    lab = Indexed(tmp_path)
    assert lab.noted() == [RECORD, BY_X]
    expected = breach(lab)
    noted = lab.noted()
    assert noted != [RECORD, BY_X]
    for found in expected:
        conditions = (f"id = '{found['id']}'", f"x = {found['x']}")
        for condition in conditions:
            # What to_arrow leaves out on so small a table it would not on a large one.
            files = {each.file_id for each in lakedex.open(lab.path).files(condition)}
            every = lakedex.open(lab.path).to_arrow(condition, columns=["_hoodie_file_name"])
            names = every["_hoodie_file_name"].to_pylist()
            assert all(any(name.startswith(known) for known in files) for name in names)
    assert lab.rows(f"id = '{expected[0]['id']}'") == sorted(expected, key=repr)


def test_a_commit_that_is_taken_back_leaves_the_notes_before_it(tmp_path):
    lab = Indexed(tmp_path)
    moved = lab.writer.upsert(source([row("a", "r", 2, 20.0), row("z", "q", 1, 9.0)])).instant
    assert moved is not None
    rollback_instant(lab.address, moved)
    assert lab.noted() == [RECORD, BY_X]
    assert lab.rows("id = 'a'") == [row("a", "p", 1, 0.0)]
    assert lab.rows("x = 20.0") == lab.rows("id = 'z'") == []


def test_a_breach_is_not_forgotten_by_the_writes_after_it(tmp_path):
    lab = Indexed(tmp_path)
    _entry_lost_by_another_engine(lab)
    lab.writer.upsert(source([row("y", "q", 1, 30.0)]))
    assert RECORD not in lab.noted()
    create_index(lab.writer.with_options({}), "by_ver", "ver")
    assert RECORD not in lab.noted()
    assert lab.rows("id = 'a'") == [row("a", "p", 1, 0.0)]
