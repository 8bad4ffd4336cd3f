"""The output of commands: rich tables and lines, JSON, and errors with exit codes.

Text out of a table goes through `shown`, and is never read as markup. When the output is not a
terminal nothing is wrapped or cut, so that `grep` and `awk` find whole values. rich respects
`NO_COLOR`.

JSON goes to standard output, and nothing beside it. Only ASCII is written: other characters are
escaped, so neither the encoding of the stream nor a terminal can change the values.

A command that fails prints one line, and ends with an exit code:

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | the command found problems, or rows that differ |
| 2 | the command failed, or its arguments are wrong |
| 130 | interrupted |
| 141 | the reader of the output closed it |

Values of Arrow columns, in `--json` and in the cells of tables:

| Arrow | JSON |
| --- | --- |
| binary | base64 text |
| decimal, date, time, timestamp | text; instants end in `Z`, wall clock times do not |
| NaN and the infinities | the texts `NaN`, `Infinity`, `-Infinity` |
| map | object if its keys are text, else a list of `{"key": ..., "value": ...}` |
| list, struct | list, object |
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from lakedex.errors import InvalidDefinition, LakedexError

_PIPED_WIDTH = 1_000_000
_PICTURE_WIDTH = 80
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


def width() -> int:
    """How many characters a line of the terminal has; 80 where the output is no terminal."""
    console = _console()
    return console.width if console.is_terminal else _PICTURE_WIDTH


def shows(text: str) -> bool:
    """Whether the encoding of the output has the characters of a text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def absent() -> Text:
    """SQL's null in a cell, which is not the text `null`."""
    return Text("null", style=QUIET)


def say(text: str, style: str = "") -> None:
    """Print one line of the answer."""
    _console().print(Text(shown(text), style=style), soft_wrap=True)


def note(text: str, style: str = "") -> None:
    """Print one line beside the answer, on standard error."""
    _console(to_errors=True).print(Text(shown(text), style=style), soft_wrap=True)


def note_literally(text: str) -> None:
    """Print lines on standard error whose spaces and breaks are meant."""
    _console(to_errors=True).print(Text(text), soft_wrap=True)


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

    The result is called with the number of steps that are done, and of all steps.
    """
    console = progress_console()
    if not console.is_terminal:
        yield lambda _done, _total: None
        return
    with console.status(shown(what)) as status:
        yield lambda done, total: status.update(shown(f"{what}: {done} of {total}"))


def print_json(value: object) -> None:
    """Print one JSON value over several lines."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_json_line(value: object) -> None:
    """Print one JSON value on a line of its own."""
    sys.stdout.write(json_line(value) + "\n")


def json_line(value: object) -> str:
    """One JSON value without line breaks.

    Example:
        >>> json_line({"city": "a"})
        '{"city": "a"}'
    """
    return json.dumps(value, allow_nan=False)


FOUND_PROBLEMS = 1
CANNOT = 2
INTERRUPTED = 130
READER_GONE = 141
_AROUND = 60


class Commands(TyperGroup):
    """The group of all commands; turns errors into a line and an exit code."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer hides the class
        """Run the command, and see that its output arrived."""
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except LakedexError as error:
            _report(error)
            raise typer.Exit(CANNOT) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error
        except BrokenPipeError as error:
            _write_into_nothing()
            raise typer.Exit(READER_GONE) from error
        except OSError as error:
            note(f"lakedex: {error}", BAD)
            raise typer.Exit(CANNOT) from error
        return answer


class _Pointed(LakedexError):
    """An error with the text that it is about and the place in it."""

    def __init__(self, error: InvalidDefinition, text: str, position: int) -> None:
        super().__init__(_without_place(str(error), position))
        self.text = text
        self.position = min(max(position, 0), len(text))


@contextmanager
def pointing_into(text: str | None) -> Iterator[None]:
    """Errors that know their place in `text` are shown with a caret under it."""
    try:
        yield
    except InvalidDefinition as error:
        if text is None or error.position is None:
            raise
        raise _Pointed(error, text, error.position) from error


def _report(error: LakedexError) -> None:
    note(f"lakedex: {error}", BAD)
    if isinstance(error, _Pointed):
        before = shown(error.text[max(error.position - _AROUND, 0) : error.position])
        after = shown(error.text[error.position : error.position + _AROUND])
        note_literally(f"  {before}{after}\n  {' ' * cell_len(before)}^")


def _without_place(message: str, position: int) -> str:
    """The message without its own quotation of the text, which is shown with a caret instead."""
    head, mark, _ = message.rpartition(f" at character {position}: ")
    return head.removesuffix("; found") if mark else message


def _write_into_nothing() -> None:
    """Let what is still buffered go nowhere, or the interpreter complains when it ends."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())


def plain_rows(rows: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows as dictionaries of plain values.

    Example:
        >>> list(plain_rows(pa.table({"a": [1.5, float("nan")], "b": [b"x", None]})))
        [{'a': 1.5, 'b': 'eA=='}, {'a': 'NaN', 'b': None}]
    """
    names = rows.schema.names
    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    for batch in batches:
        columns = [plain_values(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


def plain_values(array: pa.Array) -> list[Any]:
    """The values of an array as JSON has them."""
    for matches, convert in _CONVERSIONS:
        if matches(array.type):
            return convert(array)
    values: list[Any] = array.to_pylist()
    return values


def temporal_text(array: pa.Array) -> pa.Array:
    """Dates, times and timestamps as text, also those that Python's classes cannot hold."""
    kind = array.type
    if not pa.types.is_timestamp(kind):
        return array.cast(pa.string())
    text = array.view(pa.int64()).view(pa.timestamp(kind.unit)).cast(pa.string())
    if kind.tz is None:
        return text
    return pa.array([None if each is None else f"{each}Z" for each in text.to_pylist()], text.type)


def is_temporal(kind: pa.DataType) -> bool:
    """Whether values are dates, times or timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether values are bytes, of any length."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _temporal(array: pa.Array) -> list[Any]:
    values: list[Any] = temporal_text(array).to_pylist()
    return values


def _decimals(array: pa.Array) -> list[Any]:
    return [None if each is None else str(each) for each in array.to_pylist()]


def _binaries(array: pa.Array) -> list[Any]:
    encode = base64.b64encode
    return [None if each is None else encode(each).decode("ascii") for each in array.to_pylist()]


def _floats(array: pa.Array) -> list[Any]:
    values = array.to_pylist()
    if pa.types.is_float32(array.type):
        # The shortest text that means this float: 0.1, not 0.10000000149011612.
        texts = array.cast(pa.string()).to_pylist()
        values = [None if each is None else float(each) for each in texts]
    return [each if each is None or math.isfinite(each) else _named(each) for each in values]


def _named(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def _structs(array: pa.StructArray) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [plain_values(child) for child in array.flatten()]
    valid = array.is_valid().to_pylist()
    if not columns:
        return [{} if is_valid else None for is_valid in valid]
    rows = zip(*columns, strict=True)
    pairs = zip(valid, rows, strict=True)
    return [dict(zip(names, row, strict=True)) if ok else None for ok, row in pairs]


def _lists(array: pa.ListArray) -> list[Any]:
    values = plain_values(array.flatten())
    lengths = array.value_lengths().to_pylist()
    found: list[Any] = []
    begin = 0
    for length in lengths:
        found.append(None if length is None else values[begin : begin + length])
        begin += length or 0
    return found


def _maps(array: pa.MapArray) -> list[Any]:
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    keys, items = plain_values(array.keys), plain_values(array.items)
    named = pa.types.is_string(array.type.key_type)
    found: list[Any] = []
    for row, is_valid in enumerate(valid):
        cut = slice(offsets[row], offsets[row + 1])
        pairs = zip(keys[cut], items[cut], strict=True)
        entries = dict(pairs) if named else [{"key": key, "value": item} for key, item in pairs]
        found.append(entries if is_valid else None)
    return found


_CONVERSIONS: list[tuple[Callable[[pa.DataType], bool], Callable[[Any], list[Any]]]] = [
    (is_temporal, _temporal),
    (pa.types.is_decimal, _decimals),
    (is_binary, _binaries),
    (pa.types.is_floating, _floats),
    (pa.types.is_struct, _structs),
    (pa.types.is_map, _maps),
    (pa.types.is_list, _lists),
]
