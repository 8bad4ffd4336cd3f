"""A folder before each partition, chosen by a hash of its path.

Object stores share their work out by the beginning of names: partitions that begin alike, as days
do, are then on one share. The path itself stays behind the folder, so that it is read as ever.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa

from lakedex.keys.distinct import by_distinct


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


def _hashed(path: str, folders: int) -> str:
    number = int.from_bytes(hashlib.blake2b(path.encode(), digest_size=8).digest(), "big")
    digits = len(f"{folders - 1:x}")
    return f"{number % folders:0{digits}x}/{path}"
