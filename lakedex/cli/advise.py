"""`lakedex advise`: indexes to create and to drop, judging by the queries that were counted."""

from __future__ import annotations

from lakedex.cli import screen
from lakedex.cli.arguments import AsJson, StorageOptions, TablePath, open_table
from lakedex.cli.json_output import print_json
from lakedex.cli.screen import Column
from lakedex.services.advising import Proposal

_COLUMNS = (
    Column("statement"),
    Column("queries", is_number=True),
    Column("files saved", is_number=True),
    Column("index size", is_number=True),
    Column("per change", is_number=True),
    Column("why"),
)


def advise(
    path: TablePath,
    *,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Propose indexes to create and to drop, from what queries asked the table for."""
    advice = open_table(path, storage_option).advise()
    if as_json:
        print_json(advice.as_dict())
        return
    if advice.proposals:
        screen.table(_COLUMNS, [_row(each) for each in advice.proposals])
    else:
        screen.say("no index to create or to drop")
    for note in advice.notes:
        screen.say(f"note: {note}", screen.QUIET)


def _row(proposal: Proposal) -> tuple[object, ...]:
    return (
        proposal.statement,
        proposal.queries,
        round(proposal.files_saved),
        screen.size(proposal.size_bytes),
        screen.size(round(proposal.bytes_per_change)),
        proposal.reason,
    )
