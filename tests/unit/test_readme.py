"""The README's code runs as it stands, on a table that real Hudi wrote."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_twenty_lines_of_the_readme_run(golden, tmp_path, monkeypatch, capsys):
    block = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    shutil.copytree(golden("cow_trips_all_indexes").path, tmp_path / "trips")
    monkeypatch.chdir(tmp_path)
    exec(compile(block.group(1), "README.md", "exec"), {})
    assert "record_index" in capsys.readouterr().out
    assert len([line for line in block.group(1).splitlines() if line.strip()]) <= 20
