"""Verifying: every entry of every index compared with the data of the table.

Names are imported when they are first used: reading a table needs none of this.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakedex.services.verifying.data_pass import Listener
    from lakedex.services.verifying.report import VerifyReport
    from lakedex.services.verifying.runner import verify

__all__ = [
    "Listener",
    "VerifyReport",
    "verify",
]

_MODULES = {
    "Listener": "lakedex.services.verifying.data_pass",
    "VerifyReport": "lakedex.services.verifying.report",
    "verify": "lakedex.services.verifying.runner",
}


def __getattr__(name: str) -> object:
    """Import a public name from the module that defines it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
