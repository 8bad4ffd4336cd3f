"""What an index that does not exist yet would do for a query: counted in the data, or sampled.

Names are brought when they are first used: who only reads a table does without all of this.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakedex.services.assuming.report import with_assumed

__all__ = ["with_assumed"]

_HOMES = {
    "with_assumed": "lakedex.services.assuming.report",
}


def __getattr__(name: str) -> object:
    """Bring a public name from the module that defines it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
