"""Commands for indexes.

`lakedex indexes`: every index of a table, its state, its size and its use.
`lakedex index`: builds an index beside writers, resumes a build, or refreshes an index.
`lakedex advise`: indexes to create and to drop, judging by the queries that were counted.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakedex.cli import console
from lakedex.cli.arguments import (
    AsJson,
    HudiOptions,
    StorageOptions,
    TablePath,
    open_table,
    parse_hudi_options,
    parse_storage_options,
)
from lakedex.cli.console import Column, print_json
from lakedex.errors import InvalidInput
from lakedex.index.catalog import IndexInfo
from lakedex.services.advising import Proposal
from lakedex.services.file_index_creating import FileIndexBuild
from lakedex.services.index_creating import create_index, refresh_index, resume_index
from lakedex.services.index_names import ONCE, find_build, find_index, find_plan
from lakedex.services.indexing import BackgroundBuild
from lakedex.storage.open import StorageAddress
from lakedex.write.verbs import TableWriter

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
        console.note(f"the metadata table cannot be read: {problem}", console.BAD)
    if found:
        print_indexes(found)
    else:
        console.say(f"table {table.name} has no indexes")


def print_indexes(found: list[IndexInfo], *, title: str = "") -> None:
    """Print indexes as a table, with their problems if there are any."""
    has_problem = any(each.problem for each in found)
    columns = [*_COLUMNS, Column("problem")] if has_problem else list(_COLUMNS)
    rows = [_row(each)[: len(columns)] for each in found]
    console.table(columns, rows, title=title, styles=[_style(each) for each in found])


def _row(info: IndexInfo) -> tuple[object, ...]:
    return (
        info.name,
        info.kind,
        info.columns,
        info.function,
        info.status,
        info.file_groups,
        console.size(info.size_bytes),
        info.scans,
        info.files_pruned,
        info.last_used,
        info.problem,
    )


def _style(info: IndexInfo) -> str:
    if info.problem:
        return console.BAD
    return "" if info.state == "live" else console.QUIET


_LOOK_S = 1.0

index = typer.Typer(no_args_is_help=True, help="Build an index while writers go on.")


@index.callback()
def _group() -> None:
    """Build an index while writers go on."""


@index.command()
def build(
    path: TablePath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The index.", show_default=False)],
    *,
    on: Annotated[
        list[str] | None,
        typer.Option("--on", metavar="COLUMN", help="A column; may be repeated."),
    ] = None,
    using: Annotated[
        str, typer.Option(metavar="KIND", help="The kind, unless the name says it.")
    ] = "",
    option: HudiOptions = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Build an index, or go on with one that was begun or planned, while writers go on.

    Writers keep it up to date from the start, readers use it from the end. An interrupt puts the
    build down; the same command goes on with it.
    """
    address = StorageAddress.of(path, parse_storage_options(storage_option))
    writer = TableWriter(address)
    begun = _begun(writer, name, on or [], using, parse_hudi_options(option))
    if isinstance(begun, FileIndexBuild):
        begun.wait()
    else:
        _follow(begun)
    if as_json:
        instant = None if isinstance(begun, FileIndexBuild) else begun.instant
        print_json({"instant": instant, "indexes": list(begun.indexes)})
    else:
        console.say(f"built {', '.join(begun.indexes)}", console.GOOD)


@index.command()
def refresh(
    path: TablePath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The index.", show_default=False)],
    *,
    rebuild: Annotated[
        bool, typer.Option(help="Read all data again, and remove outdated entries.")
    ] = False,
    option: HudiOptions = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Bring an index up to date that writers do not maintain, or that another engine forgot."""
    address = StorageAddress.of(path, parse_storage_options(storage_option))
    writer = TableWriter(address, options=parse_hudi_options(option))
    refresh_index(writer, name, rebuild=rebuild)
    if as_json:
        print_json({"refreshed": name})
    else:
        console.say(f"refreshed {name}", console.GOOD)


def _follow(begun: BackgroundBuild) -> None:
    """Tell how far a build is, to its end."""
    try:
        while not begun.wait(_LOOK_S):
            progress = begun.progress()
            if progress is not None:
                console.note(str(progress))
    except KeyboardInterrupt:
        begun.stop()
        console.note("the build was put down; the same command goes on with it")
        raise


def _begun(
    writer: TableWriter, name: str, columns: list[str], using: str, options: dict[str, str]
) -> BackgroundBuild | FileIndexBuild:
    snapshot = writer.snapshot()
    if find_build(snapshot, name) is not None or find_plan(snapshot, name) is not None:
        if columns or options:
            raise InvalidInput(
                f"the index {name} is in the making already; give its name alone to go on with it"
            )
        return resume_index(writer, name)
    if name == "record_index" and not columns:
        columns = list(snapshot.config.record_key_fields)
    if not columns and name.lower() not in ONCE and find_index(snapshot, name) is None:
        raise InvalidInput(
            f"no build of an index {name!r} waits to be taken up in table {snapshot.config.name}; "
            "to build a new one, name its column with --on"
        )
    made = create_index(writer, name, columns, using=using, options=options, wait=False)
    if not isinstance(made, BackgroundBuild | FileIndexBuild):
        raise InvalidInput(f"the index {name} is there already")
    return made


_ADVISE_COLUMNS = (
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
    """Propose indexes to create and to drop, from the queries that were counted."""
    advice = open_table(path, storage_option).advise()
    if as_json:
        print_json(advice.as_dict())
        return
    if advice.proposals:
        console.table(_ADVISE_COLUMNS, [_advise_row(each) for each in advice.proposals])
    else:
        console.say("no index to create or to drop")
    for note in advice.notes:
        console.say(f"note: {note}", console.QUIET)


def _advise_row(proposal: Proposal) -> tuple[object, ...]:
    return (
        proposal.statement,
        proposal.queries,
        round(proposal.files_saved),
        console.size(proposal.size_bytes),
        console.size(round(proposal.bytes_per_change)),
        proposal.reason,
    )
