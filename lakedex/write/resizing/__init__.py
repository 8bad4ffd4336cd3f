"""Resizing of bucket indexes: which buckets, and their rows in new file groups."""

from lakedex.index.kinds.bucket.resize import ResizeLimits, ResizePolicy

__all__ = ["ResizeLimits", "ResizePolicy"]
