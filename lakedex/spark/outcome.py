"""How an error of a worker reaches the driver: as itself, not as the text of a stack.

An error that would come again in every attempt is handed back as the worker's answer, and Spark
does not try again. One that may pass (the store did not answer) fails the attempt, so that Spark
tries again; it is spelled into the message, from which the driver takes it when Spark gives up.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakedex import errors
from lakedex.errors import LakedexError, StorageError

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Answer]):
    """What came of a worker: an answer, or an error by its text form."""

    answer: Answer | None = None
    failure: str | None = None

    def unwrapped(self) -> Answer:
        """The answer; the error is raised."""
        if self.failure is not None:
            raise _from_text(self.failure)
        return self.answer  # type: ignore[return-value]


class AttemptFailed(Exception):
    """An attempt that Spark may repeat; the message carries the error."""


def outcome_of(work: Callable[[], Answer]) -> Outcome[Answer]:
    """Do the work in a task.

    Raises:
        AttemptFailed: What went wrong may pass.
    """
    try:
        return Outcome(answer=work())
    except LakedexError as error:
        if type(error) is StorageError:
            raise AttemptFailed(f"{_OPENING}{_to_text(error)}{_CLOSING} {error}") from error
        return Outcome(failure=_to_text(error))


def carried_error(text: str) -> LakedexError | None:
    """The error that the text of a failed job carries.

    Example:
        >>> try:
        ...     outcome_of(lambda: (_ for _ in ()).throw(StorageError("s3://b is not there")))
        ... except AttemptFailed as failed:
        ...     carried_error(f"Job aborted: {failed}")
        StorageError('s3://b is not there')
    """
    found = _CARRIED.search(text)
    return None if found is None else _from_text(found.group(1))


_OPENING, _CLOSING = "[lakedex:", "]"
_CARRIED = re.compile(r"\[lakedex:([A-Za-z0-9_=-]+)\]")


def _to_text(error: LakedexError) -> str:
    # The nearest class that everybody knows comes first.
    names = [kind.__name__ for kind in type(error).__mro__ if issubclass(kind, LakedexError)]
    fields = {name: _plain(value) for name, value in vars(error).items()}
    tree = {"names": names, "message": str(error), "fields": fields}
    return base64.urlsafe_b64encode(json.dumps(tree).encode()).decode()


def _from_text(text: str) -> LakedexError:
    tree = json.loads(base64.urlsafe_b64decode(text))
    known = (getattr(errors, name, None) for name in tree["names"])
    kind = next(one for one in known if one is not None)
    # The constructors differ; what they would set is at hand.
    error: LakedexError = kind.__new__(kind)
    Exception.__init__(error, tree["message"])
    vars(error).update(tree["fields"])
    return error


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
