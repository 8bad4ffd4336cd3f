"""Procedures of indexes: refresh_index, for indexes with `maintenance=async`; Hudi has none."""

from __future__ import annotations

from lakedex.errors import InvalidInput
from lakedex.services.index_names import find_index
from lakedex.spark.sql.calls.procedure import Procedure, Rows, Values, table_of
from lakedex.spark.sql.context import Context
from lakedex.table.index_coverage import async_definitions


def _refresh(context: Context, values: Values) -> Rows:
    """Refresh one index, or all that writers do not maintain; their status afterwards."""
    table = table_of(context, values)
    names = list(async_definitions(table.snapshot))
    if values["index"] is not None:
        names = [find_index(table.snapshot, str(values["index"])) or str(values["index"])]
    elif values["rebuild"]:
        raise InvalidInput("refresh_index with rebuild => true needs index => '...'")
    for name in names:
        table.refresh_index(name, rebuild=bool(values["rebuild"]))
    table.refresh()
    status = {each.name: each.status for each in table.indexes()}
    return [(name, status.get(find_index(table.snapshot, name) or name)) for name in names]


INDEXES = {
    "refresh_index": Procedure(
        {"table": str, "index": str, "rebuild": False, "path": str},
        "index_name string, status string",
        _refresh,
        changes=True,
    ),
}
