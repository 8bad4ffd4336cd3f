"""A kind of index is its own folder and a line of the registry: the rest works without it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
REGISTRY = "lakedex/index/registry.py"
FOLDER = "lakedex/index/kinds/ngram"
NAME = re.compile("ngram", re.IGNORECASE)
# The gate runs what is nearest to kinds; LAKEDEX_JUDGES=all runs all unit tests.
NEAREST = (
    "tests/unit/index",
    "tests/unit/test_api_inputs.py",
    "tests/unit/prune/test_switched_off.py",
)


def test_nothing_else_in_the_package_names_the_kind():
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "lakedex").rglob("*.py")
        if NAME.search(path.read_text(encoding="utf-8"))
    }
    assert {each for each in naming if not each.startswith(FOLDER)} == {REGISTRY}
    lines = (ROOT / REGISTRY).read_text(encoding="utf-8").splitlines()
    # The import, and the entry in the list.
    assert len([line for line in lines if NAME.search(line)]) == 2


def test_everything_else_works_without_the_kind(tmp_path):
    for name in ("lakedex", "tests", "docs", "bench", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.glob("*.*"):
        if path.is_file():
            shutil.copy(path, tmp_path)
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.rmtree(tmp_path / FOLDER)
    registry = tmp_path / REGISTRY
    lines = registry.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not NAME.search(line)]
    registry.write_text("".join(kept), encoding="utf-8")
    (tmp_path / "tests/unit/index/test_ngram.py").unlink()
    (tmp_path / "tests/unit/index" / Path(__file__).name).unlink()
    chosen = ("tests/unit",) if os.environ.get("LAKEDEX_JUDGES") == "all" else NEAREST
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
