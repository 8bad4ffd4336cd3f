"""lakedex: a lakehouse index engine for Python, on real Apache Hudi tables.

`lakedex.open(path)` gives a table that reads itself as Arrow, prunes files by every index that
it has, and explains what it would read. `lakedex.attach(spark)` and `lakedex.local()` write tables
as Spark jobs.
"""

from importlib import import_module

__version__ = "0.1.0"

__all__ = ["LakedexError", "ReadOptions", "Table", "attach", "indexes", "local", "open"]

_HOMES = {
    "LakedexError": "lakedex.errors",
    "ReadOptions": "lakedex.api",
    "Table": "lakedex.api",
    "attach": "lakedex.spark.session",
    "local": "lakedex.spark.session",
    "open": "lakedex.api",
}
_SPARK_PACKAGES = {"pyspark", "py4j"}


def __dir__() -> list[str]:
    """The public names, whatever modules are loaded."""
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> object:
    """Bring a public name when it is first used, so that workers load only what they need."""
    if name == "indexes":
        return import_module("lakedex.indexes")
    if name not in _HOMES:
        raise AttributeError(f"module 'lakedex' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _SPARK_PACKAGES:
            raise
        raise ImportError(f"lakedex.{name} needs Spark: pip install lakedex[spark]") from missing
    globals()[name] = value
    return value
