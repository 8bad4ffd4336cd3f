"""Folder and file names that properties may set, kept inside the table.

Whoever can write `hoodie.properties` must not be able to point the reader at another place, so
a path from a property is relative, has no `.`, `..` or empty part, and no scheme.
"""

from __future__ import annotations

from lakedex.errors import UnsafePath


def inside_table(value: str, *, key: str) -> str:
    """The path as it is when it stays inside the table.

    Example:
        >>> inside_table(".hoodie/.index_defs/index.json", key="hoodie.table.index.defs.path")
        '.hoodie/.index_defs/index.json'

    Raises:
        UnsafePath: the path is empty, absolute, has a scheme, or climbs.
    """
    path = value.strip()
    parts = path.split("/")
    unsafe = any(part in ("", ".", "..") for part in parts) or any(
        char in path for char in ("\\", "\0")
    )
    if unsafe or ":" in parts[0]:
        raise UnsafePath(f"{key}={value[:200]!r} does not name a place inside the table")
    return path
