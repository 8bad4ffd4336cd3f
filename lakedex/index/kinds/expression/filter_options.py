"""How large the filters of an index are, by the names that Hudi gives the options of one index.

A filter here is made for the values that its file has, so it needs no room to grow: the form of
filter that Hudi would choose, and how far it may grow, are kept in the definition and change
nothing. Readers take either form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakedex.errors import InvalidInput

_RATE, _ENTRIES, _KIND, _MOST = "fpp", "numentries", "filtertype", "maxentries"
_HASHES = "numHashFunctions"
FILTER_OPTIONS: Final = (_RATE, _ENTRIES, _KIND, _MOST, _HASHES)
_DEFAULT_RATE = 1e-6
_LEAST_ENTRIES = 10
_SMALLEST_RATE = 1e-15
_MOST_ENTRIES = 10_000_000
_KINDS = frozenset(["SIMPLE", "DYNAMIC_V0"])


def check_filter_options(index: str, options: Mapping[str, str]) -> None:
    """Refuse options that no filter can have.

    Raises:
        InvalidInput: Naming the option.
    """
    rate = options.get(_RATE)
    if rate is not None and _rate(rate) is None:
        raise InvalidInput(f"{_RATE}={rate!r} of index {index} is not between 0 and 1")
    for name in (_ENTRIES, _MOST, _HASHES):
        given = options.get(name)
        if given is not None and _count(given) is None:
            raise InvalidInput(f"{name}={given!r} of index {index} is not 1 to {_MOST_ENTRIES}")
    kind = options.get(_KIND)
    if kind is not None and kind.upper() not in _KINDS:
        raise InvalidInput(f"{_KIND}={kind!r} of index {index} is none of {sorted(_KINDS)}")


def error_rate(options: Mapping[str, str]) -> float:
    """How often a filter may be wrong; what others wrote and cannot be counts for nothing.

    Example:
        >>> error_rate({"fpp": "0.01"}), error_rate({"fpp": "7"})
        (0.01, 1e-06)
    """
    return _rate(options.get(_RATE, "")) or _DEFAULT_RATE


def least_entries(options: Mapping[str, str]) -> int:
    """For how many values a filter is made at least."""
    return _count(options.get(_ENTRIES, "")) or _LEAST_ENTRIES


def _rate(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return max(found, _SMALLEST_RATE) if 0 < found < 1 else None


def _count(text: str) -> int | None:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return None
    return int(digits) if 0 < int(digits) <= _MOST_ENTRIES else None
