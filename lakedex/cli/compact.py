"""`lakedex compact`: the log files of a merge-on-read table become part of new base files."""

from __future__ import annotations

from typing import Annotated

import typer

from lakedex.cli import screen
from lakedex.cli.arguments import (
    AsJson,
    HudiOptions,
    StorageOptions,
    TablePath,
    parse_hudi_options,
    parse_storage_options,
)
from lakedex.cli.json_output import print_json
from lakedex.errors import InvalidInput
from lakedex.services.compaction import compact_table, run_compaction, schedule_compaction
from lakedex.storage.address import StorageAddress
from lakedex.write.result import WriteResult
from lakedex.write.verbs import TableWriter


def compact(
    path: TablePath,
    *,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Only plan it; any process may run the plan later.")
    ] = False,
    instant: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Run this plan, and no other.", show_default=False),
    ] = None,
    option: HudiOptions = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Compact a merge-on-read table: run the plans that pend, then one for what is left.

    Writers may go on meanwhile. A compaction that was cut short leaves its plan behind, which is
    run from the start by the next call.
    """
    if schedule and instant is not None:
        raise InvalidInput("give --schedule or --instant, not both")
    address = StorageAddress.of(path, parse_storage_options(storage_option))
    writer = TableWriter(address, options=parse_hudi_options(option))
    if schedule:
        result = WriteResult("COMPACT", schedule_compaction(writer))
    elif instant is not None:
        result = run_compaction(writer, instant)
    else:
        result = compact_table(writer)
    if as_json:
        print_json(
            {
                "instant": result.instant,
                "scheduled_only": schedule,
                "files": result.files,
                "rows": result.rows_in,
                "bytes_written": result.bytes_written,
            }
        )
    elif result.instant is None:
        screen.say("there is nothing to compact", screen.GOOD)
    elif schedule:
        screen.say(f"scheduled {result.instant}", screen.GOOD)
    else:
        screen.say(str(result), screen.GOOD)
