"""Inserts that look for no key, beside writes that make the record index forget keys.

Each race is played in one process: the second write happens when the first has written its files
and has not committed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakedex.errors import CommitConflict
from lakedex.write.verbs import TableWriter
from tests.support.write_lab import Lab, row, source

INDEXES = ["GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX"]
Verb = Callable[[TableWriter], object]
FORGETTING: dict[str, Verb] = {
    "insert_overwrite": lambda w: w.insert_overwrite(source([row("n", "p", 2)])),
    "insert_overwrite_table": lambda w: w.insert_overwrite_table(source([row("n", "p", 2)])),
    "delete_partitions": lambda w: w.delete_partitions(["p=p"]),
    "delete": lambda w: w.delete(source([row("a", "p", 1)])),
    "delete_where": lambda w: w.delete_where("id = 'a'"),
}


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("verb", FORGETTING)
def test_a_key_inserted_beside_a_write_that_forgets_it_keeps_its_entry(
    tmp_path: Path, index: str, verb: str
) -> None:
    # case B22: keys of replaced file groups
    lab = Lab(tmp_path, "cow", index)
    lab.writer.upsert(source([row("a", "p", 1), row("b", "q", 1)]))
    again = row("a", "p", 9, 7.0)
    other = lab.meanwhile(lambda: lab.writer.bulk_insert(source([again])))
    if verb == "delete_where":
        # Tried again by itself, with the rows chosen anew.
        FORGETTING[verb](other)
    else:
        with pytest.raises(CommitConflict, match="another writer inserted the key 'a'"):
            FORGETTING[verb](other)
        # Nothing of it happened: both copies are there, and both are found.
        assert lab.rows("id = 'a'") == [row("a", "p", 1), again]
        FORGETTING[verb](lab.writer)
    assert lab.rows("id = 'a'") == []
    lab.writer.upsert(source([row("a", "p", 3)]))
    assert lab.rows("id = 'a'") == lab.rows("id = 'a'", indexes=False) == [row("a", "p", 3)]
    kept = [each for each in lab.rows() if each["id"] != "a"]
    lab.holds([row("a", "p", 3), *kept], "id = 'a'", "id = 'b'", "id = 'n'")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_insert_elsewhere_does_not_stop_an_overwrite(tmp_path: Path, kind: str) -> None:
    lab = Lab(tmp_path, kind, "GLOBAL_RECORD_LEVEL_INDEX")
    lab.writer.upsert(source([row("a", "p", 1)]))
    other = lab.meanwhile(lambda: lab.writer.bulk_insert(source([row("z", "p", 1)])))
    other.insert_overwrite(source([row("n", "p", 2)]))
    lab.holds([row("n", "p", 2), row("z", "p", 1)], "id = 'a'", "id = 'z'")


@pytest.mark.parametrize("verb", FORGETTING)
def test_an_insert_that_commits_later_is_indexed(tmp_path: Path, verb: str) -> None:
    lab = Lab(tmp_path, "cow", "GLOBAL_RECORD_LEVEL_INDEX")
    lab.writer.upsert(source([row("a", "p", 1), row("b", "q", 1)]))
    again = row("a", "r", 9, 7.0)
    lab.meanwhile(lambda: FORGETTING[verb](lab.writer)).bulk_insert(source([again]))
    kept = [each for each in lab.rows() if each["id"] != "a"]
    lab.holds([again, *kept], "id = 'a'")
