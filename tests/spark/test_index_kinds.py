"""Index kinds by SQL, on executors that have neither lakedex nor the package of the kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.spark.conftest import FOLDER, ROOT
from tests.spark.kinds_program import DOMAIN, KINDS, PART


def test_user_defined_kinds_live_on_a_cluster(tmp_path, executor_python):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(FOLDER / "kinds_program.py"), str(tmp_path), executor_python],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    rows = [
        {each: found["found"][each]["rows"] for each in found["found"]} for found in told["seen"]
    ]
    # The index folds case, the condition does not: addresses are written `@D7.org`.
    assert rows[0] == {DOMAIN: [], PART: [17]}
    assert rows[1] == {DOMAIN: [8, 9], PART: []}
    assert rows[2] == rows[1]
    assert rows[3] == {DOMAIN: [8, 9], PART: [5]}
    for found in told["seen"]:
        assert found["problems"] == []
        for query, kind in ((DOMAIN, KINDS[0]), (PART, KINDS[1])):
            assert found["found"][query]["kinds"] == [kind], found
    assert told["kinds"] == list(KINDS)
    assert not [each for each in told["left"] if "by_domain" in each or "grams" in each]
