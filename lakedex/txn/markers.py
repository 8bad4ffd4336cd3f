"""Markers: a note of each data file, made before the file, so that a rollback finds it.

    .hoodie/.temp/<T>/<partition>/<data file name>.marker.<CREATE|MERGE|APPEND>      (empty)

That is Hudi's DIRECT form, which has no `MARKERS.type` file. The JVM by default lets its timeline
server write lists of the same names, `.hoodie/.temp/<T>/MARKERS<n>`, which are read here too.
"""

from __future__ import annotations

import logging
import re
from enum import Enum

from lakedex.errors import AlreadyExists, CorruptFile, FileMissing, UnsafePath
from lakedex.filegroup.names import LogFile, parse_data_file
from lakedex.format.logfile import BlockKind, read_blocks
from lakedex.storage.paths import normalise, split
from lakedex.storage.protocol import Storage
from lakedex.txn.working_folders import marker_folder

_MARKER = re.compile(r"(.+)\.marker\.(?:CREATE|MERGE|APPEND)", re.DOTALL)
_LIST = re.compile(r"MARKERS[0-9]+")
_META_FOLDER = ".hoodie"
_log = logging.getLogger("lakedex")


class MarkerKind(Enum):
    """What is done to the file: made anew, or made from an older version of its group.

    Log files have CREATE, as each deltacommit makes its own.
    """

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


def marker_path(instant: str, data_path: str, kind: MarkerKind) -> str:
    """Where the note of a data file lies.

    Example:
        >>> marker_path("20261115183005287", "p=1/f.parquet", MarkerKind.CREATE)
        '.hoodie/.temp/20261115183005287/p=1/f.parquet.marker.CREATE'
    """
    return f"{marker_folder(instant)}/{data_path}.marker.{kind.value}"


def create_marker(storage: Storage, instant: str, data_path: str, kind: MarkerKind) -> None:
    """Note a data file, before it is written; noting it twice is fine."""
    try:
        storage.create(marker_path(instant, data_path, kind), b"")
    except AlreadyExists:
        return


def marked_files(storage: Storage, instant: str) -> tuple[str, ...]:
    """The data files that an instant may have written, relative to the table, sorted.

    Only data files of this instant are believed, by their names or by what is in them: what stands
    in a marker is deleted.
    """
    folder = f"{marker_folder(instant)}/"
    noted: set[str] = set()
    for info in storage.list_recursive(marker_folder(instant)):
        name = info.path.removeprefix(folder)
        noted.update(_listed(storage, info.path) if _LIST.fullmatch(name) else [name])
    files = set()
    for marker in noted:
        found = _MARKER.fullmatch(marker)
        if found is not None and is_written_by(storage, found.group(1), instant):
            files.add(found.group(1))
        elif marker != "MARKERS.type":
            _log.warning("passing over the marker %r of %s", marker[:200], instant)
    return tuple(sorted(files))


def is_file_of(path: str, instant: str) -> bool:
    """Whether a path is a data file of an instant, inside the table and outside its `.hoodie`.

    Example:
        >>> is_file_of("p=1/f-0_0-0-0_20261115183005287.parquet", "20261115183005287")
        True
        >>> is_file_of("../f-0_0-0-0_20261115183005287.parquet", "20261115183005287")
        False
    """
    try:
        folder, name = split(normalise(path))
    except UnsafePath:
        return False
    if folder.partition("/")[0] == _META_FOLDER:
        return False
    parsed = parse_data_file(name, 0)
    return parsed is not None and parsed.instant_time == instant


def is_log_file(path: str) -> bool:
    """Whether a path is a log file of the table, of whatever instant."""
    try:
        folder, name = split(normalise(path))
    except UnsafePath:
        return False
    is_inside = folder.partition("/")[0] != _META_FOLDER
    return is_inside and isinstance(parse_data_file(name, 0), LogFile)


def is_written_by(storage: Storage, path: str, instant: str) -> bool:
    """Whether a path is a data file of an instant by its name, or a log file by what is in it.

    A write beside a resize of buckets gives log files to the new buckets too. In their names they
    have the instant of the resize, and their blocks that of the write.
    """
    if is_file_of(path, instant):
        return True
    if not is_log_file(path):
        return False
    try:
        blocks = read_blocks(storage.source(path, storage.size(path)))
    except (FileMissing, CorruptFile):
        return False
    whole = [block for block in blocks if block.kind is not BlockKind.CORRUPT]
    return bool(whole) and all(block.instant_time == instant for block in whole)


def _listed(storage: Storage, path: str) -> list[str]:
    try:
        text = storage.read(path).decode("utf-8", "replace")
    except FileMissing:
        return []
    return [line for line in text.split("\n") if line]
