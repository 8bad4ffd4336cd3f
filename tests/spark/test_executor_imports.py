"""What workers import is there on an executor whose Python has pyarrow and numpy only."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from lakedex.engine import LocalEngine
from lakedex.spark.shipping import package_zip
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter

# Every module with a worker that an engine or a row source is handed.
WORKER_MODULES = [
    "lakedex.index.metadata_table.compaction",
    "lakedex.index.kinds.record_index.records",
    "lakedex.index.kinds.secondary.records",
    "lakedex.index.metadata_table.resharding",
    "lakedex.index.metadata_table.shard_writer",
    "lakedex.index.kinds.windowed.run_writer",
    "lakedex.services.clustering.moved_keys",
    "lakedex.spark.engine",
    "lakedex.spark.row_source",
    "lakedex.spark.slice_reading",
    "lakedex.write.build_survey",
    "lakedex.write.handles",
    "lakedex.write.intake_worker",
    "lakedex.write.layout.arranging",
    "lakedex.write.matching_rows",
    "lakedex.write.index_notes",
    "lakedex.write.shared_keys",
    "lakedex.write.tag",
    "lakedex.write.tag.index_lookup",
    "lakedex.write.tag_stage",
    "lakedex.write.windowed_index",
]


@pytest.fixture(scope="module")
def on_executor(executor_python):
    """`on_executor(program)` runs Python as an executor does, with the zips of pyspark and ours."""
    zips = [str(path) for path in (Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip")]

    def run(program: str) -> str:
        start = f"import sys; sys.path[:0] = {[package_zip(), *zips]!r}\n"
        done = subprocess.run(
            [executor_python, "-I", "-c", start + program],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run


def test_an_executor_has_nothing_else(on_executor):
    found = on_executor(
        "from importlib.util import find_spec\n"
        "print([n for n in ('fastavro', 'xxhash', 'obstore', 'isal', 'rich', 'pandas')"
        " if find_spec(n)])"
    )
    assert found.strip() == "[]"


@pytest.mark.parametrize("module", WORKER_MODULES)
def test_a_worker_module_is_imported_from_the_zip(on_executor, module):
    assert ".zip/lakedex/" in on_executor(f"import {module} as m; print(m.__file__)")


def test_an_object_store_without_its_package_is_told(on_executor):
    told = on_executor(
        "from lakedex.storage.open import StorageAddress\n"
        "from lakedex.errors import StorageError\n"
        "try: StorageAddress.of('s3://bucket/t').open()\n"
        "except StorageError as error: print(error)\n"
    )
    assert told.strip() == "s3:// needs the package obstore, which is not installed"


def test_a_late_attempt_can_ask_whether_its_file_is_in_the_table(on_executor, tmp_path):
    address = StorageAddress.of(str(tmp_path / "t"))
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    create_table(address.open(), TableSpec("t", schema, "id", None, "p", "cow"))
    rows = pa.table({"id": ["a"], "p": ["x"]}, schema=schema)
    written = TableWriter(address, LocalEngine(1)).insert(ArrowRowSource(rows))
    (path,) = (tmp_path / "t" / "p=x").glob("*.parquet")
    told = on_executor(
        "from lakedex.storage.open import StorageAddress\n"
        "from lakedex.write.handles.publishing import is_in_table\n"
        "from lakedex.write.handles.work import GroupWork\n"
        f"storage = StorageAddress.of({str(tmp_path / 't')!r}).open()\n"
        f"for instant in ({written.instant!r}, '99990101000000000'):\n"
        f"    for name in ({path.name!r}, 'other.parquet'):\n"
        "        group = GroupWork('p=x', 'f-0', None, (), None, name, False)\n"
        "        print(is_in_table(storage, instant, group))\n"
    )
    assert told.split() == ["True", "False", "False", "False"]


def test_the_zip_is_made_once_and_holds_compiled_modules():
    assert package_zip() == package_zip()
    with zipfile.ZipFile(package_zip()) as archive:
        names = archive.namelist()
    assert "lakedex/spark/engine.py" in names
    assert "lakedex/spark/engine.pyc" in names
    assert not [name for name in names if not name.endswith((".py", ".pyc", ".avsc"))]
