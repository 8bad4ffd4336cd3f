"""Verifying: every entry of every index held against the data of the table.

Names are brought when they are first used: who only reads a table does without all of this.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakedex.services.verifying.check import Check, FileRows, Subject, VerifyKind
    from lakedex.services.verifying.progress import Listener
    from lakedex.services.verifying.registry import KINDS
    from lakedex.services.verifying.report import Problem, ProblemKind, VerifyReport
    from lakedex.services.verifying.runner import verify

__all__ = [
    "KINDS",
    "Check",
    "FileRows",
    "Listener",
    "Problem",
    "ProblemKind",
    "Subject",
    "VerifyKind",
    "VerifyReport",
    "verify",
]

_HOMES = {
    "Check": "lakedex.services.verifying.check",
    "FileRows": "lakedex.services.verifying.check",
    "Subject": "lakedex.services.verifying.check",
    "VerifyKind": "lakedex.services.verifying.check",
    "Listener": "lakedex.services.verifying.progress",
    "KINDS": "lakedex.services.verifying.registry",
    "Problem": "lakedex.services.verifying.report",
    "ProblemKind": "lakedex.services.verifying.report",
    "VerifyReport": "lakedex.services.verifying.report",
    "verify": "lakedex.services.verifying.runner",
}


def __getattr__(name: str) -> object:
    """Bring a public name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
