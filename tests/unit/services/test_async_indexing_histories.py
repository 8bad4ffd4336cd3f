"""Index builds amid commits of every kind: the index that comes of it verifies clean."""

from __future__ import annotations

import pytest

import lakedex
from tests.support.history import History, create, writer_of
from tests.support.index_builds import lead, start
from tests.support.row_model import assert_holds
from tests.support.write_shapes import Shape

ROWS = 60
AT_A_STEP = 3


@pytest.mark.parametrize(
    ("shape", "index", "seed"),
    [
        (Shape("cow", "GLOBAL_RECORD_LEVEL_INDEX", "simple"), "name", 1),
        (Shape("mor", "GLOBAL_RECORD_LEVEL_INDEX", "simple"), "name", 2),
        (Shape("mor", "SIMPLE", "simple"), "bloom_filters", 3),
        (Shape("cow", "GLOBAL_SIMPLE", "simple"), "record_index", 4),
        (Shape("mor", "GLOBAL_SIMPLE", "simple"), "record_index", 5),
        (Shape("mor", "SIMPLE", "simple"), "upper", 6),
    ],
)
def test_an_index_that_is_built_amid_a_history(tmp_path, shape, index, seed):
    history = History(shape, seed, rows=ROWS)
    address = create(shape, tmp_path / "t")
    writer = writer_of(address)
    commits = history.commits(2 + 3 * AT_A_STEP)

    def write(count: int) -> None:
        for _ in range(count):
            next(commits).write(shape, writer)

    write(2)
    claim = start(writer, index)
    lead(writer, claim, dict.fromkeys(("read", "write", "switch"), lambda: write(AT_A_STEP)))
    path = str(tmp_path / "t")
    made = {*claim.build.names}
    assert made <= {*lakedex.open(path).snapshot.config.metadata_partitions}
    assert_holds(path, history.model)
