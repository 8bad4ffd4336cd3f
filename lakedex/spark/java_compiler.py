"""Java sources of this package, compiled in the driver by the Janino that Spark brings along.

What Janino compiles lives in a class loader of its own: `jvm.package.Class` does not find it, as
py4j asks the thread's context class loader, but objects of it can be made and called like any
other, static methods included. The bytes of the classes are at hand for those who want them
under a loader that Spark itself asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from py4j.protocol import Py4JError

from lakedex.errors import UnsupportedFeature

_FOLDER = "java"


@dataclass(frozen=True, slots=True)
class CompiledClasses:
    """Classes in the driver's JVM."""

    loader: Any
    """The class loader that has them all."""
    bytecode: Mapping[str, bytes]
    """The bytes of every class by its full name, inner classes included."""

    def instance(self, name: str) -> Any:  # noqa: ANN401 - a JVM object
        """A new object of a class that has a constructor without arguments."""
        return self.loader.loadClass(name).newInstance()


def java_source(name: str) -> str:
    """The text of one of the package's Java sources.

    Example:
        >>> "final class FilterText" in java_source("FilterText")
        True
    """
    folder = files("lakedex.spark").joinpath(_FOLDER)
    return folder.joinpath(f"{name}.java").read_text(encoding="utf-8")


def compile_classes(
    jvm: Any,  # noqa: ANN401 - py4j's view of the JVM
    sources: Mapping[str, str],
) -> CompiledClasses:
    """Compile Java sources in the driver.

    Args:
        jvm: `spark.sparkContext._jvm`.
        sources: The text of each source file by a name for messages; a source may use those that
            stand before it.

    Raises:
        UnsupportedFeature: A source does not fit this release of Spark.
    """
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    bytecode: dict[str, bytes] = {}
    for name, source in sources.items():
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        try:
            compiler.cook(name, source)
        except Py4JError as error:
            reason = str(error).strip().splitlines()
            told = next((line for line in reason if "CompileException" in line), reason[0])
            raise UnsupportedFeature(f"{name} on Spark {_release(jvm)}: {told}") from error
        loader = compiler.getClassLoader()
        bytecode.update({key: bytes(code) for key, code in compiler.getBytecodes().items()})
    return CompiledClasses(loader, bytecode)


def _release(jvm: Any) -> str:  # noqa: ANN401 - py4j's view of the JVM
    return str(jvm.org.apache.spark.package.SPARK_VERSION())
