"""`lakedex repair`: makes every index agree with the data again."""

from __future__ import annotations

import typer

from lakedex.cli import screen
from lakedex.cli.arguments import (
    AsJson,
    IndexNames,
    StorageOptions,
    TablePath,
    parse_storage_options,
)
from lakedex.cli.failures import FOUND_PROBLEMS
from lakedex.cli.json_output import print_json
from lakedex.services.repairing import repair_table
from lakedex.storage.address import StorageAddress
from lakedex.write.verbs import TableWriter


def repair(
    path: TablePath,
    *,
    index: IndexNames = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Compare every index with the data, and put right what is wrong; the data stays as it is.

    Wrong, missing and stale entries are repaired one by one; what cannot be read is built anew.

    The exit code is 1 when something is left.
    """
    address = StorageAddress.of(path, parse_storage_options(storage_option))
    with screen.working(f"repairing {path}"):
        report = repair_table(TableWriter(address), index or None)
    if as_json:
        print_json(report.as_dict())
    else:
        for line in str(report).split("\n"):
            screen.say(line, screen.GOOD if report.ok else screen.BAD)
    if not report.ok:
        raise typer.Exit(FOUND_PROBLEMS)
