"""What the page of the bucket index shows runs as it stands: Python and the command line."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from lakedex.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "indexes" / "bucket.md"


def test_the_page_of_the_bucket_index_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|shell)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    known: dict[str, object] = {}
    commands = 0
    for number, (kind, text) in enumerate(blocks):
        if kind == "python":
            exec(compile(text, f"{PAGE.name}, block {number}", "exec"), known)
            continue
        for line in text.splitlines():
            words = line.partition("#")[0].split()
            if "trips" in words:
                continue  # the table of Spark: tests/spark/test_bucket_tables.py
            result = CliRunner().invoke(app, words[1:], prog_name="lakedex")
            assert result.exit_code == 0, (line, result.output)
            commands += 1
            if line.endswith("=40000"):
                shown = result.stdout
    assert commands == 4
    assert "2 keys asked, in 2 of 4 buckets" in capsys.readouterr().out
    assert "S" * 80 in shown
    assert shown.splitlines()[0] in PAGE.read_text(encoding="utf-8")
