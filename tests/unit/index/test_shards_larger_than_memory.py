"""Compaction and lookups of a shard ten times larger than the process may hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.support import shard_in_little_memory as shards

HOLDS = 44 << 20
VALUES = 232_000
CHANGED = 20


def test_a_shard_is_compacted_and_looked_up_block_by_block(tmp_path):
    large, small = tmp_path / "large", tmp_path / "small"
    shards.make(large, VALUES, CHANGED)
    shards.make(small, 20_000, CHANGED)
    assert len(shards.key(0, 0)) * VALUES > 10 * HOLDS
    command = [sys.executable, shards.__file__, str(large), str(small), str(HOLDS)]
    settings = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    settings |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    settings |= {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout)
    assert answer["records"] == VALUES
    expected = ["000000$k0", "000001$k1", f"000020$k{VALUES + 20}", "000040$k40"]
    assert answer["before"] == answer["after"] == {"count": VALUES, "keys": expected}
