"""The entry point of the command `lakedex`, with all its subcommands."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from lakedex import __version__
from lakedex.cli.buckets import buckets
from lakedex.cli.console import Commands
from lakedex.cli.demo import demo
from lakedex.cli.explain import explain
from lakedex.cli.indexes import advise, index, indexes
from lakedex.cli.metadata import metadata
from lakedex.cli.read import read
from lakedex.cli.services import (
    archive,
    clean,
    compact,
    resize,
    restore,
    rollback,
    savepoint,
    upgrade,
)
from lakedex.cli.show import show
from lakedex.cli.verify import repair, verify

# Rich tracebacks show the values of variables, credentials among them.
app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A value that the terminal's encoding lacks is escaped; it does not end the command.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="lakedex")


def _print_version(*, wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"lakedex {__version__}\n")
        raise typer.Exit


@app.callback()
def lakedex(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            callback=lambda value: _print_version(wanted=value),
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Look into Apache Hudi tables and their indexes, without Spark and without Java."""


for command in (
    show,
    indexes,
    buckets,
    metadata,
    explain,
    read,
    verify,
    repair,
    compact,
    resize,
    upgrade,
    demo,
):
    app.command()(command)
app.add_typer(index, name="index")
app.command()(advise)
for service in (clean, archive, savepoint, rollback, restore):
    app.command()(service)
