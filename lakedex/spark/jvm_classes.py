"""lakedex's own classes in the driver's JVM: compiled once by Spark's Janino, then found by name.

The sources are in `java/`. Releases of Spark differ in a few types only, which replace marks in the
sources before they are compiled.

Janino's classes have a class loader of their own: `jvm.package.Class` does not find them, because
py4j uses the thread's context class loader. So the bytes are written to a folder that is added to
the class loader of the driver, and Spark finds the classes of `format("hudi")` and `USING hudi` by
name.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lakedex.errors import UnsupportedFeature
from lakedex.spark.jvm_contract import CONTRACT, HUDI_SOURCE, TABLE_RELATION, Contract

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
            problem = next((line for line in reason if "CompileException" in line), reason[0])
            raise UnsupportedFeature(f"{name} on Spark {_release(jvm)}: {problem}") from error
        loader = compiler.getClassLoader()
        bytecode.update({key: bytes(code) for key, code in compiler.getBytecodes().items()})
    return CompiledClasses(loader, bytecode)


def _release(jvm: Any) -> str:  # noqa: ANN401 - py4j's view of the JVM
    return str(jvm.org.apache.spark.package.SPARK_VERSION())


_SOURCES = (
    "FilterText",
    "Lists",
    "LakeFileIndex",
    "MergedScan",
    "MergedRelation",
    TABLE_RELATION,
    "PinnedRelations",
    "JoinSides",
    "JoinKeys",
    "JoinValues",
    "PinRule",
    "LakeScanExec",
    "LakeStrategy",
    "LakeOffset",
    "LakeStream",
    "LakeSink",
    "LakeSource",
    "Scans",
    "LakedexDefaultSource",
    "StatementRunner",
    "StatementCommand",
    "StatementParser",
    "Subqueries",
    "WriteAnalyzer",
    "Caches",
    "Zones",
    "Settings",
    "CoalescedTasks",
)
_HUDI_SOURCE = "HudiDefaultSource"
_MARK = "lakedex.jvm.Contract"
_HUDI = "hudi.DefaultSource"
_HUDI_NAMES = (HUDI_SOURCE, "HUDI", "Hudi", "org.apache.hudi")
"""What users write behind USING and in `format`; Spark looks for a class under each name."""
_HUDI_BUNDLE = "org.apache.hudi.HoodieSparkSqlWriter"
_ANALYZER = "org.apache.spark.sql.catalyst.analysis.Analyzer"
_COMMAND = "org.apache.spark.sql.execution.command.ExternalCommandExecutor"
_ANALYZER_MEMBERS = (
    "behind.catalogManager()",
    "behind.sharedRelationCache()",
    "scala.Option.empty()",
)


def install_classes(spark: SparkSession) -> Any:  # noqa: ANN401 - a JVM package
    """The package `lakedex.jvm` of the session's JVM, compiled if it is not there yet.

    Where Hudi's own bundle is present, `hudi` remains its name, and `lakedex` is ours.

    Raises:
        UnsupportedFeature: The driver's JVM takes no classes, or Spark is of another release.
    """
    jvm = spark.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if not has_class(loader, _MARK):
        sources = class_sources(spark, CONTRACT)
        if not has_hudi_bundle(loader) and not has_class(loader, _HUDI):
            source = java_source(_HUDI_SOURCE)
            for name in _HUDI_NAMES:
                sources[name] = source.replace("package hudi;", f"package {name};")
        folder = Path(tempfile.mkdtemp(prefix="lakedex-classes-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for name, code in compile_classes(jvm, sources).bytecode.items():
            path = folder / f"{name.replace('.', '/')}.class"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(code)
        try:
            loader.addURL(jvm.java.io.File(str(folder)).toURI().toURL())
        except Py4JError as error:
            kind = loader.getClass().getName()
            raise UnsupportedFeature(
                f"the driver's class loader ({kind}) takes no classes; start Spark with "
                "spark-submit or from Python"
            ) from error
    return jvm.lakedex.jvm


def class_sources(spark: SparkSession, contract: Contract) -> dict[str, str]:
    """The Java sources for the session's release of Spark, in the order of their compilation."""
    generated, types = contract.java_sources(), _types(spark)
    return {
        "Contract": generated["Contract"],
        "Python": java_source("Python"),
        "Calls": generated["Calls"],
        **{name: _fitted(java_source(name), types) for name in _SOURCES},
    }


def has_hudi_bundle(loader: Any) -> bool:  # noqa: ANN401 - a JVM object
    """Whether Hudi's own bundle is there, to which the name `hudi` then belongs."""
    return has_class(loader, _HUDI_BUNDLE)


def has_class(loader: Any, name: str) -> bool:  # noqa: ANN401 - a JVM object
    """Whether a class loader finds a class."""
    try:
        loader.loadClass(name)
    except Py4JError:
        return False
    return True


def _analyzer_arity(spark: SparkSession) -> int:
    """How many parameters this release's analyzer has; the first is always the catalogs."""
    loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    makers = loader.loadClass(_ANALYZER).getConstructors()
    wanted = [maker.getParameterTypes() for maker in makers]
    return max(len(kinds) for kinds in wanted if str(kinds[0].getSimpleName()) == "CatalogManager")


def _command_session(spark: SparkSession) -> str:
    """The class of the session with which this release runs a command."""
    loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    methods = loader.loadClass(_COMMAND).getDeclaredMethods()
    (run,) = [each for each in methods if each.getName() == "run" and not each.isBridge()]
    return str(run.getParameterTypes()[0].getName())


def _types(spark: SparkSession) -> dict[str, str]:
    """The types in which releases differ, by their marks in the sources."""
    is_classic = int(spark.version.partition(".")[0]) >= 4
    session = "classic.SparkSession" if is_classic else "SparkSession"
    dataset = "classic.Dataset" if is_classic else "Dataset"
    sequence = "collection.immutable.Seq" if is_classic else "collection.Seq"
    loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    # Scala 2.12 has an interface of its own, which Spark requires there.
    serializable = "scala.Serializable" if has_class(loader, "scala.Serializable") else ""
    return {
        "@SESSION@": f"org.apache.spark.sql.{session}",
        "@DATASET@": f"org.apache.spark.sql.{dataset}",
        "@SEQ@": f"scala.{sequence}",
        "@SERIALIZABLE@": serializable or "java.io.Serializable",
        "@INDEXED_SEQ@": f"scala.{sequence.replace('Seq', 'IndexedSeq')}",
        "@COMMAND_SESSION@": _command_session(spark),
        "@ANALYZER@": ", ".join(_ANALYZER_MEMBERS[: _analyzer_arity(spark)]),
    }


def _fitted(source: str, types: dict[str, str]) -> str:
    for mark, text in types.items():
        source = source.replace(mark, text)
    return source
