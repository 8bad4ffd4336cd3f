"""copy_to_table and copy_to_temp_view: a table's rows under another name."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakedex.errors import InvalidInput
from lakedex.spark.jvm_contract import DATA_SOURCE
from lakedex.spark.sql.calls.procedure import Procedure, Rows, Values, named, table_of
from lakedex.spark.sql.context import Context

_SNAPSHOT, _INCREMENTAL, _OPTIMIZED = "snapshot", "incremental", "read_optimized"
_MODES = ("append", "overwrite")
_QUERY_TYPE = "hoodie.datasource.query.type"


def _rows(context: Context, values: Values) -> DataFrame:
    """The rows that a call is about: of now, of an earlier time, or what changed between two."""
    table, kind = table_of(context, values), str(values["query_type"]).lower()
    if kind == _INCREMENTAL:
        if not values["begin_instance_time"]:
            raise InvalidInput("an incremental copy needs begin_instance_time => '...'")
        return table.changes(values["begin_instance_time"], values["end_instance_time"] or None)
    if kind == _OPTIMIZED:
        reader = context.spark.read.format(DATA_SOURCE).option(_QUERY_TYPE, _OPTIMIZED)
        return reader.load(table.path)
    if kind != _SNAPSHOT:
        known = ", ".join((_SNAPSHOT, _OPTIMIZED, _INCREMENTAL))
        raise InvalidInput(f"query_type is one of {known}, not {kind!r}")
    return table.to_df(as_of=values["as_of_instant"] or None)


def _to_view(context: Context, values: Values) -> Rows:
    rows, name = _rows(context, values), values["view_name"]
    if values["global"]:
        make = (
            rows.createOrReplaceGlobalTempView if values["replace"] else rows.createGlobalTempView
        )
    else:
        make = rows.createOrReplaceTempView if values["replace"] else rows.createTempView
    make(name)
    return [(0,)]


def _to_table(context: Context, values: Values) -> Rows:
    mode = str(values["save_mode"]).lower()
    if mode not in _MODES:
        raise InvalidInput(f"save_mode is append or overwrite, not {mode!r}")
    rows = _rows(context, values)
    columns = named(values["columns"])
    if columns:
        rows = rows.select(*[f"`{name}`" for name in columns])
    rows.write.mode(mode).saveAsTable(values["new_table"])
    return [(0,)]


_RANGE = {"begin_instance_time": "", "end_instance_time": "", "as_of_instant": ""}
COPYING = {
    "copy_to_temp_view": Procedure(
        {
            "table": str,
            "query_type": _SNAPSHOT,
            "view_name": str,
            **_RANGE,
            "replace": False,
            "global": False,
        },
        "status int",
        _to_view,
        changes=True,
        needs=("view_name",),
    ),
    "copy_to_table": Procedure(
        {
            "table": str,
            "query_type": _SNAPSHOT,
            "new_table": str,
            **_RANGE,
            "save_mode": "overwrite",
            "columns": "",
        },
        "status int",
        _to_table,
        changes=True,
        needs=("new_table",),
    ),
}
