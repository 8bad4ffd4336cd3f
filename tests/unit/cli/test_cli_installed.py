"""The package as users have it: built, installed, far from a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import lakedex

ROOT = Path(__file__).parents[3]


def run(*command: object, folder: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(each) for each in command]
    done = subprocess.run(words, cwd=folder, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def installed(tmp_path: Path) -> Path:
    """The Python of an environment with the wheel, beside the dependencies that are here."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, folder=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=False)
    (site,) = (tmp_path / "env" / "lib").glob("*/site-packages")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return tmp_path / "env" / "bin" / "python"


def test_the_demo_runs_from_the_wheel_in_an_empty_folder(tmp_path):
    python, empty = installed(tmp_path), tmp_path / "empty"
    empty.mkdir()
    home = run(python, "-c", "import lakedex; print(lakedex.__file__)", folder=empty)
    assert str(tmp_path) in home, "another lakedex is shown"
    shown = run(python, "-m", "lakedex", "demo", "--no-spark", "--keep", ".", folder=empty)
    assert "every query found the same rows" in shown
    assert [each.name for each in empty.iterdir()] == ["cow_trips"]
    assert lakedex.open(empty / "cow_trips").to_arrow().num_rows == 48
    code = "import lakedex, lakedex.api, lakedex.cli.demo; print(*dir(lakedex))"
    names = run(python, "-c", code, folder=empty).split()
    assert names == sorted([*lakedex.__all__, "__version__"])


def test_the_module_shows_its_public_names():
    assert dir(lakedex) == sorted([*lakedex.__all__, "__version__"])
