"""Every log file of the tables that Hudi wrote can be read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lakedex.format.logfile import (
    BlockKind,
    LogBlock,
    decode_avro_block,
    decode_delete_block,
    effective_blocks,
    hfile_of,
    read_blocks,
)
from lakedex.storage.source import MemorySource

GOLDEN = sorted(path.stem for path in (Path(__file__).parents[3] / "golden").glob("*.zip"))
COUNTS = {
    "v6_mor": {"DELETE": 8, "HFILE_DATA": 16, "AVRO_DATA": 4},
    "v8_mor": {"DELETE": 17, "HFILE_DATA": 34, "AVRO_DATA": 4},
    "mor_trips_all_indexes": {"DELETE": 15, "HFILE_DATA": 39, "AVRO_DATA": 4},
}


def _log_blocks(table: str) -> list[LogBlock]:
    files = sorted(path for path in Path(table).rglob(".*.log.*") if path.is_file())
    sources = (MemorySource(path.read_bytes(), str(path)) for path in files)
    return [block for source in sources for block in read_blocks(source)]


@pytest.mark.parametrize("name", COUNTS)
def test_blocks_are_counted_by_kind(golden, name):
    assert Counter(block.kind.name for block in _log_blocks(golden(name).path)) == COUNTS[name]


@pytest.mark.parametrize("name", GOLDEN)
def test_every_block_is_decoded(golden, name):
    blocks = _log_blocks(golden(name).path)
    assert blocks
    for block in blocks:
        if block.kind is BlockKind.AVRO_DATA:
            batch = decode_avro_block(block)
            assert batch.num_rows > 0
            assert set(batch.column("_hoodie_commit_time").to_pylist()) == {block.instant_time}
        elif block.kind is BlockKind.DELETE:
            assert decode_delete_block(block).keys.null_count == 0
        else:
            reader = hfile_of(block)
            assert len(reader.scan().keys) == reader.entry_count


@pytest.mark.parametrize("name", ["v6_mor", "v8_mor", "mor_trips_all_indexes"])
def test_deletes_name_keys_that_the_table_no_longer_has(golden, name):
    table = golden(name)
    data_blocks = [block for block in _log_blocks(table.path) if ".hoodie" not in block.path]
    left = {row["_hoodie_record_key"] for row in table.expected["rows"]}
    deleted: set[str] = set()
    for block in effective_blocks(data_blocks, is_committed=lambda _: True):
        if block.kind is BlockKind.DELETE:
            deleted.update(decode_delete_block(block).keys.to_pylist())
    assert deleted
    assert not deleted <= left
