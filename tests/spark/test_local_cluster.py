"""Two executors, processes of their own, whose Python has pyarrow and numpy but not lakedex."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import lakedex
from tests.spark.conftest import FOLDER, ROOT

ROWS = 3000


def test_executors_write_with_the_package_that_is_sent_to_them(tmp_path, executor_python):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(FOLDER / "cluster_program.py"), str(tmp_path), executor_python],
        capture_output=True,
        text=True,
        env=environment,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    for path, *others in told["modules"]:
        assert ".zip" in path
        assert others == []
    deleted = {str(n) for n in range(ROWS) if str(n) < "2"}
    expected = {str(n): 2 if n >= ROWS - 500 else 1 for n in range(ROWS + 500)}
    expected = {key: value for key, value in expected.items() if key not in deleted}
    expected = {key: v for key, v in expected.items() if v == 1 or int(key) % 3}
    assert (told["loaded"], told["inserted"], told["updated"]) == (ROWS, 500, 500)
    assert told["rows"] == len(expected)
    assert (told["streamed"], told["joined"]) == (len(expected), len(expected))
    assert told["newer"] == sum(v for key, v in expected.items() if v > 1 and key > "3")
    assert (told["one"], told["files"]) == ([expected["2999"]], 1)
    assert "id" in told["refused"]
    assert told["problems"] == []
    rows = lakedex.open(tmp_path / "mor").to_arrow(columns=["id", "v"]).to_pylist()
    assert {row["id"]: row["v"] for row in rows} == expected
