"""What workers import of transactions needs nothing that is not on executors."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
sys.modules.update(dict.fromkeys(("fastavro", "xxhash", "obstore", "isal", "rich")))
import lakedex.txn.markers, lakedex.txn.working_folders
"""


def test_markers_load_with_pyarrow_and_numpy_alone() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True)
