"""`lakedex indexes`: every index of a table, its state, its size and its use."""

from __future__ import annotations

from lakedex.cli import screen
from lakedex.cli.arguments import AsJson, StorageOptions, TablePath, open_table
from lakedex.cli.json_output import print_json
from lakedex.cli.screen import Column
from lakedex.index.catalog import IndexInfo

_COLUMNS = (
    Column("index"),
    Column("kind"),
    Column("columns"),
    Column("function"),
    Column("state"),
    Column("file groups", is_number=True),
    Column("size", is_number=True),
    Column("scans", is_number=True),
    Column("files pruned", is_number=True),
    Column("last used"),
)


def indexes(
    path: TablePath,
    *,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """List the indexes of a table: kind, columns, state, size, use, and what is wrong with one."""
    table = open_table(path, storage_option)
    found = table.indexes()
    problem = table.snapshot.metadata_problem
    if as_json:
        print_json(
            {
                "path": table.path,
                "indexes": [each.as_dict() for each in found],
                "metadata_problem": problem,
            }
        )
        return
    if problem:
        screen.note(f"the metadata table cannot be read: {problem}", screen.BAD)
    if found:
        print_indexes(found)
    else:
        screen.say(f"table {table.name} has no indexes")


def print_indexes(found: list[IndexInfo], *, title: str = "") -> None:
    """Print indexes as a table, with their problems if there are any."""
    has_problem = any(each.problem for each in found)
    columns = [*_COLUMNS, Column("problem")] if has_problem else list(_COLUMNS)
    rows = [_row(each)[: len(columns)] for each in found]
    screen.table(columns, rows, title=title, styles=[_style(each) for each in found])


def _row(info: IndexInfo) -> tuple[object, ...]:
    return (
        info.name,
        info.kind,
        info.columns,
        info.function,
        info.status,
        info.file_groups,
        screen.size(info.size_bytes),
        info.scans,
        info.files_pruned,
        info.last_used,
        info.problem,
    )


def _style(info: IndexInfo) -> str:
    if info.problem:
        return screen.BAD
    return "" if info.state == "live" else screen.QUIET
