"""A folder before each partition, chosen by a hash of its path.

Object stores share their work out by the beginning of names: partitions that begin alike, as days
do, are then on one share. The path itself stays behind the folder, so that it is read as ever.
Folders of other roots stand before those.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa

from lakedex.keys.distinct import by_distinct
from lakedex.storage.roots import FOLDER_START


def with_hashed_folders(paths: pa.Array, folders: int) -> pa.Array:
    """Partition paths with the folders that belong before them.

    Example:
        >>> with_hashed_folders(pa.array(["org_id=1", "org_id=2"]), 256).to_pylist()
        ['90/org_id=1', '4e/org_id=2']
    """
    return by_distinct(
        paths, lambda found: pa.array([_hashed(path, folders) for path in found.to_pylist()])
    )


def without_hashed_folder(path: str, folders: int) -> str:
    """The path behind its folder; a path that is not behind the right one as it is.

    Example:
        >>> without_hashed_folder("90/org_id=1", 256), without_hashed_folder("ff/org_id=1", 256)
        ('org_id=1', 'ff/org_id=1')
    """
    _, _, rest = path.partition("/")
    return rest if rest and _hashed(rest, folders) == path else path


def with_roots(paths: pa.Array, roots: int) -> pa.Array:
    """Partition paths below the roots that they belong to, each one below one of them.

    Example:
        >>> with_roots(pa.array(["org_id=1", "org_id=2"]), 3).to_pylist()
        ['lakedex-root-0/org_id=1', 'lakedex-root-1/org_id=2']
    """
    return by_distinct(
        paths,
        lambda found: pa.array(
            [f"{FOLDER_START}{_number(path) % roots}/{path}" for path in found.to_pylist()]
        ),
    )


def without_root(path: str) -> str:
    """The path below its root, whichever that is.

    Example:
        >>> without_root("lakedex-root-1/org_id=1"), without_root("org_id=1")
        ('org_id=1', 'org_id=1')
    """
    first, _, rest = path.partition("/")
    return rest if rest and first.startswith(FOLDER_START) else path


def _number(path: str) -> int:
    return int.from_bytes(hashlib.blake2b(path.encode(), digest_size=8).digest(), "big")


def _hashed(path: str, folders: int) -> str:
    number = _number(path)
    digits = len(f"{folders - 1:x}")
    return f"{number % folders:0{digits}x}/{path}"
