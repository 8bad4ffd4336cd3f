"""`lakedex compact`: plans, runs, and says in one line what came of it."""

from __future__ import annotations

import json

import lakedex as house
from lakedex.storage.open import StorageAddress
from tests.support.compactions import assert_all_agree, begin, logged
from tests.support.history import writer_of
from tests.support.write_shapes import Shape

MOR = Shape("mor", "BLOOM", "simple")


def test_a_plan_is_made_and_run_and_the_rest_is_compacted(tmp_path, lakedex):
    path = str(tmp_path / "t")
    history = begin(MOR, path, rows=24)
    planned = json.loads(lakedex("compact", path, "--schedule", "--json").stdout)
    assert planned["scheduled_only"]
    assert house.open(path).timeline.is_pending(planned["instant"])
    done = lakedex("compact", path, "--instant", planned["instant"])
    assert done.stdout.startswith(f"COMPACT {planned['instant']}: ")
    assert house.open(path).timeline.is_completed(planned["instant"])
    history.apply(logged(history)).write(MOR, writer_of(StorageAddress.of(path)))
    option = "hoodie.compaction.strategy=UnBoundedCompactionStrategy"
    again = json.loads(lakedex("compact", path, "--option", option, "--json").stdout)
    assert again["files"] > 0
    assert lakedex("compact", path).stdout == "there is nothing to compact\n"
    assert_all_agree(path, history)


def test_what_is_wrong_is_one_line_and_exit_code_2(golden, lakedex):
    table = golden("cow_nonpartitioned").path
    for arguments, said in (
        ((table,), "copy-on-write"),
        ((table, "--schedule", "--instant", "20260101000000000"), "not both"),
        ((table, "--option", "nonsense"), "KEY=VALUE"),
        ((table, "--option", "hoodie.compaction.strategi=x"), "hoodie.compaction.strategy"),
    ):
        result = lakedex("compact", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.count("\n") == 1
        assert said in result.stderr
