"""Values on their way into a table's columns: what may be stored where, as Spark's INSERT has it.

Types that do not go together are refused before anything runs; a value that does not fit, such as
a number that is too large, fails the statement instead of becoming another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructField,
    TimestampType,
)

from lakedex.errors import InvalidInput
from lakedex.spark.sql.plans import Plans, quoted

_FROM_TEXT = (NumericType, BooleanType, DateType, TimestampType)
_POLICY = "spark.sql.storeAssignmentPolicy"


def assigned(
    plans: Plans, rows: DataFrame, names: Sequence[str], fields: Sequence[StructField]
) -> DataFrame:
    """Rows with some columns brought to the types and names of a table's columns.

    Args:
        plans: Makes the casts.
        rows: The rows; the wanted columns have names that differ.
        names: The columns of the rows to take, in order.
        fields: The columns of the table that they become.

    Raises:
        InvalidInput: A column's type cannot be stored in the table's column.
    """
    schema = {field.name: field.dataType for field in rows.schema}
    columns = []
    for name, field in zip(names, fields, strict=True):
        given = schema[name]
        column = rows[quoted(name)]
        if given != field.dataType:
            check_storable(plans, given, field)
            column = stored(plans, column, field.dataType)
        columns.append(column.alias(field.name))
    return rows.select(columns)


def check_assignable(plans: Plans, given: DataType, field: StructField) -> None:
    """The same for UPDATE and MERGE, where Hudi also takes text for a plain value."""
    if not (isinstance(given, StringType) and isinstance(field.dataType, _FROM_TEXT)):
        check_storable(plans, given, field)


def check_storable(plans: Plans, given: DataType, field: StructField) -> None:
    """Refuse a type that Spark's own INSERT would refuse for a column."""
    if str(plans.spark.conf.get(_POLICY)).upper() == "LEGACY":
        return
    if not plans.may_store(given, field.dataType):
        raise InvalidInput(
            f"column {field.name} is {field.dataType.simpleString()}, and "
            f"{given.simpleString()} cannot be stored in it; write a CAST"
        )


def stored(plans: Plans, column: Column, target: DataType) -> Column:
    """A column cast to a type; a value that does not fit fails the statement."""
    return plans.strict_cast(column, target)
