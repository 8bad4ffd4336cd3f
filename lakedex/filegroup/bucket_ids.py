"""File ids of bucket indexes, by their form alone.

A file id of the engine SIMPLE is a UUID whose first 8 characters are the bucket number, zero-padded
(`00000003-6ddb-4dff-83ee-36af5292a301-0`). Random UUIDs begin with decimal digits too, so file ids
count only where their number of low bucket numbers is practically impossible by chance.

Those of first rings, and all that lakedex makes, are UUIDs of a name (version 3); other writers
take random ones (version 4).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

_FILE_ID: Final = re.compile(
    r"([0-9a-f]{8})-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
)
_PREFIXES: Final = 1 << 32
_LIMITS: Final = (1 << 12, 10**6, 10**8)
"""Bucket numbers below a limit are counted: usual ones, many buckets, all that have 8 digits."""
_LEAST_CHANCE: Final = 1e-6
_OF_NAME: Final = "3"
_RING_SUFFIX: Final = "-0"


def are_bucket_ids(file_ids: Iterable[str]) -> bool:
    """Whether file ids begin with bucket numbers, and not with random digits.

    Of random UUIDs, fewer than one set in 300,000 counts as such, whatever its size.

    Example:
        >>> are_bucket_ids(["00000003-6ddb-4dff-83ee-36af5292a301-0"])
        True
        >>> are_bucket_ids(["70112233-6ddb-4dff-83ee-36af5292a301-0"])
        False
    """
    # Hudi's other writers share one UUID among several file groups of a task.
    prefixes = {found[0]: found[1] for each in file_ids if (found := _FILE_ID.match(each))}
    numbers = [int(text) for text in prefixes.values() if text.isdigit()]
    for limit in _LIMITS:
        low = sum(number < limit for number in numbers)
        if low and _chance(len(prefixes), low, limit / _PREFIXES) < _LEAST_CHANCE:
            return True
    return False


def _chance(total: int, low: int, share: float) -> float:
    """A bound of the probability that so many of some random prefixes are below a limit."""
    ways = math.lgamma(total + 1) - math.lgamma(low + 1) - math.lgamma(total - low + 1)
    return math.exp(min(0.0, ways + low * math.log(share)))


def begins_with_number(file_id: str) -> bool:
    """Whether a file id may be one of the engine SIMPLE.

    Example:
        >>> begins_with_number("70112233-6ddb-4dff-83ee-36af5292a301-0")
        True
    """
    found = _FILE_ID.match(file_id)
    return found is not None and found[1].isdigit()


def is_ring_id(file_id: str) -> bool:
    """Whether a file id was computed from a name, as of a partition and a range of hash values.

    One that begins with a number may be of the engine SIMPLE, and counts as none.

    Example:
        >>> is_ring_id("0fc23cdb-2778-367b-b4cb-a5fe650a3679-0")
        True
        >>> is_ring_id("70112233-6ddb-4dff-83ee-36af5292a301-0")
        False
    """
    found = _FILE_ID.fullmatch(file_id.removesuffix(_RING_SUFFIX))
    if found is None or not file_id.endswith(_RING_SUFFIX):
        return False
    return found[2] == _OF_NAME and not found[1].isdigit()
