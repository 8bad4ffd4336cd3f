"""`lakedex verify`: exit code 0 when indexes agree with the data, 1 when one does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path


def test_a_good_table_is_exit_code_0(golden, lakedex):
    table = golden("cow_trips_all_indexes")
    result = lakedex("verify", table.path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "every index agrees with the data"


def test_only_the_named_index_is_checked(golden, lakedex):
    table = golden("cow_trips_all_indexes")
    result = lakedex("verify", table.path, "--index", "record_index", "--json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["ok"], answer["problems"]) == (0, True, [])
    assert answer["checked"]["record_index"] == 48


def test_an_index_that_hudi_left_stale_is_exit_code_1(golden, lakedex):
    table = golden("two_secondary_mor")
    result = lakedex("verify", table.path, "--json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["ok"]) == (1, False)
    assert "secondary_index_idx_rider" in {each["index"] for each in answer["problems"]}
    printed = lakedex("verify", table.path)
    assert printed.exit_code == 1
    assert "secondary_index_idx_rider" in printed.stdout
    assert "problems" in printed.stdout.splitlines()[-1]


def test_an_unknown_index_is_one_line_and_exit_code_2(golden, lakedex):
    result = lakedex("verify", golden("cow_trips_all_indexes").path, "--index", "nope")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "nope" in result.stderr


def test_a_repair_takes_the_time_zone_that_an_index_of_hudi_needs(damage, lakedex):
    """Hudi does not store the time zone of `idx_datestr`, and the option is the only way to it."""
    path = str(damage("cow_trips_all_indexes").path)
    before = lakedex("read", path, "--format", "json").stdout
    shutil.rmtree(Path(path, ".hoodie/metadata"))
    found = lakedex("verify", path)
    assert (found.exit_code, found.stdout.splitlines()[-1]) == (1, "1 problem")
    option = "lakedex.expression.time.zone"
    refused = lakedex("repair", path)
    assert refused.exit_code == 2
    assert f"give that of the sessions that wrote it as the option {option}" in refused.stderr
    unknown = lakedex("repair", path, "--option", f"{option}=Mars/Olympus")
    assert (unknown.exit_code, "'Mars/Olympus'" in unknown.stderr) == (2, True), unknown.stderr
    done = lakedex("repair", path, "--option", f"{option}=UTC")
    assert done.exit_code == 0, done.stderr
    assert lakedex("verify", path).exit_code == 0
    assert lakedex("read", path, "--format", "json").stdout == before
    refresh = lakedex("index", "refresh", path, "idx_datestr", "--option", f"{option}=UTC")
    assert refresh.exit_code == 0, refresh.stderr
