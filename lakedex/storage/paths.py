"""The check that every path passes: relative, '/'-separated, inside its root.

A path names a file below a storage's root. Containment is structural: a path without empty, '.'
or '..' segments, joined to a root, cannot name anything outside it. Other paths are rejected and
not corrected, because a corrected path names another file than the writer meant. A segment may
contain spaces, '=', '%', ':' and any printable Unicode, as partition values do.
"""

from __future__ import annotations

import re

from lakedex.errors import UnsafePath

TEMP_PREFIX = ".lakedex-"
TEMP_SUFFIX = ".tmp"


def normalise(path: str) -> str:
    """Return the path if it is safe, else raise `UnsafePath`.

    Example:
        >>> normalise("city=São Paulo/a%20b.parquet")
        'city=São Paulo/a%20b.parquet'
        >>> normalise("../other_table/a.parquet")
        Traceback (most recent call last):
        lakedex.errors.UnsafePath: unsafe path '../other_table/a.parquet': segment '..'
    """
    problem = _problem(path)
    if problem is not None:
        raise UnsafePath(f"unsafe path {_shown(path)}: {problem}")
    return path


def normalise_folder(prefix: str) -> str:
    """Like `normalise`, but '' means the root, and one trailing '/' is removed.

    Example:
        >>> normalise_folder(""), normalise_folder(".hoodie/timeline/")
        ('', '.hoodie/timeline')
    """
    if prefix == "":
        return ""
    return normalise(prefix.removesuffix("/"))


def join(*parts: str) -> str:
    """Join the parts that are not empty with '/', and check the result.

    Example:
        >>> join("", "city=Oslo", "a.parquet")
        'city=Oslo/a.parquet'
    """
    return normalise("/".join(part for part in parts if part != ""))


def split(path: str) -> tuple[str, str]:
    """Split a path into its folder ('' for the root) and its name.

    Example:
        >>> split("a/b/c"), split("c")
        (('a/b', 'c'), ('', 'c'))
    """
    folder, _, name = path.rpartition("/")
    return folder, name


def is_side_file(name: str) -> bool:
    """Whether a file is not part of the table.

    Side files are Hadoop's checksums, folder placeholders of old S3 clients, and temporary files
    of lakedex that a killed writer left.

    Example:
        >>> is_side_file(".hoodie.properties.crc"), is_side_file("hoodie.properties")
        (True, False)
    """
    if name.startswith("."):
        return name.endswith(".crc") or is_temp_file(name)
    return name.endswith("_$folder$")


def is_temp_file(name: str) -> bool:
    """Whether a file name is that of an unpublished file of lakedex.

    Example:
        >>> is_temp_file(".lakedex-0123456789abcdef.tmp"), is_temp_file("a.parquet")
        (True, False)
    """
    return name.startswith(TEMP_PREFIX) and name.endswith(TEMP_SUFFIX)


_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\\\\\u2028\u2029\ud800-\udfff]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/")
_SHOWN_CHARACTERS = 200


def _problem(path: str) -> str | None:
    if path == "":
        return "it is empty"
    if path.startswith("/"):
        return "it is absolute"
    if _SCHEME.match(path):
        return "it has a scheme"
    forbidden = _FORBIDDEN.search(path)
    if forbidden:
        return f"character {forbidden.group()!a}"
    for segment in path.split("/"):
        if segment == "":
            return "an empty segment"
        if segment in {".", ".."}:
            return f"segment '{segment}'"
    return None


def _shown(path: str) -> str:
    if len(path) <= _SHOWN_CHARACTERS:
        return repr(path)
    return f"{path[:_SHOWN_CHARACTERS]!r}..."


def is_remote(root: str) -> bool:
    """Whether the root of a storage is on an object store, where every request has latency.

    Example:
        >>> is_remote("/data/trips"), is_remote("s3://bucket/trips")
        (False, True)
    """
    return not root.startswith("/")
