"""`lakedex clean`, `archive`, `savepoint`, `rollback`, `restore`: tend a table from a shell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeAlias

import typer

from lakedex.api import open
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
from lakedex.services.restoring import restore_table
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage.address import StorageAddress
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint, delete_savepoint, list_savepoints

Instant: TypeAlias = Annotated[str, typer.Argument(metavar="INSTANT", show_default=False)]


def clean(
    path: TablePath,
    *,
    option: HudiOptions = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Remove file versions that no retained commit needs, and end cleans that were cut short."""
    result = clean_table(_address(path, storage_option), parse_hudi_options(option))
    if as_json:
        print_json(result.as_dict())
    elif not result.instants:
        screen.say("there was nothing to clean", screen.GOOD)
    else:
        until = f"; complete since {result.earliest_retained}" if result.earliest_retained else ""
        screen.say(f"{result.files:,} files removed{until}", screen.GOOD)


def archive(
    path: TablePath,
    *,
    option: HudiOptions = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Move old instants out of the active timeline, into the history."""
    result = archive_table(_address(path, storage_option), parse_hudi_options(option))
    if as_json:
        print_json(result.as_dict())
        return
    own, inner = result.instants, result.metadata_instants
    screen.say(f"{own:,} instants archived, {inner:,} of the metadata table", screen.GOOD)


def savepoint(
    path: TablePath,
    instant: Annotated[
        str | None,
        typer.Argument(help="The commit to keep; the newest unless told.", show_default=False),
    ] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the savepoint.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Only list the savepoints.")] = False,
    user: Annotated[str, typer.Option(help="Who wants it.")] = "",
    comments: Annotated[str, typer.Option(help="Why.")] = "",
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Keep the files of a commit, so that the table can be restored to it; or let them go."""
    address = _address(path, storage_option)
    if delete:
        if instant is None:
            raise InvalidInput("--delete needs the INSTANT of the savepoint")
        delete_savepoint(address, instant)
    elif not list_all:
        create_savepoint(address, instant, user=user, comments=comments)
    table = open(path, storage_options=parse_storage_options(storage_option))
    table.snapshot.check_timeline()
    found = list_savepoints(table.timeline)
    if as_json:
        print_json({"savepoints": [each.as_dict() for each in found]})
        return
    for each in found:
        screen.say(f"{each.instant}  {each.files:,} files  {each.user} {each.comments}".rstrip())
    if not found:
        screen.say("there are no savepoints")


def rollback(
    path: TablePath,
    instant: Instant,
    *,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Take the newest commit back, or an instant that pends and that nobody writes any more."""
    result = rollback_instant(_address(path, storage_option), instant)
    if as_json:
        print_json(result.as_dict())
        return
    _say_rebuilt(result.indexes_rebuilt)
    screen.say(f"{instant} was rolled back", screen.GOOD)


def restore(
    path: TablePath,
    instant: Instant,
    *,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Take a table back to a savepoint, or to a commit whose files are all there.

    Stop all writers first. What was committed since is gone for good.
    """
    result = restore_table(_address(path, storage_option), instant)
    if as_json:
        print_json(result.as_dict())
        return
    _say_rebuilt(result.indexes_rebuilt)
    if result.builds_dropped:
        screen.say(f"not built to the end, and gone: {', '.join(result.builds_dropped)}")
    screen.say(f"{len(result.undone):,} instants undone; the table is as of {instant}", screen.GOOD)


def _say_rebuilt(indexes: Iterable[str]) -> None:
    if indexes:
        screen.say(f"indexes built anew: {', '.join(indexes)}")


def _address(path: str, storage_options: Iterable[str] | None) -> StorageAddress:
    return StorageAddress.of(path, parse_storage_options(storage_options))
