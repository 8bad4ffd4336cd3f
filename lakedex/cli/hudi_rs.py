"""A second opinion on a table: do the rows that hudi-rs reads have the same keys as ours?

hudi-rs runs in a process of its own, as it ends a process with a panic where it meets something
that it does not know.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lakedex.api import Table
from lakedex.filegroup.context import RECORD_KEY

_LONGEST_WAIT_SECONDS = 60
_CHILD = """
import json, sys
import hudi, pyarrow
path, options, key = json.load(sys.stdin)
builder = hudi.HudiTableBuilder.from_base_uri(path)
table = builder.with_storage_options(options).build() if options else builder.build()
keys = [pyarrow.array(batch.column(key)).to_pylist() for batch in table.read()]
json.dump(sorted(key for part in keys for key in part), sys.stdout)
"""


def ask_hudi_rs(table: Table, path: str, options: Mapping[str, str]) -> dict[str, Any]:
    """How many rows hudi-rs reads, and whether they have the record keys that lakedex reads.

    `installed` says whether it could be asked; `problem` why it gave no answer. What it says
    about its problem is not repeated: it may quote the options of the store.
    """
    if find_spec("hudi") is None or RECORD_KEY not in table.schema.names:
        return {"installed": find_spec("hudi") is not None}
    # hudi-rs takes no path that begins where the process happens to be.
    place = str(Path(path).absolute()) if Path(path).is_dir() else path
    question = json.dumps([place, dict(options), RECORD_KEY])
    command = [sys.executable, "-c", _CHILD]
    try:
        child = subprocess.run(
            command,
            input=question,
            capture_output=True,
            text=True,
            timeout=_LONGEST_WAIT_SECONDS,
            check=True,
        )
        theirs = json.loads(child.stdout)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        return {"installed": True, "problem": type(error).__name__}
    ours = sorted(table.to_arrow(columns=[RECORD_KEY])[RECORD_KEY].to_pylist())
    return {"installed": True, "rows": len(theirs), "same_keys": theirs == ours}
