"""Keys of tables without key columns: every new row gets one of its own, as in Hudi.

A key is `<when>_<part of the input>_<random>_<number>`. Only the number differs within a part, so
that keys compress to almost nothing. Later writes name records by these keys, in the meta column.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc


def key_stamp(part: int) -> str:
    """What the keys of one part of an input begin with; no other part has the same."""
    now = datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")[:-3]
    return f"{now}_{part}_{uuid.uuid4().hex[:8]}"


def automatic_keys(stamp: str, first: int, count: int) -> pa.Array:
    """Keys of some rows, numbered from `first`.

    Example:
        >>> automatic_keys("20260102030405678_0_abcd1234", 5, 2).to_pylist()
        ['20260102030405678_0_abcd1234_5', '20260102030405678_0_abcd1234_6']
    """
    numbers = pa.array(range(first, first + count), pa.int64()).cast(pa.string())
    return pc.binary_join_element_wise(stamp, numbers, "_")
