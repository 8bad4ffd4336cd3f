"""Resizing of bucket indexes: which buckets, their rows in new file groups, and a report of them.

Names are brought when they are first used: who only reads a table does without all of this.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakedex.index.kinds.bucket.resize import ResizeLimits, ResizePolicy
    from lakedex.write.resizing.report import (
        BucketInfo,
        BucketReport,
        PartitionReport,
        ResizeInfo,
        report_buckets,
    )

__all__ = [
    "BucketInfo",
    "BucketReport",
    "PartitionReport",
    "ResizeInfo",
    "ResizeLimits",
    "ResizePolicy",
    "report_buckets",
]

_POLICIES = "lakedex.index.kinds.bucket.resize"
_REPORT = "lakedex.write.resizing.report"
_HOMES = {
    "BucketInfo": _REPORT,
    "BucketReport": _REPORT,
    "PartitionReport": _REPORT,
    "ResizeInfo": _REPORT,
    "ResizeLimits": _POLICIES,
    "ResizePolicy": _POLICIES,
    "report_buckets": _REPORT,
}


def __getattr__(name: str) -> object:
    """Bring a public name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
