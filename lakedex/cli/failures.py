"""How a command ends when it cannot do its work: one clear line, and an exit code.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | the answer is bad news: problems were found, rows differ |
| 2 | the command could not be carried out, or was called wrongly |
| 130 | interrupted |
| 141 | whoever read the output went away |
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.cells import cell_len
from typer.core import TyperGroup

from lakedex.cli import screen
from lakedex.errors import InvalidDefinition, LakedexError

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
            screen.note(f"lakedex: {error}", screen.BAD)
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
    screen.note(f"lakedex: {error}", screen.BAD)
    if isinstance(error, _Pointed):
        before = screen.shown(error.text[max(error.position - _AROUND, 0) : error.position])
        after = screen.shown(error.text[error.position : error.position + _AROUND])
        screen.note_literally(f"  {before}{after}\n  {' ' * cell_len(before)}^")


def _without_place(message: str, position: int) -> str:
    """The message without its own quotation of the text, which is shown with a caret instead."""
    head, mark, _ = message.rpartition(f" at character {position}: ")
    return head.removesuffix("; found") if mark else message


def _write_into_nothing() -> None:
    """Let what is still buffered go nowhere, or the interpreter complains when it ends."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
