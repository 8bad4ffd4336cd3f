"""Which indexes to create and which to drop, from what queries have asked a table for.

Names are brought when they are first used: who only reads a table does without all of this.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakedex.services.advising.advice import Advice, Proposal
    from lakedex.services.advising.advisor import advise_table, joined_advice

__all__ = ["Advice", "Proposal", "advise_table", "joined_advice"]

_HOMES = {
    "Advice": "lakedex.services.advising.advice",
    "Proposal": "lakedex.services.advising.advice",
    "advise_table": "lakedex.services.advising.advisor",
    "joined_advice": "lakedex.services.advising.advisor",
}


def __getattr__(name: str) -> object:
    """Bring a public name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
