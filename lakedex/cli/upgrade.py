"""`lakedex upgrade`: a table of an older version becomes one that lakedex writes."""

from __future__ import annotations

from typing import Annotated

import typer

from lakedex.cli import screen
from lakedex.cli.arguments import AsJson, StorageOptions, TablePath, parse_storage_options
from lakedex.cli.json_output import print_json
from lakedex.services.upgrading import UpgradeReport, upgrade_table
from lakedex.storage.address import StorageAddress


def upgrade(
    path: TablePath,
    *,
    drop_indexes: Annotated[
        bool,
        typer.Option(
            "--drop-indexes",
            help="Leave out secondary and expression indexes, which cannot be built anew yet.",
        ),
    ] = False,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Take a table of version 6 or 8 to version 9, and build its metadata table anew.

    Stop all writers first. An upgrade that was cut short goes on when it is called again; until
    then the table can be read, as one of the old version or of the new.
    """
    address = StorageAddress.of(path, parse_storage_options(storage_option))
    console = screen.progress_console()
    if console.is_terminal:
        with console.status(screen.shown(f"upgrading {path}")):
            report = upgrade_table(address, drop_indexes=drop_indexes)
    else:
        report = upgrade_table(address, drop_indexes=drop_indexes)
    if as_json:
        print_json(report.as_dict())
    else:
        _print_report(report)


def _print_report(report: UpgradeReport) -> None:
    if not report.changed:
        screen.say(f"{report.table} is of version {report.to_version} already", screen.GOOD)
        return
    facts = (
        ("instant files written anew", report.instants),
        ("archived instants", report.archived),
        ("file slices compacted", report.compacted),
    )
    for what, count in facts:
        if count:
            screen.say(f"{what}: {count:,}")
    for instant in report.rolled_back:
        screen.say(f"rolled back {instant}, whose writer is dead")
    if report.indexes:
        screen.say(f"indexes built: {', '.join(report.indexes)}")
    if report.dropped:
        screen.say(f"indexes left out: {', '.join(report.dropped)}", screen.BAD)
    versions = f"from version {report.from_version} to {report.to_version}"
    screen.say(f"{report.table}: {versions} in {report.seconds:.1f} s", screen.GOOD)
