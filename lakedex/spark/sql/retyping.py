"""Whether all values of a column can be told in another type, before the column gets it.

Files keep what they hold, and every later read converts it; a value that does not fit would fail
each of them. So the column is looked through once, by Spark, where that can happen at all.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import functions as fn

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.schema.conversions import MORE_DIGITS
from lakedex.spark.sql.plans import quoted
from lakedex.spark.table import SparkTable

_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


def check_values(table: SparkTable, path: list[str], old: pa.DataType, new: pa.DataType) -> None:
    """Refuse a type in which a value of the column has no place.

    Raises:
        InvalidInput: Naming the column and one such value.
        UnsupportedFeature: The column is inside of a list or a map, where Spark cannot look.
    """
    spelled = _spelled(old, new)
    if not spelled:
        return
    within: pa.DataType = pa.struct(list(table.schema))
    for part in path:
        if not pa.types.is_struct(within):
            raise UnsupportedFeature(f"changing {'.'.join(path)} from {old} to {new}")
        within = within.field(part).type
    name = ".".join(map(quoted, path))
    kind = "DATE" if pa.types.is_date(new) else f"DECIMAL({new.precision},{new.scale})"
    fits = f"try_cast({name} AS {kind}) IS NOT NULL"
    if pa.types.is_string(old):
        fits = f"{name} RLIKE '{spelled}' AND {fits}"
    wrong = table.to_df().filter(f"{name} IS NOT NULL AND NOT ({fits})")
    found = wrong.select(fn.expr(f"cast({name} AS STRING)")).first()
    if found is not None:
        raise InvalidInput(
            f"column {'.'.join(path)} of table {table.name} cannot become {new}: {found[0]!r} "
            "has no place in it"
        )


def _spelled(old: pa.DataType, new: pa.DataType) -> str:
    """What texts look like that can be converted; nothing where every value can."""
    if pa.types.is_date(new) and pa.types.is_string(old):
        return _DATE
    if pa.types.is_decimal(new) and not pa.types.is_decimal(old):
        return rf"^[+-]?[0-9]{{1,38}}([.][0-9]{{1,{new.scale + MORE_DIGITS}}})?$"
    return ""
