"""The package on executors whose Python has only pyarrow and numpy: it is sent to them as a zip.

The zip has compiled modules too: what an executor compiles out of a zip is not kept, so each of its
processes would compile them again. Executors run the same release of Python as the driver, which
Spark requires.
"""

from __future__ import annotations

import atexit
import hashlib
import marshal
import shutil
import sys
import tempfile
import zipfile
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

from pyspark import SparkContext
from pyspark.cloudpickle import dumps
from pyspark.cloudpickle.cloudpickle import (
    list_registry_pickle_by_value,
    register_pickle_by_value,
    unregister_pickle_by_value,
)

import lakedex
from lakedex.index.file_index import FileIndexKind, serialize_kinds_with

_EPOCH = (1980, 1, 1, 0, 0, 0)
_SUFFIXES = (".py", ".avsc")
_shipped: set[tuple[str, str]] = set()


def ship(context: SparkContext) -> None:
    """Send the package to the executors of a context, once."""
    serialize_kinds_with(pickled_by_value)
    path = package_zip()
    if (context.applicationId, path) not in _shipped:
        context.addPyFile(path)
        _shipped.add((context.applicationId, path))


def pickled_by_value(kind: FileIndexKind) -> bytes:
    """An index kind of another package with the code of that package.

    Modules that the package itself imports from elsewhere must be on the executors.
    """
    module = type(kind).__module__
    names = {module, module.partition(".")[0]} - {"__main__"}
    modules = [sys.modules[each] for each in sorted(names) if each in sys.modules]
    added = [each for each in modules if each.__name__ not in list_registry_pickle_by_value()]
    for each in added:
        register_pickle_by_value(each)
    try:
        pickled: bytes = dumps(kind)
    finally:
        for each in added:
            unregister_pickle_by_value(each)
    return pickled


@cache
def package_zip() -> str:
    """The path of the package as a zip; made once, and removed when this process ends."""
    root = Path(lakedex.__file__).parent
    paths = sorted(path for path in root.rglob("*") if path.suffix in _SUFFIXES)
    # The name says what is in it: a context that outlives an older one of the package takes both.
    digest = hashlib.sha256()
    entries: list[tuple[str, bytes]] = []
    for path in paths:
        name = path.relative_to(root.parent).as_posix()
        content = path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
        entries.append((name, content))
        if path.suffix == ".py":
            entries.append((f"{name}c", _compiled(path, content)))
    target = _folder() / f"lakedex-{lakedex.__version__}-{digest.hexdigest()[:12]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return str(target)


@cache
def _folder() -> Path:
    # Executors that start later fetch the file too, so it stays as long as this process.
    folder = tempfile.mkdtemp(prefix="lakedex-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


_UNCHECKED_HASH = (1).to_bytes(4, "little")
"""The flag of a compiled module that is taken without a look at its source."""


def _compiled(path: Path, content: bytes) -> bytes:
    # The loader takes what the interpreter keeps beside the source, where that is fresh.
    code = SourceFileLoader(path.stem, str(path)).get_code(path.stem)
    return MAGIC_NUMBER + _UNCHECKED_HASH + source_hash(content) + marshal.dumps(code)
