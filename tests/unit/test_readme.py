"""The README's code that needs no Spark runs as it stands, on a table that real Hudi wrote."""

from __future__ import annotations

import shutil

from tests.support.readme import python_blocks


def test_reading_without_spark_works_as_the_readme_says(golden, tmp_path, monkeypatch, capsys):
    (block,) = python_blocks("Without Spark")
    shutil.copytree(golden("cow_trips_all_indexes").path, tmp_path / "cow_trips")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert "record_index" in capsys.readouterr().out
    assert block.rstrip().splitlines()[-1].startswith("assert ")
