"""Rows of some keys, read from many slices at once, are those that one by one would give."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakedex
from lakedex.errors import CorruptFile
from lakedex.filegroup import RECORD_KEY, many_slices, read_slice
from lakedex.filegroup.many_slices import WANTED, WantedRows, read_wanted
from lakedex.format.logfile import records as records_module
from lakedex.format.logfile.records import walk_prefixed
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("ver", pa.int64()), ("city", pa.string())]
)
PARTS, KEYS = 6, 60
COLUMNS = [RECORD_KEY, "city", "ver"]


def rows(numbers, version: int) -> pa.Table:
    numbers = list(numbers)
    return pa.table(
        {
            "id": [f"k{number}" for number in numbers],
            "p": [f"p{number % PARTS}" for number in numbers],
            "ver": pa.array([version] * len(numbers), pa.int64()),
            "city": [f"city-{version}-{number % 7}" for number in numbers],
        },
        schema=SCHEMA,
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Slices with no, one, two and three logs, newer and older versions, and with deletes."""
    builder = TableBuilder(
        tmp_path_factory.mktemp("made") / "t",
        SCHEMA,
        record_key="id",
        partition_by="p",
        ordering="ver",
        table_type="mor",
    )
    everything = rows(range(KEYS), 5)
    builder.commit(
        [(f"p{part}", everything.filter(pc.equal(everything["p"], f"p{part}")).drop_columns("p"))
         for part in range(PARTS)]
    )  # fmt: skip
    builder.log_commit(rows([n for n in range(KEYS) if n % PARTS in (1, 2, 3)], 7))
    # These come later and are older: they lose.
    builder.log_commit(rows([n for n in range(0, KEYS, 2) if n % PARTS == 2], 6))
    builder.log_commit(rows([n for n in range(0, KEYS, 4) if n % PARTS == 2], 8))
    builder.log_commit(deletes=[f"k{n}" for n in range(KEYS) if n % 12 == 3])
    return lakedex.open(builder.finish())


def questions(table, seed: int) -> list[WantedRows]:
    chosen = np.random.default_rng(seed)
    found = []
    for each in table.snapshot.slices:
        own = [f"k{n}" for n in range(KEYS + 6) if f"p{n % PARTS}" in each.partition]
        keys = chosen.choice(own, chosen.integers(1, len(own)), replace=False)
        found.append(WantedRows(each, pa.array(keys.tolist())))
    return found


def one_by_one(table, wanted: list[WantedRows]) -> list[tuple]:
    found = []
    for number, each in enumerate(wanted):
        for part in read_slice(table.snapshot.read_context, each.file_slice, COLUMNS):
            chosen = part.filter(pc.is_in(part[RECORD_KEY], value_set=each.keys))
            found += [(number, *row.values()) for row in chosen.to_pylist()]
    return sorted(found)


def together(table, wanted: list[WantedRows]) -> list[tuple]:
    found = read_wanted(table.snapshot.read_context, wanted, COLUMNS)
    assert found.column_names == [*COLUMNS, WANTED]
    return sorted((row.pop(WANTED), *row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("most", [1, 3_000, 16 << 20])
@pytest.mark.parametrize("seed", range(4))
def test_together_as_one_by_one(table, monkeypatch, seed, most):
    monkeypatch.setattr(many_slices, "_TOGETHER_BYTES", most)
    wanted = questions(table, seed)
    expected = one_by_one(table, wanted)
    assert together(table, wanted) == expected
    assert any(row[2].startswith("city-8") for row in expected)
    assert not any(row[2].startswith("city-6") for row in expected)


def test_one_key_in_two_slices_is_two_rows(table):
    first, second = table.snapshot.slices[1:3]
    keys = pa.array([f"k{number}" for number in range(KEYS)])
    wanted = [WantedRows(first, keys), WantedRows(second, keys), WantedRows(first, keys)]
    assert together(table, wanted) == one_by_one(table, wanted)


def test_a_damaged_block_is_named_by_its_own_file(table, tmp_path):
    shutil.copytree(table.path, tmp_path / "t")
    copied = lakedex.open(tmp_path / "t")
    everything = pa.array([f"k{number}" for number in range(KEYS)])
    wanted = [WantedRows(each, everything) for each in copied.snapshot.slices]
    log = wanted[2].file_slice.logs[-1]
    path = tmp_path / "t" / wanted[2].file_slice.path_of(log.name)
    data = bytearray(path.read_bytes())
    place = data.rindex(b"city-8") - 1
    data[place] = 0x7F
    path.write_bytes(bytes(data))
    with pytest.raises(CorruptFile, match=log.name.replace(".", r"\.")):
        together(copied, wanted)
    # Of a record that is not wanted nothing is read behind its key.
    name = re.findall(rb"(k\d+)", data[:place])[-1].decode()
    others = everything.filter(pc.not_equal(everything, name))
    wanted = [WantedRows(each.file_slice, others) for each in wanted]
    assert together(copied, wanted) == together(table, wanted)


def test_without_questions_there_are_no_rows(table):
    assert read_wanted(table.snapshot.read_context, [], COLUMNS).num_rows == 0


def test_many_small_blocks_are_walked_at_once(table, monkeypatch):
    wanted = questions(table, 2)
    expected = one_by_one(table, wanted)
    walked = []

    def watched(*given):
        walked.append(walk_prefixed(*given))
        return walked[-1]

    monkeypatch.setattr(records_module, "walk_prefixed", watched)
    monkeypatch.setattr(records_module, "_MANY_WALKERS", 1)
    assert together(table, wanted) == expected
    assert walked
    assert all(found is not None for found in walked)


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [([14, 13], [2, 1]), ([14, 13], [1, -1]), ([13, 14], [1, 1]), ([14, 12], [1, 1]), ([7], [0])],
)
def test_blocks_that_do_not_hold_what_they_say_are_not_walked(sizes, counts):
    content = bytes(8) + b"\0\0\0\2ab" + bytes(8) + b"\0\0\0\1c"
    whole = content[: sum(sizes)]
    assert walk_prefixed(whole, np.array(sizes), np.array(counts)) is None
    assert walk_prefixed(content, np.array([14, 13]), np.array([1, 1])) is not None
