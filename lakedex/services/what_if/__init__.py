"""What an index that does not exist yet would do for a query: counted in the data, or sampled.

Names are imported when they are first used: reading a table needs none of this.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakedex.services.what_if.report import with_assumed

__all__ = ["with_assumed"]

_MODULES = {
    "with_assumed": "lakedex.services.what_if.report",
}


def __getattr__(name: str) -> object:
    """Import a public name from the module that defines it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
