"""Whether a time zone is the same to the JVM, which runs queries, and to what computes indexes.

Both have a time zone database of their own, of some release, and some short names (`EST`, `CET`)
are other zones in one than in the other. An index says what Spark would compute only where every
change of a zone's offset is the same in both. Before 1970 they often differ, as databases may
leave out what came before; no index tells anything of such times (`index.expression.target`).
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lakedex.errors import InvalidInput
from lakedex.expr.temporal.zones import offset_changes
from lakedex.spark.jvm_contract import NUMBER_SEPARATOR

_START, _END = -2 * 86_400, 10_413_792_000
"""1970, from some clocks' days before it on, to 2300: what changes later does so by a rule."""
_found: dict[str, bool] = {}


def is_same_zone(jvm: Any, zone: str) -> bool:  # noqa: ANN401 - a JVM
    """Whether the JVM and lakedex agree on every offset that a zone has since 1970."""
    if zone not in _found:
        _found[zone] = _compared(jvm, zone)
    return _found[zone]


def _compared(jvm: Any, zone: str) -> bool:  # noqa: ANN401 - a JVM
    try:
        own = offset_changes(zone, _START, _END)
        theirs = str(jvm.lakedex.jvm.Zones.changes(zone, _START, _END))
    except (InvalidInput, Py4JError, PySparkException):
        return False
    first, *rest = map(int, theirs.split(NUMBER_SEPARATOR))
    return own == [(_START, first), *zip(rest[::2], rest[1::2], strict=True)]
