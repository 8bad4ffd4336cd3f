"""Bloom filters that do not exist: which file slices they would leave for a query."""

from lakedex.index.kinds.record_index.what_if import what_if

__all__ = ["what_if"]
