"""Partitions by a pattern of their paths, as options of Hudi name them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.expr.java_regex import to_re2


def matching_paths(paths: Sequence[str], pattern: str, *, option: str) -> list[str]:
    r"""Those of some paths that a pattern of Java matches from their beginning to their end.

    Example:
        >>> matching_paths(["dt=2026-01-01", "dt=2026-02-01"], r"dt=2026-01-\d+", option="o")
        ['dt=2026-01-01']

    Raises:
        InvalidInput: the pattern is wrong; the option that holds it is named.
        UnsupportedFeature: a part of the pattern is not understood.
    """
    column = pa.array(paths, pa.string())
    try:
        found = pc.match_substring_regex(column, f"^(?:{to_re2(pattern).text})$")
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{option}={pattern[:200]!r} is no pattern: {error}") from error
    matched: list[str] = column.filter(found).to_pylist()
    return matched
