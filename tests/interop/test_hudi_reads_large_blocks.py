"""Record-index files of many data blocks: Hudi finds the first and last key of every block."""

from __future__ import annotations

from hashlib import sha256

import pyarrow as pa
import pytest

from lakedex.format.hfile import HFileReader
from lakedex.storage import open_storage
from tests.interop.reading import ask
from tests.support import TableBuilder

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
ROWS, FILES = 20_000, 4
# Enough keys without common prefixes to fill several blocks.
KEYS = sorted(sha256(b"%d" % number).hexdigest()[:40] for number in range(ROWS))


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> str:
    builder = TableBuilder(
        tmp_path_factory.mktemp("large") / "t",
        SCHEMA,
        record_key="id",
        indexes=["record_index"],
        groups={"record_index": 1},
        metadata="base",
    )
    each = ROWS // FILES
    builder.commit(
        [
            (
                (),
                pa.table(
                    {
                        "id": KEYS[start : start + each],
                        "n": range(start, start + each),
                    },
                    schema=SCHEMA,
                ),
            )
            for start in range(0, ROWS, each)
        ]
    )
    return builder.finish()


def test_keys_at_the_edges_of_blocks_are_found_in_one_file(spark, table):
    # case B72: the reader of the JVM drops the last records of blocks that claim many checksums
    storage = open_storage(f"{table}/.hoodie/metadata/record_index")
    (name,) = [info.path for info in storage.list() if info.path.endswith(".hfile")]
    reader = HFileReader(storage.source(name))
    edges = [0, ROWS - 1]
    seen = 0
    for cells in reader.scan_batches(max_bytes=1):
        edges += [seen, seen + len(cells) - 1]
        seen += len(cells)
    assert seen == ROWS
    assert len(set(edges)) >= 6
    for number in sorted(set(edges)):
        key = KEYS[number]
        answer = ask(spark, table, f"id = '{key}'")
        assert (answer.ids, answer.files) == ([key], 1)
    assert ask(spark, table, "id = 'key-x'").files == 0
