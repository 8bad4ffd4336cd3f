"""Partitions by a pattern of their paths or values, as options and statements name them."""

from __future__ import annotations

import re
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


def matches_wildcard(text: str, pattern: str) -> bool:
    """Whether a text matches a pattern in which `*` stands for any characters, none included.

    Example:
        >>> matches_wildcard("2023-08-01", "2023-08-*"), matches_wildcard("2023-09-01", "*-08-*")
        (True, False)
        >>> matches_wildcard("a[1]", "a[1]*"), matches_wildcard("a1", "a[1]*")
        (True, False)
    """
    parts = map(re.escape, pattern.split("*"))
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None
