"""`lakedex explain`: what a query would read, which index removed how much, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from lakedex.cli import console
from lakedex.cli.arguments import (
    AsJson,
    AsOf,
    StorageOptions,
    TablePath,
    TimeZone,
    Without,
    open_table,
)
from lakedex.cli.console import Column, pointing_into, print_json
from lakedex.prune import Report
from lakedex.prune.report import Step

_COLUMNS = (
    Column("index"),
    Column("before", is_number=True),
    Column("after", is_number=True),
    Column("saved", is_number=True),
    Column("ms", is_number=True),
    Column("reason"),
)


def explain(  # noqa: PLR0913 - every one is an option of the command
    path: TablePath,
    predicate: Annotated[
        str,
        typer.Argument(
            metavar="PREDICATE", help="SQL, such as \"city = 'austin'\".", show_default=False
        ),
    ],
    *,
    as_of: AsOf = None,
    time_zone: TimeZone = "UTC",
    without: Without = None,
    assuming: Annotated[
        list[str] | None,
        typer.Option(
            "--assuming",
            metavar="COLUMN",
            help="Also show what a secondary index on this column would do, or record_index, "
            "column_stats or bloom_filters; reads a part of the data. May be repeated.",
            show_default=False,
        ),
    ] = None,
    files: Annotated[
        bool,
        typer.Option("--files", help="What is left, too; JSON always has it."),
    ] = False,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Explain what a query would read: each index that was consulted, or why it was not."""
    table = open_table(path, storage_option, time_zone=time_zone, without=without)
    with pointing_into(predicate):
        report = table.explain(predicate, as_of, assuming=assuming or ())
    if as_json:
        print_json(report.as_dict())
        return
    print_report(report)
    if files:
        _print_files(report)


def print_report(report: Report) -> None:
    """Print the steps of a report as a table, and below it what is left to read."""
    if report.steps:
        styles = ["" if step.used else console.QUIET for step in report.steps]
        console.table(_COLUMNS, [_row(step) for step in report.steps], styles=styles)
    for text in report.notes:
        console.say(f"note: {text}", console.QUIET)
    console.say(summary(report), console.STRONG)
    if report.assumption:
        console.say(report.assumption, console.STRONG)


def summary(report: Report) -> str:
    """The bottom line of a report."""
    left, total = console.size(report.bytes_left), console.size(report.total_bytes)
    return f"reads {len(report.files):,} of {report.total:,} file slices ({left} of {total})"


def _row(step: Step) -> tuple[object, ...]:
    taken = f"{step.seconds * 1000:.1f}"
    if not step.used:
        return step.index, "", "", "", taken if step.seconds else "", step.reason
    saved = console.size(step.bytes_saved)
    return step.index, step.before, step.after, saved, taken, step.reason


def _print_files(report: Report) -> None:
    columns = [
        Column("partition"),
        Column("file id"),
        Column("base file"),
        Column("log files", is_number=True),
        Column("size", is_number=True),
    ]
    rows = [
        (
            each.partition,
            each.file_id,
            each.base.name if each.base else None,
            len(each.logs),
            console.size(each.size_bytes),
        )
        for each in report.files
    ]
    console.table(columns, rows, title="files")
