"""Writers, readers and services at once on one table, for a bounded amount of work."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from hudi import HudiTable

import lakedex
from tests.soak.judging import (
    Past,
    Told,
    come_to_rest,
    leftovers,
    listing_differences,
    rows_now,
    services_done,
)
from tests.soak.running import Goals, Running
from tests.soak.stage import Stage
from tests.support.row_model import differences, rows_in
from tests.support.write_shapes import Shape

SECONDS = float(os.environ.get("LAKEDEX_SOAK", "0"))
SEED = int(os.environ.get("LAKEDEX_SEED", "1"))
SHAPES = (
    Shape("mor", "GLOBAL_RECORD_LEVEL_INDEX", "simple"),
    Shape("cow", "GLOBAL_RECORD_LEVEL_INDEX", "simple"),
)
LEAST = {
    "mor": {"commit": 100, "compaction": 3, "clustering": 2, "index": 1},
    "cow": {"commit": 30, "clustering": 1, "index": 1},
}
ALWAYS = {"read": 40, "clean": 2, "archive": 1, "savepoint": 1}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_read_is_a_completed_state_and_nothing_is_lost(tmp_path, shape, capsys):
    stage = Stage(shape, str(tmp_path), SEED)
    running = Running(stage, Goals(LEAST[shape.table_type] | ALWAYS, SECONDS / len(SHAPES)))
    found = running.run()
    with capsys.disabled():
        print(f"\nsoak of {shape}: {dict(found)}, {running.kills} killed")
    told = Told.by(stage)
    assert not told.troubles, "\n".join(each.trace for each in told.troubles)
    past = Past(stage, told)
    past.check(told.reads)
    come_to_rest(stage)
    expected = past.model().answers(shape.schema.names)
    assert not differences(rows_now(stage), expected)
    assert not listing_differences(stage.path)
    assert not leftovers(stage.path)
    report = lakedex.open(stage.path).verify()
    assert report.ok, report
    done = services_done(stage)
    with capsys.disabled():
        print(f"on its timeline: {dict(done)}")
    assert len(past) >= LEAST[shape.table_type]["commit"]
    assert done["COMPACT"] >= LEAST[shape.table_type].get("compaction", 0)
    assert done["CLUSTER"] >= LEAST[shape.table_type]["clustering"]
    assert done["clean"] >= ALWAYS["clean"]
    assert done["archived"] > 0
    by_hudi_rs = pa.Table.from_batches([pa.record_batch(b) for b in HudiTable(stage.path).read()])
    assert not differences(rows_in(by_hudi_rs, shape.schema.names), expected)
