"""The arguments that commands share, and the table that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, TypeAlias

import typer

from lakedex.api import ReadOptions, Table, open
from lakedex.errors import InvalidInput

TablePath: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        help="The table: a folder, or a URL such as s3://bucket/trips.",
        show_default=False,
    ),
]
StorageOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="A setting of the store, such as aws_region=eu-west-1; may be repeated. "
        "Credentials are better left to the environment.",
        show_default=False,
    ),
]
HudiOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="An option of Hudi, such as hoodie.clean.commits.retained=5; may be repeated.",
        show_default=False,
    ),
]
IndexNames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--index", help="Only this index; may be repeated.", show_default=False),
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON and nothing else on standard output.")
]
AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="The table as of an instant, or of a time such as '2026-11-15 18:30:00'.",
        show_default=False,
    ),
]
TimeZone: TypeAlias = Annotated[
    str, typer.Option(metavar="ZONE", help="The zone in which texts and dates become instants.")
]
Without: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="INDEX",
        help="Do not use this index, or this kind of index; 'all' prunes nothing. May be repeated.",
        show_default=False,
    ),
]
Limit: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="At most so many.", show_default=False)
]


def open_table(
    path: str,
    storage_options: Iterable[str] | None,
    *,
    time_zone: str = "UTC",
    without: Iterable[str] | None = None,
) -> Table:
    """The table that the arguments name."""
    options = ReadOptions(time_zone=time_zone, without_indexes=frozenset(without or ()))
    return open(path, storage_options=parse_storage_options(storage_options), options=options)


def parse_storage_options(given: Iterable[str] | None) -> dict[str, str]:
    """Settings of the store; a message never quotes what was given, which may be a secret.

    Example:
        >>> parse_storage_options(["aws_region=eu-west-1"])
        {'aws_region': 'eu-west-1'}
    """
    return dict(_pairs(given, lambda _: "--storage-option must be KEY=VALUE"))


def parse_hudi_options(given: Iterable[str] | None) -> dict[str, str]:
    """Options of Hudi.

    Example:
        >>> parse_hudi_options(["hoodie.clean.commits.retained=5"])
        {'hoodie.clean.commits.retained': '5'}
    """
    pairs = _pairs(given, lambda each: f"--option must be KEY=VALUE, not {each[:80]!r}")
    return {name.strip(): value.strip() for name, value in pairs}


def _pairs(
    given: Iterable[str] | None, complaint: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Each KEY=VALUE that was given, taken apart."""
    for each in given or ():
        name, mark, value = each.partition("=")
        if not mark or not name:
            raise InvalidInput(complaint(each))
        yield name, value
