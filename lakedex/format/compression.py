"""Gzip with hard limits: the sizes in a file are checked before memory is allocated for them.

`isal` is used if it is installed (about three times faster to inflate, four times to deflate),
otherwise the standard library's `zlib`. Both read and write the same format.
"""

from __future__ import annotations

import zlib
from typing import Any

from lakedex.errors import CorruptFile

_igzip: Any
_isal: Any
try:
    from isal import igzip_lib as _igzip
    from isal import isal_zlib as _isal
except ImportError:  # there is no wheel of isal for every platform
    _igzip = _isal = None

MAX_INFLATED_BYTES = 96 * 1024 * 1024
"""The size of the largest block that is inflated."""

MAX_DEFLATE_RATIO = 1032
"""The greatest compression ratio of deflate; a larger claim is false."""

_GZIP_WINDOW = 31
_ERRORS: tuple[type[Exception], ...] = (
    (zlib.error, EOFError) if _igzip is None else (zlib.error, EOFError, _igzip.IsalError)
)


def gzip(data: bytes | memoryview, *, level: int = 1) -> bytes:
    """Compress `data` as one gzip member; equal input gives equal bytes.

    Example:
        >>> gunzip(gzip(b"abc"), expected_size=3, path="x", offset=0)
        b'abc'
    """
    if _isal is not None:
        return bytes(_isal.compress(data, min(level, 3), _GZIP_WINDOW))
    return zlib.compress(data, level, _GZIP_WINDOW)


def gunzip(data: bytes | memoryview, *, expected_size: int, path: str, offset: int) -> bytes:
    """Decompress one gzip member, whose content must have exactly `expected_size` bytes.

    It never inflates more bytes. `path` and `offset` are used in errors.
    """
    check_inflated_size(expected_size, memoryview(data).nbytes, path=path, offset=offset)
    try:
        inflated, complete = _inflate(data, expected_size + 1)
    except _ERRORS as error:
        raise CorruptFile(path, offset, expected="a gzip stream", actual=str(error)) from None
    if len(inflated) != expected_size or not complete:
        more = "more than " if len(inflated) > expected_size else ""
        raise CorruptFile(
            path,
            offset,
            expected=f"a gzip stream of {expected_size} bytes",
            actual=f"{more}{min(len(inflated), expected_size)} bytes",
        )
    return inflated


def check_inflated_size(expected_size: int, stored_size: int, *, path: str, offset: int) -> None:
    """Raise `CorruptFile` if `stored_size` bytes cannot or must not inflate to `expected_size`."""
    limit = min(MAX_INFLATED_BYTES, stored_size * MAX_DEFLATE_RATIO)
    if not 0 <= expected_size <= limit:
        raise CorruptFile(
            path, offset, expected=f"at most {limit} bytes after inflating", actual=expected_size
        )


def _inflate(data: bytes | memoryview, limit: int) -> tuple[bytes, bool]:
    """At most `limit` bytes of the member, and whether it ended (with a valid checksum)."""
    inflater: Any
    if _igzip is not None:
        inflater = _igzip.IgzipDecompressor(_igzip.DECOMP_GZIP)
    else:
        inflater = zlib.decompressobj(_GZIP_WINDOW)
    return inflater.decompress(data, limit), inflater.eof
