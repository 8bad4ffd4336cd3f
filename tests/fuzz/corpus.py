"""Real bytes to start from: files of the golden tables."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"


@cache
def golden_files(
    pattern: str, tables: str = "*", *, most: int = 4, max_bytes: int = 40_000
) -> list[bytes]:
    """Different files whose path fits the pattern, at most so many of a table, small ones first."""
    found: dict[bytes, None] = {}
    for archive_path in sorted(GOLDEN.glob(f"{tables}.zip")):
        with zipfile.ZipFile(archive_path) as archive:
            fitting = [
                info
                for info in archive.infolist()
                if fnmatch(info.filename, pattern) and 0 < info.file_size <= max_bytes
            ]
            fitting.sort(key=lambda info: (info.file_size, info.filename))
            step = max(1, len(fitting) // most)
            for info in fitting[::step][:most]:
                found[archive.read(info)] = None
    if not found:
        raise LookupError(f"no golden file fits {pattern!r} in {tables!r}")
    return list(found)


def scratch_folder() -> Path:
    """A new folder that is gone when the process ends by itself."""
    folder = Path(tempfile.mkdtemp(prefix="lakedex-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def extract(table: str, folder: Path) -> Path:
    """Unpack a golden table and give its base folder."""
    with zipfile.ZipFile(GOLDEN / f"{table}.zip") as archive:
        archive.extractall(folder)
        top = archive.namelist()[0].split("/", 1)[0]
    return folder / top
