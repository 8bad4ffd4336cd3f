"""Instants that are gone from the timeline: readers and writers refuse, a repair puts them back."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lakedex
from lakedex.cli.main import app
from lakedex.errors import CorruptFile, IndexUnusable, InvalidInput, TimelineDamaged
from lakedex.services.clustering import cluster_table
from lakedex.services.compaction import compact_table
from lakedex.services.repairing import repair_table
from lakedex.services.rollback import restore_table
from lakedex.timeline import Action
from lakedex.txn.transaction import Transaction
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint, delete_savepoint, list_savepoints
from tests.support.secondary import RECORD_INDEX, SCHEMA, Trips

OFTEN = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.metadata.compact.max.delta.commits": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.clean.trigger.max.commits": "1",
}
KEEPING = {"hoodie.archive.automatic": "false"}
PLAIN = {"hoodie.metadata.enable": "false"}
ALWAYS = lakedex.ReadOptions(weighs_cost=False, counts_usage=False)
WITHOUT = lakedex.ReadOptions(without_indexes={"all"})


def make(path: Path, kind: str = "cow", properties: dict[str, str] | None = None) -> Trips:
    trips = Trips(path, kind, properties=RECORD_INDEX if properties is None else properties)
    for number in range(4):
        rows = [(f"k{each}", number, f"r{number}", "oslo") for each in (number, number + 1)]
        trips.writer.upsert(trips.rows(*rows))
    return trips


@pytest.fixture(scope="module")
def templates(tmp_path_factory) -> dict[str, Trips]:
    root = tmp_path_factory.mktemp("made")
    made = {kind: make(root / kind, kind) for kind in ("cow", "mor")}
    made["plain"] = make(root / "plain", properties=PLAIN)
    replaced = make(root / "replaced")
    replaced.writer.insert_overwrite(replaced.rows(("k9", 9, "r9", "oslo")))
    cluster_table(replaced.writer, "rider")
    made["replaced"] = replaced
    archived = Trips(root / "archived", "cow")
    for number in range(8):
        archived.writer.with_options(OFTEN).upsert(
            archived.rows((f"k{number}", number, "ann", "oslo"))
        )
    made["archived"] = archived
    return made


@pytest.fixture
def table(templates, tmp_path, request) -> Trips:
    return templates[request.param].copied(tmp_path / "t")


def timeline_of(trips: Trips) -> Path:
    return Path(trips.path, ".hoodie/timeline")


def rows(trips: Trips, **how: object) -> list[tuple[object, ...]]:
    found = lakedex.open(trips.path, **how).to_arrow(columns=trips.schema.names)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def newest_bases(trips: Trips, partition: str) -> list[Path]:
    """The base file of each of the two file groups of an index, as readers see them."""
    metadata = trips.table().snapshot.metadata
    folder = Path(trips.path, ".hoodie/metadata", partition)
    files = [folder / group.base.name for group in metadata.groups(partition)]
    assert len(files) == 2
    return files


def lose_savepoint(trips: Trips, instant: str) -> None:
    """Remove the completed file of a savepoint."""
    (complete,) = timeline_of(trips).glob(f"{instant}_*.savepoint")
    complete.unlink()


def newest(trips: Trips) -> str:
    return trips.table().timeline.write_instants()[-1].requested_time


def lose(trips: Trips, instant: str | None) -> str:
    """Remove an instant with all its files, or the whole timeline; what errors name."""
    if instant is None:
        shutil.rmtree(timeline_of(trips))
        return ".hoodie/timeline"
    for file in timeline_of(trips).glob(f"{instant}[._]*"):
        file.unlink()
    return instant


# case B80: lost timeline or newest instant
@pytest.mark.parametrize("table", ["cow", "mor", "replaced", "archived"], indirect=True)
@pytest.mark.parametrize("is_all", [True, False], ids=["all", "newest"])
def test_lost_instants_are_an_error_until_a_repair_puts_them_back(table, is_all):
    right, begin = rows(table), "20200101000000000"
    changed = lakedex.open(table.path).changes(newest(table)).num_rows
    lost_history = bool(table.table().timeline.archived.instants())
    name = lose(table, None if is_all else newest(table))
    for ask in (
        lambda: rows(table),
        lambda: rows(table, options=WITHOUT),
        lambda: table.table().to_arrow("uuid = 'k1'"),
        lambda: table.table().to_arrow(as_of="2199-01-01"),
        lambda: table.table().explain("uuid = 'k1'"),
        lambda: table.table().changes(begin),
        lambda: table.table().changes("2199-01-01"),
        lambda: table.table().changes(begin, cdc=True),
        lambda: table.writer.upsert(table.rows(("k1", 50, "new", "oslo"))),
        lambda: table.writer.delete_where("uuid = 'k1'"),
        lambda: table.writer.insert_overwrite(table.rows(("k1", 50, "new", "oslo"))),
        lambda: clean_table(table.address),
        lambda: cluster_table(table.writer, "rider"),
    ):
        with pytest.raises(TimelineDamaged, match=f"{name}.*lakedex repair"):
            ask()
    told = CliRunner().invoke(app, ["read", table.path])
    assert (told.exit_code != 0, name in told.output) == (True, True), told.output
    (problem,) = table.table().verify().problems
    assert (problem.index, name in problem.detail) == ("timeline", True)
    done = repair_table(table.writer)
    left = [problem.detail for problem in done.after.problems]
    if is_all and lost_history:
        assert all("history is damaged" in each for each in left)
    else:
        assert not left
    assert rows(table) == rows(table, options=WITHOUT) == right
    assert table.table().changes(newest(table)).num_rows == changed
    table.writer.upsert(table.rows(("k1", 50, "new", "oslo")))
    assert table.found("uuid = 'k1'") == ["k1"]
    if not left:
        table.assert_whole()


@pytest.mark.parametrize("table", ["cow", "mor", "replaced", "archived"], indirect=True)
def test_any_instant_that_is_lost_is_put_back_as_what_it_was(table, tmp_path):
    right = rows(table)
    known = {i.requested_time for i in table.table().snapshot.metadata.timeline.completed()}
    there = [each for each in table.table().timeline.completed() if each.requested_time in known]
    assert there
    for number, instant in enumerate(there):
        other = table.copied(tmp_path / f"copy{number}")
        name = lose(other, instant.requested_time)
        with pytest.raises(TimelineDamaged, match=name):
            rows(other)
        assert repair_table(other.writer).ok
        assert other.table().timeline.find(name).action is instant.action
        assert rows(other) == rows(other, options=WITHOUT) == right


@pytest.mark.parametrize("table", ["plain"], indirect=True)
def test_what_cannot_be_rebuilt_is_said(table):
    lose(table, None)
    with pytest.raises(TimelineDamaged, match=r"\.hoodie/timeline.* no instant"):
        rows(table)
    with pytest.raises(TimelineDamaged, match=r"\.hoodie/timeline"):
        table.writer.upsert(table.rows(("k1", 50, "new", "oslo")))
    assert not table.table().verify().ok
    with pytest.raises(TimelineDamaged, match=r"cannot be rebuilt.*from a copy"):
        repair_table(table.writer)


def test_a_new_table_and_a_dead_first_writer_are_no_damage(tmp_path):
    trips = Trips(tmp_path / "t", "cow")
    shutil.rmtree(timeline_of(trips))  # stores without folders have none
    assert rows(trips) == []
    begun = Transaction.begin(trips.address, action=Action.COMMIT, operation="UPSERT")
    begun.start_writing()
    Path(trips.path, "city=oslo").mkdir()
    name = f"0a0a0a0a-0000-0000-0000-000000000001-0_0-0-0_{begun.instant}.parquet"
    Path(trips.path, "city=oslo", name).write_bytes(b"half")
    assert rows(trips) == []
    begun.abort()
    trips.writer.upsert(trips.rows(("k1", 1, "ann", "oslo")))
    assert len(rows(trips)) == 1


@pytest.mark.parametrize("table", ["cow", "mor"], indirect=True)
@pytest.mark.parametrize("pattern", ["{}[._]*", "{}_*"], ids=["all files", "completed file"])
def test_a_metadata_table_that_lost_an_instant_is_not_used(table, pattern):
    right, lost = rows(table), newest(table)
    folder = Path(table.path, ".hoodie/metadata/.hoodie/timeline")
    for file in folder.glob(pattern.format(lost)):
        file.unlink()
    assert rows(table) == rows(table, options=WITHOUT) == right
    assert table.found("uuid = 'k4'") == ["k4"]
    assert lost in table.table().snapshot.listing.source
    with pytest.raises(IndexUnusable, match=f"{lost}.*lakedex repair"):
        table.writer.upsert(table.rows(("k1", 50, "new", "oslo")))
    assert lost in str(table.table().verify())
    assert repair_table(table.writer).ok
    table.writer.upsert(table.rows(("k1", 50, "new", "oslo")))
    assert table.found("uuid = 'k1'") == ["k1"]
    table.assert_whole()


@pytest.mark.parametrize("table", ["archived"], indirect=True)
def test_changes_need_the_whole_archive(table):
    right = lakedex.open(table.path).changes("earliest").num_rows
    history = timeline_of(table) / "history"
    (history / "_version_").unlink()
    assert lakedex.open(table.path).changes("earliest").num_rows == right
    first = min(history.glob("*.parquet"))
    others = sorted(each for each in history.glob("*.parquet") if each != first)
    kept = first.read_bytes()
    first.write_bytes(others[0].read_bytes())
    with pytest.raises(CorruptFile, match=r"history/.*parquet"):
        lakedex.open(table.path).changes("earliest")
    first.write_bytes(kept)
    timeline = lakedex.open(table.path).timeline
    archived = [each.requested_time for each in timeline.between("earliest")][:2]
    active = timeline.write_instants()[0].requested_time
    begin = timeline.as_of(active).between("earliest", as_requested=True)[-2].requested_time
    since = lakedex.open(table.path).changes(active).num_rows
    shutil.rmtree(history)
    for times, cdc in (
        (["earliest"], False),
        (["earliest", archived[1]], False),
        (archived, False),
        (["earliest"], True),
        (["earliest", archived[1]], True),
        ([begin, active], True),
    ):
        with pytest.raises(TimelineDamaged, match="history"):
            lakedex.open(table.path).changes(*times, cdc=cdc)
    assert lakedex.open(table.path).changes(active).num_rows == since > 0
    assert len(rows(table)) == 8


@pytest.mark.parametrize("table", ["replaced"], indirect=True)
def test_the_metadata_of_another_commit_is_noticed(table):
    first, second = sorted(timeline_of(table).glob("*.replacecommit"))
    second.write_bytes(first.read_bytes())
    with pytest.raises(CorruptFile, match=second.name):
        rows(table)


@pytest.mark.parametrize("table", ["mor"], indirect=True)
def test_changes_notice_the_metadata_of_another_deltacommit(table):
    before, last = sorted(timeline_of(table).glob("*.deltacommit"))[-2:]
    since = table.table().timeline.write_instants()[-2].completion_time
    right = table.table().changes(since).num_rows
    assert right > 0
    own = last.read_bytes()
    last.write_bytes(before.read_bytes())
    for cdc in (False, True):
        with pytest.raises(CorruptFile, match=last.name):
            table.table().changes(since, cdc=cdc)
    assert last.name in str(table.table().verify())
    last.write_bytes(own)
    table.index("rider")
    nothing = max(timeline_of(table).glob("*.deltacommit"))  # a commit without files
    last.write_bytes(nothing.read_bytes())
    assert table.table().changes(since).num_rows == right


@pytest.mark.parametrize("name", ["cow_trips_all_indexes", "mor_trips_all_indexes", "v6_cow"])
def test_the_metadata_of_the_next_commit_is_noticed(name, golden, tmp_path):
    """It names the replaced commit, whose files are the earlier versions of its own."""
    shutil.copytree(golden(name).path, tmp_path / "t")
    table = lakedex.open(str(tmp_path / "t"))
    folder = tmp_path / "t" / table.snapshot.config.timeline_folder
    noticed = []
    writes = table.timeline.write_instants()
    for instant, following in itertools.pairwise(writes):
        own, other = (
            next(folder.glob(f"{each.requested_time}*.{each.action.completed.value}"))
            for each in (instant, following)
        )
        if instant.requested_time.encode() not in other.read_bytes():
            continue
        right = own.read_bytes()
        own.write_bytes(other.read_bytes())
        for cdc in (False, True):
            with pytest.raises(CorruptFile, match=own.name):
                lakedex.open(str(tmp_path / "t")).changes("earliest", cdc=cdc)
        own.write_bytes(right)
        noticed.append(instant)
    assert noticed


@pytest.mark.parametrize("name", ["mor_trips_all_indexes", "v6_mor"])
@pytest.mark.parametrize("damage", ["remove", "zero"])
def test_files_are_listed_where_the_metadata_table_lost_a_list_of_them(
    damage, name, golden, tmp_path
):
    whole = golden(name)
    right = sorted(map(str, lakedex.open(whole.path).to_arrow().to_pylist()))
    logs = sorted(Path(whole.path, ".hoodie/metadata/files").glob(".*.log.*"))
    assert len(logs) > 2
    sources: list[str] = []
    for number, log in enumerate(logs[1:]):
        copy = tmp_path / f"t{number}"
        shutil.copytree(whole.path, copy)
        file = copy / log.relative_to(whole.path)
        if damage == "zero":
            file.write_bytes(b"\0" * file.stat().st_size)
        else:
            file.unlink()
        table = lakedex.open(str(copy))
        assert sorted(map(str, table.to_arrow().to_pylist())) == right
        sources.append(table.snapshot.listing.source)
    assert any(source.startswith("file listing") for source in sources)


@pytest.mark.parametrize("table", ["cow", "mor"], indirect=True)
def test_a_lost_record_index_is_named_by_a_write_and_its_lost_metafile_is_not_needed(table):
    folder = Path(table.path, ".hoodie/metadata/record_index")
    (folder / ".hoodie_partition_metadata").unlink()
    table.writer.upsert(table.rows(("k1", 50, "new", "oslo")))
    assert table.found("uuid = 'k1'") == ["k1"]
    assert repair_table(table.writer).ok
    shutil.rmtree(folder)
    with pytest.raises(IndexUnusable, match="record_index"):
        table.writer.upsert(table.rows(("k1", 51, "newer", "oslo")))
    assert table.found("uuid = 'k1'") == ["k1"]
    assert repair_table(table.writer).ok
    table.assert_whole()


@pytest.mark.parametrize("table", ["cow", "mor"], indirect=True)
@pytest.mark.parametrize("pattern", ["{}[._]*", "{}_*"], ids=["all files", "completed file"])
def test_a_record_index_whose_build_is_lost_is_not_used(table, pattern):
    right = rows(table)
    metafile = Path(table.path, ".hoodie/metadata/record_index/.hoodie_partition_metadata")
    (built,) = re.findall(r"commitTime=([0-9]+)", metafile.read_text())
    for file in Path(table.path, ".hoodie/metadata/.hoodie/timeline").glob(pattern.format(built)):
        file.unlink()
    assert rows(table) == rows(table, options=WITHOUT) == right
    assert table.found("uuid = 'k1'") == ["k1"]
    with pytest.raises(IndexUnusable, match=f"{built}.*lakedex repair"):
        table.writer.upsert(table.rows(("k1", 50, "new", "oslo")))
    assert table.found("uuid = 'k1'") == ["k1"]
    assert not table.table().verify().ok
    assert repair_table(table.writer).ok
    table.writer.upsert(table.rows(("k1", 50, "new", "oslo")))
    assert table.found("uuid = 'k1'") == ["k1"]
    table.assert_whole()


@pytest.mark.parametrize("table", ["archived"], indirect=True)
def test_a_lost_archive_is_named_and_its_list_is_rebuilt(table):
    history = timeline_of(table) / "history"
    changed = table.table().changes("earliest").num_rows
    for pattern in ("_version_", "manifest_*", "[_m]*"):
        for file in history.glob(pattern):
            file.unlink()
        assert "history" in str(table.table().verify()), pattern
        assert repair_table(table.writer).ok
        assert table.table().changes("earliest").num_rows == changed
    lost = min(history.glob("*.parquet"))
    kept = lost.read_bytes()
    lost.unlink()
    assert lost.name in str(table.table().verify())
    done = repair_table(table.writer)
    assert (done.ok, lost.name in str(done)) == (False, True)
    lost.write_bytes(kept)
    table.assert_whole()
    shutil.rmtree(history)
    done = repair_table(table.writer)
    assert (done.ok, "history is damaged" in str(done)) == (False, True)
    assert "from a copy of the table" in str(done)
    assert len(rows(table)) == 8


@pytest.mark.parametrize("table", ["cow"], indirect=True)
def test_what_is_to_be_done_about_lost_savepoints_is_said(table):
    create_savepoint(table.address, newest(table))
    name = lose(table, newest(table))
    done = repair_table(table.writer)
    assert (done.ok, done.put_back) == (True, (name,))
    assert "lakedex savepoint PATH" in str(done)
    create_savepoint(table.address, name)
    lose_savepoint(table, name)
    assert f"lakedex savepoint PATH {name} --delete" in " ".join(table.table().verify().notes)
    create_savepoint(table.address, name)
    assert table.table().timeline.savepoints() == (name,)
    assert not any("savepoint" in note for note in table.table().verify().notes)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("loses_commit", [False, True], ids=["savepoint", "commit and savepoint"])
def test_a_lost_savepoint_is_completed_by_a_repair(kind, loses_commit, tmp_path):
    table = make(tmp_path / "t", kind)
    kept = create_savepoint(table.address)
    right = rows(table)
    often = table.writer.with_options(KEEPING | OFTEN)
    for number in range(4):
        often.upsert(table.rows((f"k{number}", 9, "later", "oslo")))
        if kind == "mor":
            compact_table(often)
    assert [each for each in table.table().timeline.completed() if each.action is Action.CLEAN]
    if loses_commit:
        lose(table, kept.instant)
    else:
        lose_savepoint(table, kept.instant)
        with pytest.raises(InvalidInput, match=r"were cleaned|earliest"):
            table.table().to_arrow(as_of=kept.instant)
    done = repair_table(table.writer)
    assert (done.ok, done.savepoints, done.lost_savepoints) == (True, (kept.instant,), {})
    assert f"lakedex savepoint PATH {kept.instant} --delete" in str(done)
    assert [each.files for each in list_savepoints(table.table().timeline)] == [kept.files]
    assert table.table().verify().notes == ()
    clean_table(table.address, OFTEN)
    found = table.table().to_arrow(as_of=kept.instant, columns=table.schema.names)
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == right
    restore_table(table.address, kept.instant)
    assert rows(table) == right
    assert str(repair_table(table.writer)) == "nothing to repair: every index agrees with the data"


def test_a_savepoint_whose_files_were_cleaned_is_named_by_a_repair(tmp_path):
    table = make(tmp_path / "t")
    name = create_savepoint(table.address).instant
    lose_savepoint(table, name)
    for number in range(4):
        row = (f"k{number}", 9, "later", "oslo")
        table.writer.with_options(KEEPING | OFTEN).upsert(table.rows(row))
    right = rows(table)
    done = repair_table(table.writer)
    assert (done.ok, done.savepoints, list(done.lost_savepoints)) == (True, (), [name])
    assert f"not repaired: the savepoint {name}, as the clean " in str(done)
    assert list_savepoints(table.table().timeline) == []
    assert rows(table) == right
    delete_savepoint(table.address, name)
    assert repair_table(table.writer).lost_savepoints == {}


@pytest.mark.parametrize("pattern", ["{}.*", "{}.deltacommit"], ids=["all files", "completed file"])
def test_the_first_instant_of_an_old_metadata_table_is_missed(pattern, golden, tmp_path):
    shutil.copytree(golden("v6_mor").path, tmp_path / "t")
    table = lakedex.open(str(tmp_path / "t"))
    first = table.timeline.write_instants()[0].requested_time
    right = [table.changes("earliest", cdc=True).num_rows, table.to_arrow(as_of=first).num_rows]
    assert all(right)
    for file in Path(tmp_path, "t/.hoodie/metadata/.hoodie").glob(pattern.format(first)):
        file.unlink()
    for options in (lakedex.ReadOptions(), WITHOUT):
        table = lakedex.open(str(tmp_path / "t"), options=options)
        rows_now = table.to_arrow(as_of=first).num_rows
        assert [table.changes("earliest", cdc=True).num_rows, rows_now] == right
    assert first in table.snapshot.listing.source


# case B80: lost timeline or newest instant
def test_an_older_copy_of_a_base_file_of_the_metadata_table_is_not_used(golden, tmp_path):
    sound = golden("mor_trips_all_indexes").path
    table = Path(shutil.copytree(sound, tmp_path / "t"))
    files = table / ".hoodie/metadata/files"
    older, newer = sorted(files.glob("*.hfile"), key=lambda path: path.stem.rpartition("_")[2])
    newer.write_bytes(older.read_bytes())
    opened = lakedex.open(table)
    assert opened.to_arrow().equals(lakedex.open(sound).to_arrow())
    assert f"files/{newer.name} at offset 0: expected" in opened.snapshot.listing.source
    assert newer.name in str(opened.verify())


# case B80: lost timeline or newest instant
@pytest.mark.parametrize("partition", ["record_index", "secondary_index_idx_rider"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_base_file_of_another_file_group_is_not_used(kind, partition, tmp_path):
    """As many keys lie in each file group, so that numbers of entries tell nothing."""
    often = {"hoodie.metadata.compact.max.delta.commits": "1"}
    table, names = Trips(tmp_path / "t", kind), SCHEMA.names
    writer = table.writer.with_options(often)
    writer.upsert(table.rows(*((f"k{n}", n, f"r{n}", f"city{n % 4}") for n in range(8))))
    table.index("rider")
    for _ in range(2):
        writer.upsert(table.rows(("k0", 0, "r0", "city0"), ("k1", 1, "r1", "city1")))
    right = rows(table)
    bases = newest_bases(table, partition)
    contents = [base.read_bytes() for base in bases]
    for own, other, damaged in zip(bases, bases[::-1], contents[::-1], strict=True):
        own.unlink()
        own.write_bytes(damaged)
        for number in range(8):
            for text in (f"uuid = 'k{number}'", f"rider = 'r{number}'"):
                found = lakedex.open(table.path, options=ALWAYS).to_arrow(text, columns=names)
                assert [tuple(row.values()) for row in found.to_pylist()] == [right[number]], text
        assert own.name in str(table.table().verify())
        if partition == "record_index":
            with pytest.raises(CorruptFile, match=own.name):
                table.writer.upsert(table.rows(*right))
        own.write_bytes(contents[bases.index(own)])
        assert other.read_bytes() == damaged
    assert table.table().verify().ok


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_repair_builds_an_index_anew_whose_file_groups_hold_the_keys_of_others(kind, tmp_path):
    table = Trips(tmp_path / "t", kind)
    writer = table.writer.with_options({"hoodie.metadata.compact.max.delta.commits": "1"})
    for number in range(8):
        writer.upsert(table.rows((f"k{number}", number, f"r{number}", "oslo")))
    right = rows(table)
    first, second = newest_bases(table, "record_index")
    content = first.read_bytes()
    first.unlink()
    first.write_bytes(second.read_bytes())
    second.unlink()
    second.write_bytes(content)
    assert repair_table(table.writer).ok
    assert table.table().verify().ok
    table.writer.upsert(table.rows(*right))
    assert rows(table) == right


# case B80: lost timeline or newest instant
def test_a_log_file_with_the_block_of_another_commit_is_noticed(tmp_path):
    table = make(tmp_path / "t", "mor")
    right = rows(table)
    for folder in ("city=oslo", ".hoodie/metadata/record_index"):
        files = sorted(Path(table.path, folder).glob(".*.log.*"), key=lambda each: each.name[-40:])
        by_time = {re.search(r"[0-9]{17}", file.name)[0]: file for file in files}
        (_, older), (_, newer) = sorted(by_time.items())[-2:]
        own = newer.read_bytes()
        newer.unlink()
        newer.write_bytes(older.read_bytes())
        if folder == "city=oslo":
            with pytest.raises(CorruptFile, match=newer.name):
                rows(table)
        else:
            for number in range(5):
                assert table.found(f"uuid = 'k{number}'") == [f"k{number}"]
        assert newer.name in str(table.table().verify())
        newer.write_bytes(own)
    assert rows(table) == right
