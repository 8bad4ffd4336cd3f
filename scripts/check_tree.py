"""Check what no linter sees in the files that git knows or would take up.

No Python file is longer than 800 lines, and no file names a folder of one machine, because a clone
must stand alone. Real tables under `tests/golden/` keep the base path they were written under.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 800
MACHINE_PATH = re.compile(r"(?<![\w.*}:/-])/(?:work|tmp|root|home|Users)/\w[\w./-]*")
KEPT_AS_WRITTEN = "tests/golden/"


def main() -> int:
    """Print every problem of every file; the exit code says whether there was one."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    paths = sorted(set(listing.decode("utf-8").split("\0")) - {""})
    present = [path for path in paths if (ROOT / path).is_file()]
    problems = [
        f"{path}{what}"
        for path in present
        if not path.startswith(KEPT_AS_WRITTEN)
        for what in problems_of(path, (ROOT / path).read_bytes())
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(present)} files are as they should be")
    return 1 if problems else 0


def problems_of(path: str, data: bytes) -> list[str]:
    """What is wrong with one file; binary files are taken as they are."""
    if b"\0" in data:
        return []
    lines = data.decode("utf-8", errors="replace").splitlines()
    problems = [
        f":{number}: names a path of one machine: {found.group()}"
        for number, line in enumerate(lines, start=1)
        if (found := MACHINE_PATH.search(line))
    ]
    if path.endswith(".py") and len(lines) > MAX_LINES:
        problems.append(f": {len(lines)} lines, {MAX_LINES} are allowed")
    return problems


if __name__ == "__main__":
    sys.exit(main())
