"""Bitmap indexes: from each value of a column, or of an expression, to the files that hold it.

RFC-63's form of values and files, sorted by value. Hudi has no such index, so it is a file index.
"""

from lakedex.index.kinds.bitmap.kind import BitmapKind

__all__ = ["BitmapKind"]
