"""hoodie.properties on storage: fallback, retries, atomic change."""

from __future__ import annotations

import threading

import pytest

from lakedex.config import format_properties, parse_properties, table_checksum
from lakedex.errors import CorruptFile, TableNotFound, UnsupportedFeature, VersionMismatch
from lakedex.storage.local import LocalStorage
from lakedex.timeline import load_table_config, update_properties
from lakedex.timeline.properties_file import BACKUP_PATH, PROPERTIES_PATH, _config_of

PROPS = {
    "hoodie.table.name": "trips",
    "hoodie.database.name": "default",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.checksum": "2200697520",
    "some.unknown.key": "kept: yes",
}


@pytest.fixture
def storage(tmp_path):
    made = LocalStorage(str(tmp_path))
    made.create(PROPERTIES_PATH, text(PROPS))
    return made


def text(props):
    return format_properties(props, comment="Updated at noon").encode()


def stored(storage):
    return parse_properties(storage.read(PROPERTIES_PATH).decode())


def test_the_outermost_missing_part_of_a_table_is_named(tmp_path):
    with pytest.raises(TableNotFound, match="the folder does not exist or is empty"):
        load_table_config(LocalStorage(str(tmp_path / "nowhere")))
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.parquet").write_bytes(b"x")
    with pytest.raises(TableNotFound, match=r"has no \.hoodie"):
        load_table_config(LocalStorage(str(tmp_path / "plain")))
    (tmp_path / "plain" / ".hoodie").mkdir()
    with pytest.raises(TableNotFound, match=r"\.hoodie/hoodie\.properties is missing"):
        load_table_config(LocalStorage(str(tmp_path / "plain")))


def test_a_table_is_loaded(storage):
    assert load_table_config(storage).name == "trips"


def test_nothing_there_is_a_missing_table_named_by_its_path(tmp_path):
    with pytest.raises(TableNotFound, match=str(tmp_path)):
        load_table_config(LocalStorage(str(tmp_path)))
    with pytest.raises(TableNotFound, match=str(tmp_path)):
        update_properties(LocalStorage(str(tmp_path)), {})


def test_the_backup_is_read_while_the_file_is_missing(storage):
    storage.create(BACKUP_PATH, storage.read(PROPERTIES_PATH))
    storage.delete(PROPERTIES_PATH)
    assert load_table_config(storage).name == "trips"


@pytest.mark.parametrize("data", [b"", b"#only a comment\n", b"hoodie.table.name=trips\n"])
def test_a_file_that_stays_half_written_is_corrupt(storage, data):
    storage.replace(PROPERTIES_PATH, data)
    with pytest.raises(CorruptFile):
        load_table_config(storage)


@pytest.mark.parametrize("data", [b"", b"hoodie.table.name=trips\n"])
def test_the_backup_of_a_file_that_stays_half_written_counts(storage, data):
    storage.create(BACKUP_PATH, storage.read(PROPERTIES_PATH))
    storage.replace(PROPERTIES_PATH, data)
    assert load_table_config(storage).name == "trips"
    update_properties(storage, {"a": "b"})
    assert load_table_config(storage).raw["a"] == "b"
    assert storage.read(BACKUP_PATH) == storage.read(PROPERTIES_PATH)
    storage.replace(BACKUP_PATH, data)
    storage.replace(PROPERTIES_PATH, data)
    with pytest.raises(CorruptFile):
        load_table_config(storage)


def test_a_wrong_checksum_is_corrupt(storage):
    storage.replace(PROPERTIES_PATH, text(PROPS | {"hoodie.table.checksum": "1"}))
    with pytest.raises(CorruptFile, match="checksum"):
        load_table_config(storage)
    with pytest.raises(CorruptFile, match="checksum"):
        update_properties(storage, {"a": "b"})


def test_a_missing_checksum_is_that_of_an_old_table_or_of_a_torn_file(storage):
    props = {key: value for key, value in PROPS.items() if "checksum" not in key}
    old = {"hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"}
    storage.replace(PROPERTIES_PATH, text(props | old))
    assert load_table_config(storage).version == 6
    storage.replace(PROPERTIES_PATH, text(props))
    with pytest.raises(CorruptFile, match="checksum"):
        load_table_config(storage)


def test_no_part_of_a_file_is_taken_for_all_of_it(storage):
    """What the rest says would be lost without a word: keys, merging, indexes."""
    update_properties(storage, {"hoodie.table.ordering.fields": "ts"})
    whole = storage.read(PROPERTIES_PATH)
    for size in range(0, len(whole) - 1, 7):
        with pytest.raises(CorruptFile):
            _config_of(whole[:size], PROPERTIES_PATH)
    assert _config_of(whole, PROPERTIES_PATH).ordering_fields == ("ts",)


def test_a_file_that_is_being_written_is_read_when_it_is_whole(storage):
    whole = storage.read(PROPERTIES_PATH)
    storage.replace(PROPERTIES_PATH, whole[:40])
    timer = threading.Timer(0.1, storage.replace, [PROPERTIES_PATH, whole])
    timer.start()
    try:
        assert load_table_config(storage).name == "trips"
    finally:
        timer.join()


def test_another_version_is_refused_without_retries(storage):
    storage.replace(PROPERTIES_PATH, text(PROPS | {"hoodie.table.version": "7"}))
    with pytest.raises(UnsupportedFeature):
        load_table_config(storage)


def test_a_change_keeps_what_it_does_not_name(storage):
    config = update_properties(
        storage, {"hoodie.table.metadata.partitions": "files", "hoodie.database.name": None}
    )
    assert config.metadata_partitions == ("files",)
    props = stored(storage)
    assert props["some.unknown.key"] == "kept: yes"
    assert props["hoodie.table.checksum"] == str(table_checksum("trips"))
    assert "hoodie.database.name" not in props
    assert storage.read(PROPERTIES_PATH).startswith(b"#Updated at ")
    assert load_table_config(storage) == config


def test_a_change_undoes_a_crashed_one_first(storage):
    storage.create(BACKUP_PATH, storage.read(PROPERTIES_PATH))
    storage.delete(PROPERTIES_PATH)
    update_properties(storage, {"x": "1"})
    assert stored(storage)["x"] == "1"
    assert stored(storage)["some.unknown.key"] == "kept: yes"
    assert storage.read(BACKUP_PATH) == storage.read(PROPERTIES_PATH)


def test_a_change_that_would_break_the_table_changes_nothing(storage):
    before = storage.read(PROPERTIES_PATH)
    with pytest.raises(UnsupportedFeature):
        update_properties(storage, {"hoodie.table.version": "7"})
    assert storage.read(PROPERTIES_PATH) == before


class RacingStorage(LocalStorage):
    """A store on which somebody else changes the file after it was read first."""

    __slots__ = ("raced",)

    def read_with_version(self, path):
        found = super().read_with_version(path)
        if not hasattr(self, "raced"):
            self.raced = True
            LocalStorage(self.root).replace(path, text(PROPS | {"other": "writer"}))
        return found


def test_the_loser_of_two_changes_is_told_and_changes_nothing(storage):
    racing = RacingStorage(storage.root)
    with pytest.raises(VersionMismatch):
        update_properties(racing, {"x": "1"})
    assert stored(storage)["other"] == "writer"
    assert "x" not in stored(storage)


def test_a_change_leaves_no_backup_that_says_something_else(storage):
    class Late(LocalStorage):
        """A store on which somebody whose lock ran out puts a backup of long ago."""

        __slots__ = ()

        def create(self, path, data, **how):
            if path == BACKUP_PATH:
                super().create(path, text(PROPS | {"long": "ago"}))
            super().create(path, data, **how)

    update_properties(storage, {"x": "1"})
    assert storage.read(BACKUP_PATH) == storage.read(PROPERTIES_PATH)
    update_properties(Late(storage.root), {"x": "2"})
    assert stored(storage)["x"] == "2"
    assert not storage.exists(BACKUP_PATH)
