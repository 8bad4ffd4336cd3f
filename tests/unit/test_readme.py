"""The README's code that needs no Spark runs as it stands, on a table that real Hudi wrote."""

from __future__ import annotations

import shutil

import lakedex
from tests.support.readme import README, python_blocks


def test_reading_without_spark_works_as_the_readme_says(golden, tmp_path, monkeypatch, capsys):
    (block,) = python_blocks("Without Spark")
    shutil.copytree(golden("cow_trips_all_indexes").path, tmp_path / "cow_trips")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert "record_index" in capsys.readouterr().out
    assert block.rstrip().splitlines()[-1].startswith("assert ")


def test_writing_without_spark_works_as_its_page_says(tmp_path, monkeypatch, capsys):
    (block,) = python_blocks("Without Spark", README.parent / "docs" / "writing.md")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "writing.md", "exec"), {})
    assert "1 inserted" in capsys.readouterr().out
    assert lakedex.open("rides").to_arrow(columns=["id", "fare"]).to_pylist() == [
        {"id": "a", "fare": 19.1}
    ]
