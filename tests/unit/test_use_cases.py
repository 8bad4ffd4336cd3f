"""The use cases of RFC-63 run as their page says, and read as few files as it says."""

from __future__ import annotations

import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "expression-use-cases.md"


def test_the_page_of_use_cases_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "mkdtemp", lambda: str(tmp_path))
    fenced = PAGE.read_text(encoding="utf-8").split("```")[1::2]
    blocks = [text.removeprefix("python\n") for text in fenced if text.startswith("python\n")]
    known: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), known)
    assert sum(block.count("assert ") for block in blocks) >= 14
