"""`lakedex verify` compares every index with the data, `lakedex repair` corrects the indexes."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from lakedex.cli import console
from lakedex.cli.arguments import (
    AsJson,
    HudiOptions,
    IndexNames,
    StorageOptions,
    TablePath,
    open_table,
    parse_hudi_options,
    parse_storage_options,
)
from lakedex.cli.console import FOUND_PROBLEMS, Column, print_json
from lakedex.services.repairing import repair_table
from lakedex.services.verifying.report import VerifyReport, counted
from lakedex.storage.open import StorageAddress
from lakedex.write.verbs import TableWriter

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
    with console.working(f"verifying {table.name}") as listener:
        report = table.verify(index or None, listener=listener)
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
    styles = [console.BAD if found[name] else "" for name in names]
    console.table(_COLUMNS, rows, styles=styles)
    if report.problems:
        console.table(
            _PROBLEM_COLUMNS,
            [(each.index, each.kind.value, each.key, each.detail) for each in report.problems],
            title="problems",
        )
    for name, count in report.untold.items():
        console.say(f"... and {count:,} more in {name}")
    for text in report.notes:
        console.say(f"note: {text}", console.QUIET)
    if report.ok:
        console.say("every index agrees with the data", console.GOOD)
    else:
        console.say(counted(report.problem_count, "problem"), console.BAD)


def repair(
    path: TablePath,
    *,
    index: IndexNames = None,
    accept_data_loss: Annotated[
        bool,
        typer.Option(
            "--accept-data-loss",
            help="Go on without data files that are gone; queries then show what is left.",
        ),
    ] = False,
    option: HudiOptions = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Compare every index with the data, and put right what is wrong; the data stays as it is.

    Wrong, missing and stale entries are repaired one by one; what cannot be read is rebuilt. An
    index of Hudi that depends on a time zone needs --option lakedex.expression.time.zone=UTC, with
    the time zone of the sessions that wrote it.

    The exit code is 1 when something is left.
    """
    address = StorageAddress.of(path, parse_storage_options(storage_option))
    writer = TableWriter(address, options=parse_hudi_options(option))
    with console.working(f"repairing {path}"):
        report = repair_table(writer, index or None, accepts_data_loss=accept_data_loss)
    if as_json:
        print_json(report.as_dict())
    else:
        for line in str(report).split("\n"):
            console.say(line, console.GOOD if report.ok else console.BAD)
    if not report.ok:
        raise typer.Exit(FOUND_PROBLEMS)
