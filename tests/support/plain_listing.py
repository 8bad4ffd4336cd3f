"""A table as its folders show it, to somebody who has neither lakedex nor the metadata table.

Of lakedex only the reader of commit metadata is used, to hear which files commits name.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from lakedex.storage import open_storage
from lakedex.timeline import Timeline, load_table_config

_ACTIONS = (".commit", ".deltacommit", ".replacecommit")
_METAFILE = ".hoodie_partition_metadata"
# Where a write keeps what is gone when it has ended.
_PASSING = (".hoodie/.temp", ".hoodie/.heartbeat", ".hoodie/.lakedex/writers")
_SPILL = ".hoodie/.lakedex/spill"


def files_below(root: Path, folder: str = "") -> set[str]:
    """All files below a folder, hidden ones too, relative to the root."""
    found = (root / folder).rglob("*")
    return {path.relative_to(root).as_posix() for path in found if path.is_file()}


def data_files(root: Path) -> set[str]:
    """All files outside of `.hoodie`, partition metafiles left aside."""
    return {
        path
        for path in files_below(root)
        if not path.startswith(".hoodie/") and not path.endswith(_METAFILE)
    }


def strays(root: Path) -> list[str]:
    """Files that no completed commit names, in the table and in its metadata table; and markers.

    For tables whose files were never cleaned: a file that a commit names and that is not there is
    told too.
    """
    found = sorted(_unnamed(root))
    metadata = root / ".hoodie" / "metadata"
    if metadata.is_dir():
        found += [f".hoodie/metadata/{path}" for path in sorted(_unnamed(metadata))]
    for folder in _PASSING:
        found += sorted(files_below(root, folder))
    return found


def spilled(root: Path) -> list[str]:
    """Spill files that are still there."""
    return sorted(files_below(root, _SPILL))


def newest_base_files(root: Path) -> list[Path]:
    """The newest committed base file of every file group.

    That is a copy-on-write table as an engine sees it that lists folders, as long as no file group
    was replaced.
    """
    times = {
        path.name.partition("_")[0]
        for path in (root / ".hoodie" / "timeline").iterdir()
        if path.name.endswith(_ACTIONS)
    }
    newest: dict[tuple[str, str], tuple[str, Path]] = {}
    for path in root.rglob("*.parquet"):
        if ".hoodie" in path.relative_to(root).parts:
            continue
        file_id, _, time = path.stem.split("_")
        group = path.parent.as_posix(), file_id
        if time in times and newest.get(group, ("", path))[0] < time:
            newest[group] = time, path
    return [path for _, path in newest.values()]


def count_of_newest_base_files(root: Path) -> int:
    """`count(*)` by these files."""
    return sum(pq.read_metadata(path).num_rows for path in newest_base_files(root))


def _unnamed(root: Path) -> set[str]:
    storage = open_storage(str(root))
    timeline = Timeline.load(storage, load_table_config(storage))
    named: set[str] = set()
    for instant in timeline.between(None):
        for stat in timeline.commit_metadata(instant).stats():
            folder = f"{stat.partition_path}/" if stat.partition_path else ""
            names = stat.log_files or (str(stat.path).rpartition("/")[2],)
            named.update(folder + name for name in names)
    return named ^ data_files(root)
