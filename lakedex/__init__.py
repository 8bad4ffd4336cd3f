"""lakedex: a lakehouse index engine for Python, on real Apache Hudi tables.

`lakedex.open(path)` gives a table that reads itself as Arrow, prunes files by every index that
it has, and explains what it would read.
"""

from importlib import import_module

__version__ = "0.1.0"

__all__ = ["LakedexError", "ReadOptions", "Table", "open"]

_HOMES = {
    "LakedexError": "lakedex.errors",
    "ReadOptions": "lakedex.api",
    "Table": "lakedex.api",
    "open": "lakedex.api",
}


def __getattr__(name: str) -> object:
    """Bring a public name when it is first used, so that workers load only what they need."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lakedex' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
