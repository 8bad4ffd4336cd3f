"""`lakedex index`: builds an index while writers go on, goes on with one, or refreshes one."""

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
from lakedex.services.file_index_creating import FileIndexBuild
from lakedex.services.index_creating import create_index, refresh_index, resume_index
from lakedex.services.index_names import ONCE, find_build, find_index, find_plan
from lakedex.services.indexing import BackgroundBuild
from lakedex.storage.address import StorageAddress
from lakedex.write.verbs import TableWriter

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
        screen.say(f"built {', '.join(begun.indexes)}", screen.GOOD)


@index.command()
def refresh(
    path: TablePath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The index.", show_default=False)],
    *,
    rebuild: Annotated[
        bool, typer.Option(help="Read all data again, and remove outdated entries.")
    ] = False,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Bring an index up to date that writers do not maintain, or that another engine forgot."""
    address = StorageAddress.of(path, parse_storage_options(storage_option))
    refresh_index(TableWriter(address), name, rebuild=rebuild)
    if as_json:
        print_json({"refreshed": name})
    else:
        screen.say(f"refreshed {name}", screen.GOOD)


def _follow(begun: BackgroundBuild) -> None:
    """Tell how far a build is, to its end."""
    try:
        while not begun.wait(_LOOK_S):
            told = begun.progress()
            if told is not None:
                screen.note(str(told))
    except KeyboardInterrupt:
        begun.stop()
        screen.note("the build was put down; the same command goes on with it")
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
