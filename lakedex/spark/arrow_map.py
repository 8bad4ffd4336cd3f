"""Functions of Arrow batches over the partitions of a DataFrame.

This is `DataFrame.mapInArrow`, which insists on pandas on the driver without a need for it. Columns
are handed over by place, so that a dot in a name, or a name that stands twice, is no matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyspark
from pyspark.rdd import PythonEvalType
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_FIRST_WITH_RESOURCE_PROFILES = 4


def map_batches(rows: DataFrame, function: BatchFunction, schema: StructType) -> DataFrame:
    """A DataFrame of what a function makes of each partition's batches.

    Args:
        rows: The input; its columns come as `_0`, `_1` and so on.
        function: Gets the batches of one partition; it can be pickled.
        schema: The columns of the batches that it gives.
    """
    placed = rows.toDF(*[f"_{n}" for n in range(len(rows.columns))])
    udf = UserDefinedFunction(
        function, returnType=schema, name="lakedex", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column = udf(*[placed[name] for name in placed.columns])._jc
    if int(pyspark.__version__.partition(".")[0]) >= _FIRST_WITH_RESOURCE_PROFILES:
        mapped = placed._jdf.mapInArrow(column, False, None)  # noqa: FBT003 - a Java method
    else:
        mapped = placed._jdf.pythonMapInArrow(column.expr(), False)  # noqa: FBT003 - a Java method
    return DataFrame(mapped, rows.sparkSession)
