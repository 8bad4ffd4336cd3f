"""N-grams of a string column, for conditions on parts of its values."""

from lakedex.index.kinds.ngram.kind import NgramKind

__all__ = ["NgramKind"]
