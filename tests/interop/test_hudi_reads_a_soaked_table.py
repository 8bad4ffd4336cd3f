"""Real Hudi after a soak: the table that many worked on at once holds what it must."""

from __future__ import annotations

from tests.interop.hudi_judge import HudiJudge
from tests.soak.judging import Past, Told, leftovers
from tests.soak.running import Goals, Running
from tests.soak.stage import Stage
from tests.support.history import CONDITIONS
from tests.support.write_shapes import Shape

LEAST = {"commit": 14, "compaction": 1, "clustering": 1, "clean": 1}


def test_hudi_finds_the_rows_of_a_table_that_is_still_full_of_log_files(spark, tmp_path):
    shape = Shape("mor", "GLOBAL_RECORD_LEVEL_INDEX", "simple")
    stage = Stage(shape, str(tmp_path), seed=2)
    Running(stage, Goals(LEAST, commits_a_kill=7)).run()
    told = Told.by(stage)
    assert not told.troubles, "\n".join(each.trace for each in told.troubles)
    model = Past(stage, told).model()
    judge = HudiJudge(spark, stage.path, shape)
    judge.assert_reads(model)
    for condition, test in CONDITIONS:
        judge.assert_reads(model, condition, test)
    judge.assert_metadata_is_valid(model)
    assert not [each for each in leftovers(stage.path) if each.startswith("left: ")]
