"""What a person sees: rich tables and lines whose content is always taken literally.

Everything that comes out of a table goes through `shown`, and no text is read as markup. When
the output is not a terminal nothing is wrapped or cut, so that `grep` and `awk` find whole values.
`NO_COLOR` is honoured by rich.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

_PIPED_WIDTH = 1_000_000
GOOD = "green"
BAD = "red"
QUIET = "dim"
STRONG = "bold"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a printed table."""

    title: str
    is_number: bool = False


def shown(value: object) -> str:
    r"""A value as text without anything that could steer a terminal.

    Example:
        >>> shown("a\x1b[31mb")
        'a\\x1b[31mb'
        >>> shown(None), shown(True), shown(("a", "b"))
        ('', 'yes', 'a, b')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(shown(each) for each in value)
    text = str(value)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def size(count: int) -> str:
    """A number of bytes for people.

    Example:
        >>> size(5_893)
        '5.9 kB'
    """
    return decimal(count)


def absent() -> Text:
    """SQL's null in a cell, which is not the text `null`."""
    return Text("null", style=QUIET)


def say(text: str, style: str = "") -> None:
    """Print one line of the answer."""
    _console().print(Text(shown(text), style=style), soft_wrap=True)


def note(text: str, style: str = "") -> None:
    """Print one line beside the answer, on standard error."""
    console = _console(to_errors=True)
    console.print(Text(shown(text), style=style), soft_wrap=True)


def note_literally(text: str) -> None:
    """Print lines on standard error whose spaces and breaks are meant."""
    console = _console(to_errors=True)
    console.print(Text(text), soft_wrap=True)


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    *,
    title: str = "",
    styles: Sequence[str] = (),
) -> None:
    """Print rows as a table, each in its style; values are shown whole, folded where too long."""
    grid = _grid(title)
    for column in columns:
        justify = "right" if column.is_number else "left"
        grid.add_column(Text(shown(column.title)), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for number, row in enumerate(rows):
        cells = [_cell(value) for value in row]
        grid.add_row(*cells, style=styles[number] if styles else "")
    _console().print(grid)


def facts(pairs: Sequence[tuple[str, object]], *, title: str = "") -> None:
    """Print names with their values, one a line."""
    grid = _grid(title)
    grid.show_header = False
    grid.add_column("", style=QUIET, no_wrap=True)
    grid.add_column("", overflow="fold")
    for name, value in pairs:
        grid.add_row(Text(name), _cell(value))
    _console().print(grid)


def progress_console() -> Console:
    """The console on standard error, for spinners; silent when it is not a terminal."""
    return _console(to_errors=True)


def _grid(title: str) -> Table:
    return Table(
        title=Text(shown(title), style=STRONG) if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        header_style=STRONG,
    )


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}")
    return Text(shown(value))


class _Console(Console):
    """A console that leaves it to the command how to end when its reader went away."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console(*, to_errors: bool = False) -> Console:
    """A console on the stream of now, which tests and callers may have changed."""
    stream = sys.stderr if to_errors else sys.stdout
    console = _Console(file=stream, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    return console


@contextmanager
def working(what: str) -> Iterator[Callable[[int, int], None]]:
    """A spinner on standard error while something takes its time; nothing on a pipe.

    What it gives may be told how many steps are done, and how many there are.
    """
    console = progress_console()
    if not console.is_terminal:
        yield lambda _done, _total: None
        return
    with console.status(shown(what)) as status:
        yield lambda done, total: status.update(shown(f"{what}: {done} of {total}"))
