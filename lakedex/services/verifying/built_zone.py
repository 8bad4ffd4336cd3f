"""Finds out in which time zone an expression index over time was built.

No table records the zone. An index that was built in another zone than the one it is compared
in is wrong in every entry in the same way, which is one thing to tell and not a thousand. The
zone is that in which the function of a file's smallest and largest time gives the file's bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from zoneinfo import available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import LakedexError
from lakedex.expr.bind import bound_type
from lakedex.expr.evaluate import evaluate
from lakedex.expr.tree import Expr, columns_of
from lakedex.index.metadata_table import STATS_PAYLOAD
from lakedex.index.stat_values import StatValues, stat_values
from lakedex.schema.field_paths import flat
from lakedex.services.verifying.statistics import Actual

_QUARTERS = range(-12 * 4, 14 * 4 + 1)
_SAMPLE = 256
"""So many files are enough to tell a zone."""


def built_in(
    expression: Expr,
    records: pa.Table,
    sources: list[Actual],
    key_of: Callable[[int], str],
    zone: str,
) -> str | None:
    """Another zone that explains all entries where `zone` explains some of them not.

    None when `zone` explains them, or no zone does.

    Args:
        expression: What is indexed, bound.
        records: The entries of files.
        sources: The real bounds of the source column.
        key_of: The key of a file's entry.
        zone: The zone that the caller believes in.
    """
    if len(sources) != 1:
        return None
    sampled = _with_values(sources[0])
    wanted = pa.array([key_of(number) for number in sampled.files.tolist()], pa.string())
    place = pc.index_in(wanted, value_set=records["key"].combine_chunks())
    rows = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))[:_SAMPLE]
    if not len(rows):
        return None
    stats = records[STATS_PAYLOAD].combine_chunks().take(place.take(pa.array(rows)))
    claimed = stat_values(stats, bound_type(expression))
    known = sampled.at(rows)
    if _explains(expression, known, claimed, zone):
        return None
    zones = _candidates()
    return next((each for each in zones if _explains(expression, known, claimed, each)), None)


def _with_values(actual: Actual) -> Actual:
    return actual.at(np.flatnonzero(actual.has_values))


def _candidates() -> Iterator[str]:
    """Fixed offsets first, those near UTC before others; then regions, whose offsets change."""
    for quarters in sorted(_QUARTERS, key=abs):
        sign = "-" if quarters < 0 else "+"
        hours, quarter = divmod(abs(quarters), 4)
        yield f"{sign}{hours:02d}:{quarter * 15:02d}"
    yield from sorted(name for name in available_timezones() if "/" in name)


def _explains(expression: Expr, known: Actual, claimed: StatValues, zone: str) -> bool:
    try:
        low = _computed(expression, known.minimum, zone)
        high = _computed(expression, known.maximum, zone)
    except LakedexError:
        return False
    first = pc.equal(low, claimed.minimum)
    last = pc.equal(high, claimed.maximum)
    both = pc.and_(first, last).fill_null(pa.scalar(value=False))
    return bool(pc.all(both).as_py())


def _computed(expression: Expr, values: pa.Array, zone: str) -> pa.Array:
    source = columns_of(expression)[0]
    rows = _nested(values, source.path)
    result = evaluate(expression, rows, time_zone=zone)
    return flat(result)


def _nested(values: pa.Array, path: tuple[str, ...]) -> pa.Table:
    """A table whose column at `path` has the values."""
    for name in reversed(path[1:]):
        values = pa.StructArray.from_arrays([values], names=[name])
    return pa.table({path[0]: values})
