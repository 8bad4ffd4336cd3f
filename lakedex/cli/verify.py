"""`lakedex verify`: does every index agree with the data?"""

from __future__ import annotations

from collections import Counter

import typer

from lakedex.cli import screen
from lakedex.cli.arguments import AsJson, IndexNames, StorageOptions, TablePath, open_table
from lakedex.cli.failures import FOUND_PROBLEMS
from lakedex.cli.json_output import print_json
from lakedex.cli.screen import Column
from lakedex.services.verifying.report import VerifyReport

_COLUMNS = (
    Column("index"),
    Column("checked", is_number=True),
    Column("problems", is_number=True),
)
_PROBLEM_COLUMNS = (Column("index"), Column("kind"), Column("key"), Column("detail"))


def verify(
    path: TablePath,
    *,
    index: IndexNames = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Compare every index with the data; the exit code is 1 when one disagrees.

    All rows of the table are read, several file slices at a time.
    """
    table = open_table(path, storage_option)
    with screen.working(f"verifying {table.name}") as tell:
        report = table.verify(index or None, listener=tell)
    if as_json:
        print_json(report.as_dict())
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(FOUND_PROBLEMS)


def _print_report(report: VerifyReport) -> None:
    found = Counter(problem.index for problem in report.problems) + Counter(report.untold)
    names = list(dict.fromkeys([*report.checked, *found]))
    rows = [(name, report.checked.get(name, 0), found[name]) for name in names]
    styles = [screen.BAD if found[name] else "" for name in names]
    screen.table(_COLUMNS, rows, styles=styles)
    if report.problems:
        screen.table(
            _PROBLEM_COLUMNS,
            [(each.index, each.kind.value, each.key, each.detail) for each in report.problems],
            title="problems",
        )
    for name, count in report.untold.items():
        screen.say(f"... and {count:,} more in {name}")
    for text in report.notes:
        screen.say(f"note: {text}", screen.QUIET)
    if report.ok:
        screen.say("every index agrees with the data", screen.GOOD)
    else:
        screen.say(f"{report.problem_count:,} problems", screen.BAD)
