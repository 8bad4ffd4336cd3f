"""History files with far more, or far larger, entries than they have bytes."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakedex.errors import CorruptFile
from lakedex.storage import open_storage
from lakedex.timeline.lsm_history import LsmHistory

TIME = "20260101000000000"


def history(folder, rows: int, metadata: bytes) -> LsmHistory:
    cells = {"instantTime": TIME, "completionTime": TIME, "action": "commit"}
    columns = {name: pa.array([text]) for name, text in cells.items()}
    columns |= {"metadata": pa.array([metadata]), "plan": pa.array([None], pa.binary())}
    repeated = {name: column.dictionary_encode() for name, column in columns.items()}
    repeated |= {"plan": columns["plan"]}
    table = pa.table({name: column.take([0] * rows) for name, column in repeated.items()})
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False)
    name = f"{TIME}_{TIME}_0.parquet"
    listed = {"files": [{"fileName": name, "fileLen": len(sink.getvalue())}]}
    (folder / "_version_").write_bytes(b"1")
    (folder / "manifest_1").write_text(json.dumps(listed), encoding="utf-8")
    (folder / name).write_bytes(sink.getvalue())
    return LsmHistory(open_storage(str(folder.parent)), folder.name)


def test_a_file_of_too_many_rows_is_refused(tmp_path):
    with pytest.raises(CorruptFile, match="300001 rows"):
        history(tmp_path, 300_001, b"m").instants(None, None)


def test_large_metadata_that_repeats_is_read_without_being_unpacked(tmp_path):
    # Unpacked it would be 20 GiB.
    assert history(tmp_path, 20_000, b"x" * (1 << 20)).metadata(TIME) == b"x" * (1 << 20)


def test_an_empty_cell_is_none(tmp_path):
    assert history(tmp_path, 2, b"m").plan(TIME) is None
