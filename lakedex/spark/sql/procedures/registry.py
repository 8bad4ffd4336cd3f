"""All procedures that CALL knows, and those of Hudi that it refuses."""

from __future__ import annotations

from collections.abc import Mapping

from lakedex.errors import InvalidInput
from lakedex.spark.schemas import read_ddl
from lakedex.spark.sql.context import Context
from lakedex.spark.sql.procedures.cleaning import CLEANING
from lakedex.spark.sql.procedures.commits import COMMITS, LOGS
from lakedex.spark.sql.procedures.files import COPYING, FILES
from lakedex.spark.sql.procedures.metadata import INDEXES, METADATA
from lakedex.spark.sql.procedures.procedure import Procedure, Rows, Values, table_of
from lakedex.spark.sql.procedures.repairs import PARTITION_CHANGES, REPAIRS
from lakedex.spark.sql.procedures.rewriting import REWRITING
from lakedex.spark.sql.procedures.timelines import GOING_BACK, TIMELINES

_TYPE_NAMES = {str: "string", int: "integer", bool: "boolean"}


def _show_properties(context: Context, values: Values) -> Rows:
    return sorted(table_of(context, values, may_lack_instants=True).properties.items())


def _help(context: Context, values: Values) -> Rows:
    """The names of all procedures, or the parameters and the answer of one."""
    if values["cmd"] is None:
        lines = ["call [command]([key1]=>[value1],[key2]=>[value2])", *sorted(PROCEDURES)]
        return [("\n".join(lines),)]
    procedure = PROCEDURES.get(str(values["cmd"]).lower())
    if procedure is None:
        raise InvalidInput(f"there is no procedure {values['cmd']!r}; CALL help() lists all")
    lines = ["parameters:", _line("param", "type_name", "default_value", "required")]
    for name, default in procedure.parameters.items():
        kind = default if isinstance(default, type) else type(default)
        shown = "None" if isinstance(default, type) else str(default)
        needed = name in procedure.needs or name == "table"
        lines.append(_line(name, _TYPE_NAMES[kind], shown, str(needed).lower()))
    lines += ["outputType:", _line("name", "type_name")]
    answer = read_ddl(context.spark, procedure.columns)
    lines += [_line(field.name, field.dataType.typeName()) for field in answer]
    return [("\n".join(lines),)]


def _line(*words: str) -> str:
    return "".join(f"{word:<30}" for word in words).rstrip()


PROCEDURES: Mapping[str, Procedure] = {
    "help": Procedure({"cmd": str}, "result string", _help),
    "show_table_properties": Procedure(
        {"table": str, "path": str, "limit": 10, "filter": ""},
        "key string, value string",
        _show_properties,
    ),
    **COMMITS,
    **TIMELINES,
    **FILES,
    **METADATA,
    **LOGS,
    **CLEANING,
    **GOING_BACK,
    **REWRITING,
    **COPYING,
    **PARTITION_CHANGES,
    **REPAIRS,
    **INDEXES,
}
_NO_AUDIT = "the table's lock keeps no audit here"
_NO_BOOTSTRAP = "CREATE TABLE ... USING hudi AS SELECT copies the rows of another table"
REFUSED: Mapping[str, str] = {
    "downgrade_table": "tables are written at version 9 only",
    "repair_migrate_partition_meta": "partitions are known by their text files",
    "hive_sync": "names live in the session's own catalog: enableHiveSupport()",
    "sync_validate": "names live in the session's own catalog: enableHiveSupport()",
    "run_bootstrap": _NO_BOOTSTRAP,
    "hdfs_parquet_import": _NO_BOOTSTRAP,
    "show_bootstrap_mapping": _NO_BOOTSTRAP,
    "show_bootstrap_partitions": _NO_BOOTSTRAP,
    "set_audit_lock": _NO_AUDIT,
    "show_audit_lock_status": _NO_AUDIT,
    "validate_audit_lock": _NO_AUDIT,
    "cleanup_audit_lock": _NO_AUDIT,
}
"""Procedures of Hudi that lakedex does not have, with what to do instead or why not."""
