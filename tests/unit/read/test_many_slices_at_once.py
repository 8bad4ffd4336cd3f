"""A full read, which decodes the logs of many slices together, gives what slice by slice gives."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import CorruptFile
from lakedex.filegroup import read_slice
from lakedex.read import scan
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("ver", pa.int64()), ("city", pa.string())]
)
PARTS, KEYS = 24, 240


def rows(numbers, version: int) -> pa.Table:
    numbers = list(numbers)
    columns = {
        "id": [f"k{number}" for number in numbers],
        "p": [f"p{number % PARTS:02}" for number in numbers],
        "ver": [version] * len(numbers),
        "city": [None if number % 5 == 0 else f"city-{version}-{number % 7}" for number in numbers],
    }
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture(scope="module", params=["ver", None])
def path(tmp_path_factory, request):
    """Slices with no and with several logs, older and newer versions, and with deletes."""
    builder = TableBuilder(
        tmp_path_factory.mktemp("made") / "t",
        SCHEMA,
        record_key="id",
        partition_by="p",
        ordering=request.param,
        table_type="mor",
    )
    builder.commit(
        [
            (f"p{part:02}", rows(range(part, KEYS, PARTS), 5).drop_columns("p"))
            for part in range(PARTS)
        ]
    )
    builder.log_commit(rows([n for n in range(0, KEYS, 2) if n % PARTS < 20], 7))
    builder.log_commit(rows([n for n in range(0, KEYS, 3) if n % PARTS < 12], 6))
    builder.log_commit(deletes=[f"k{n}" for n in range(KEYS) if n % 16 == 3])
    builder.log_commit(rows([n for n in range(KEYS) if n % 16 == 4], 8))
    return builder.finish()


@pytest.mark.parametrize(
    ("groups_a_worker", "most_bytes"), [(1, 16 << 20), (1, 2000), (4, 16 << 20), (1000, 1)]
)
def test_a_full_read_gives_what_slice_by_slice_gives(
    path, monkeypatch, groups_a_worker, most_bytes
):
    monkeypatch.setattr(scan, "_GROUPS_A_WORKER", groups_a_worker)
    monkeypatch.setattr(scan, "_TOGETHER_BYTES", most_bytes)
    table = lakedex.open(path)
    context, names = table.snapshot.read_context, table.schema.names
    alone = [
        part for each in table.snapshot.slices for part in read_slice(context, each, names)
    ]  # fmt: skip
    found = table.to_arrow()
    assert found.equals(pa.concat_tables(alone))
    assert 0 < found.num_rows < KEYS
    assert len(set(found["ver"].to_pylist())) > 1


def test_a_damaged_log_among_many_is_named(path, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    log = min(copy.glob("*p04/.*.log.*"))
    content = bytearray(log.read_bytes())
    at = content.index(b"k4", content.index(b'"fields"') + 500)
    content[at - 1] = 0xFF
    log.write_bytes(content)
    with pytest.raises(CorruptFile) as caught:
        lakedex.open(copy).to_arrow()
    assert log.name in str(caught.value)
